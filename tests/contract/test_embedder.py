"""What every embedder promises, asked of two tiny models and of the real default one.

Each backend that this machine has is asked; the others are skipped with the reason.

The heart of it: a text's vector depends on the text alone, never on its neighbours.
"""

import asyncio
from collections.abc import Iterator
from pydoc_data.topics import topics

import numpy as np
import pytest
from judged.values.choices import Flag
from judged_server.embedding import batching
from judged_server.embedding.base import LONG_TEXT_POLICIES, TEXT_TOO_LONG
from judged_server.embedding.embedder import ModelEmbedder
from judged_server.embedding.models.loading import load_embedder
from judged_server.embedding.models.store import DEFAULT_MODEL, ModelStore
from judged_server.embedding.runtime.backend import (
    CUDA,
    Backend,
    RuntimeConfig,
    choose,
)
from judged_server.errors import ModelNotInstalled
from judged_server.settings import SettingsError

from tests.fakes.models import tiny_model

TOLERANCE = 1e-4
"""On each element and on each cosine, in any company, at every precision."""

BACKENDS = {
    "onnxruntime": ("onnxruntime", "fp32"),
    "openvino-fp32": ("openvino", "fp32"),
    "openvino-bf16": ("openvino", "bf16"),
    "cuda-fp32": ("cuda", "fp32"),
}
TO_FP32 = {"fp32": (TOLERANCE, 1e-5), "bf16": (5e-3, 3e-3)}
"""On a cosine and on an element, against the figures of sentence-transformers."""
CHANGED = 0.002
"""The largest share of verdicts that are not those of fp32, at thresholds with many pairs."""

TEXTS = [
    "",
    " ",
    "a",
    "The cat sits on the mat.",
    "A cat is sitting on a mat.",
    "Vector databases store embeddings; retrieval finds them again.",
    "nul\0inside",
    "\u202eright to left\u202c",
    "zero\u200bwidth\u200djoiner\ufeff",
    "naïve café déjà vu",
    "e\u0301 and é",
    "中文没有空格",
    "Привет, как дела?",
    "a rocket 😀🚀",
    "a key " + "x" * 101,
    "!?" * 30,
    "[CLS] [SEP] [PAD] [MASK]",
    "word " * 40,
    "the quick brown fox jumps over the lazy dog " * 40,
]


def paragraphs(n: int) -> list[str]:
    """Return paragraphs of Python's own help texts, which every installation has."""
    parts = {part.strip() for text in topics.values() for part in text.split("\n\n")}
    long_enough = sorted(part for part in parts if len(part) >= 40)
    return [
        long_enough[i]
        for i in np.random.Generator(np.random.PCG64(20)).permutation(len(long_enough))[:n]
    ]


PARAGRAPHS = paragraphs(120)


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    try:
        return choose(*BACKENDS[request.param])
    except SettingsError as error:
        gpu = "no NVIDIA GPU: " if BACKENDS[request.param][0] == CUDA else ""
        pytest.skip(f"not run: {gpu}{error}")


@pytest.fixture(scope="module", params=["tiny-mean", "tiny-cls", DEFAULT_MODEL])
def embedder(
    request: pytest.FixtureRequest, backend: Backend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ModelEmbedder]:
    if request.param == DEFAULT_MODEL:
        try:
            files = ModelStore().load(DEFAULT_MODEL)
        except ModelNotInstalled as error:
            pytest.fail(f"{error.message} (`make setup` does it)")
    else:
        root = tmp_path_factory.mktemp(request.param)
        files = tiny_model.stored_files(root, pooling=request.param.removeprefix("tiny-"))
    try:
        loaded = load_embedder(files, RuntimeConfig(backend, threads=2, max_delay_s=60.0))
    except SettingsError as error:
        # An ONNX Runtime for GPUs on a machine without one.
        pytest.skip(f"not run: {error}")
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def reference() -> np.ndarray:
    """The vectors of `PARAGRAPHS` by the default model, as it computes unless told otherwise."""

    async def embed() -> np.ndarray:
        loaded = load_embedder(ModelStore().load(DEFAULT_MODEL))
        try:
            return (await loaded.embed(PARAGRAPHS, "truncate")).vectors
        finally:
            loaded.close()

    return asyncio.run(embed())


@pytest.fixture(scope="module")
def known(embedder: ModelEmbedder) -> list[str]:
    """The texts that the model's vocabulary has words of: the others have no vector."""
    faults = asyncio.run(embedder.embed(TEXTS, "truncate")).faults
    assert {reason for reason, *_ in faults.values()} <= {"UNSUPPORTED_TEXT"}
    texts = [text for i, text in enumerate(TEXTS) if i not in faults]
    assert len(texts) > len(TEXTS) / 2
    return texts


@pytest.fixture(scope="module")
def alone(embedder: ModelEmbedder, known: list[str]) -> np.ndarray:
    """The vector of each text, embedded by itself."""

    async def embed() -> list[np.ndarray]:
        return [(await embedder.embed([text], "truncate")).vectors[0] for text in known]

    return np.stack(asyncio.run(embed()))


def _differ(vectors: np.ndarray, others: np.ndarray) -> float:
    """The largest difference of an element, and of a cosine with any text."""
    cosines = np.abs(vectors @ vectors.T - others @ others.T)
    return max(float(np.abs(vectors - others).max()), float(cosines.max()))


class TestInvariance:
    async def test_a_text_has_the_same_vector_in_any_batch(
        self, embedder: ModelEmbedder, known: list[str], alone: np.ndarray
    ) -> None:
        together = await embedder.embed(known, "truncate")
        assert _differ(together.vectors, alone) <= TOLERANCE

    async def test_and_with_any_padding(
        self,
        embedder: ModelEmbedder,
        known: list[str],
        alone: np.ndarray,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        for budget in (1, 64, 512, 100_000):
            monkeypatch.setattr(batching, "BATCH_TOKENS", budget)
            together = await embedder.embed(known, "truncate")
            assert _differ(together.vectors, alone) <= TOLERANCE, budget

    async def test_and_in_any_order_and_company(
        self, embedder: ModelEmbedder, known: list[str], alone: np.ndarray
    ) -> None:
        for seed in range(3):
            rng = np.random.default_rng(seed)
            company = [
                f"company {rng.integers(10**9)} " * int(rng.integers(1, 9)) for _ in range(30)
            ]
            texts = [*known, *company]
            order = rng.permutation(len(texts))
            shuffled = await embedder.embed([texts[i] for i in order], "truncate")
            rows = np.asarray(shuffled.row_offsets)[np.argsort(order)[: len(known)]]
            assert _differ(shuffled.vectors[rows], alone) <= TOLERANCE, seed

    async def test_a_text_alone_has_the_same_bits_again(
        self, embedder: ModelEmbedder, known: list[str], alone: np.ndarray
    ) -> None:
        # Of many texts only the tolerance is promised: how they are cut into batches depends on
        # which workers are idle, and the last bit of an element on the width of its batch.
        again = [(await embedder.embed([text], "truncate")).vectors[0] for text in known]
        np.testing.assert_array_equal(np.stack(again), alone)

    async def test_calls_side_by_side_get_what_they_get_alone(
        self, embedder: ModelEmbedder, known: list[str], alone: np.ndarray
    ) -> None:
        calls = [embedder.embed(known[start::4], "truncate") for start in range(4)]
        for start, embedded in enumerate(await asyncio.gather(*calls)):
            assert _differ(embedded.vectors, alone[start::4]) <= TOLERANCE


class TestShape:
    @pytest.mark.parametrize("long_text", LONG_TEXT_POLICIES)
    async def test_texts_own_neighbouring_rows_and_every_row_is_finite(
        self, embedder: ModelEmbedder, long_text: str
    ) -> None:
        embedded = await embedder.embed(TEXTS, long_text)
        offsets = list(embedded.row_offsets)
        assert offsets[0] == 0
        assert offsets == sorted(offsets)
        assert len(offsets) == len(TEXTS) + 1
        assert embedded.vectors.shape == (offsets[-1], embedder.card.dimensions)
        assert embedded.vectors.dtype == np.float32
        assert embedded.flags.dtype == np.uint8
        assert embedded.flags.shape == (len(TEXTS),)
        lengths = np.linalg.norm(embedded.vectors, axis=1)
        np.testing.assert_allclose(lengths, 1, atol=1e-6)


class TestLongTexts:
    LONG = "the quick brown fox jumps over the lazy dog " * 200

    async def test_truncation_keeps_the_start_and_says_so(self, embedder: ModelEmbedder) -> None:
        embedded = await embedder.embed(["a", self.LONG, self.LONG + "tail"], "truncate")
        assert embedded.flags.tolist() == [Flag.NONE, Flag.TRUNCATED, Flag.TRUNCATED]
        assert np.abs(embedded.vectors[1] - embedded.vectors[2]).max() <= TOLERANCE

    async def test_rejection_is_the_fault_of_the_long_text_alone(
        self, embedder: ModelEmbedder
    ) -> None:
        embedded = await embedder.embed(["a", self.LONG, "b"], "reject")
        assert {i: reason for i, (reason, _) in embedded.faults.items()} == {1: TEXT_TOO_LONG}
        assert not embedded.flags.any()
        alone = await embedder.embed(["a", "b"], "reject")
        rows = [embedded.row_offsets[0], embedded.row_offsets[2]]
        assert np.abs(embedded.vectors[rows] - alone.vectors).max() <= TOLERANCE

    async def test_a_mebibyte_of_anything_is_taken(self, embedder: ModelEmbedder) -> None:
        for unit in ("x", "!", "a ", "中", "\0", "\u200b"):
            text = unit * ((1 << 20) // len(unit.encode()))
            embedded = await embedder.embed([text], "truncate")
            reasons = {reason for reason, *_ in embedded.faults.values()}
            assert reasons <= {"UNSUPPORTED_TEXT"}, unit  # one long word is in no vocabulary
            assert np.isfinite(embedded.vectors).all(), unit


class TestDefaultModel:
    """Figures of sentence-transformers 6.2.0 on torch 2.13.0 for the same weights."""

    TEXTS = (
        "The cat sits on the mat.",
        "A cat is sitting on a mat.",
        "Quantum computers use qubits.",
        "Vector databases store embeddings.",
        "rag combines retrieval with generation for better accuracy",
        "rag is a technique that combines retrieval with generation",
        "naïve café déjà vu",
        "",
        "Le chat est assis sur le tapis.",
    )
    COSINES = (
        (0, 1, 0.971757),
        (0, 2, -0.020788),
        (2, 3, 0.079278),
        (3, 4, 0.240708),
        (4, 5, 0.887702),
        (5, 6, 0.141906),
        (6, 7, 0.225304),
        (0, 8, 0.010400),
        (7, 8, 0.110434),
        (3, 6, 0.154814),
    )
    FIRST_ELEMENTS = (
        (0, (0.134177, -0.032901, -0.024804)),
        (7, (-0.118838, 0.048299, -0.002548)),
    )

    async def test_vectors_are_those_of_sentence_transformers(
        self, embedder: ModelEmbedder
    ) -> None:
        if embedder.card.name != DEFAULT_MODEL:
            pytest.skip("the figures are those of the default model")
        on_cosine, on_element = TO_FP32[embedder.card.precision]
        vectors = (await embedder.embed(self.TEXTS, "truncate")).vectors
        for i, j, cosine in self.COSINES:
            assert float(vectors[i] @ vectors[j]) == pytest.approx(cosine, abs=on_cosine)
        for i, elements in self.FIRST_ELEMENTS:
            np.testing.assert_allclose(vectors[i, :3], elements, atol=on_element)

    async def test_verdicts_are_those_of_the_reference_but_for_few(
        self, embedder: ModelEmbedder, reference: np.ndarray
    ) -> None:
        if embedder.card.name != DEFAULT_MODEL:
            pytest.skip("the figures are those of the default model")
        vectors = (await embedder.embed(PARAGRAPHS, "truncate")).vectors
        pairs = np.triu_indices(len(PARAGRAPHS), 1)
        ours, theirs = (rows @ rows.T for rows in (vectors, reference))
        precision = embedder.card.precision
        on_cosine, _ = TO_FP32[precision]
        assert np.abs(ours - theirs).max() <= on_cosine
        for threshold in (0.25, 0.5, 0.75):
            assert ((ours >= threshold) != (theirs >= threshold))[pairs].mean() <= CHANGED
