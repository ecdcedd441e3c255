"""The semantic judge: the cosine of two texts' embeddings. The query is not used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from judged.values.choices import Status
from judged.values.judges import JudgeIdentity

from judged_server.domain import (
    ByteArray,
    Float32Array,
    FloatArray,
    Group,
    IntArray,
    JudgeSpec,
    Parameter,
    ParameterScalar,
    ScoreColumns,
    VerdictFault,
)
from judged_server.embedding.base import (
    EMBEDDING_FAILED,
    LONG_TEXT_POLICIES,
    OVERLOADED,
    TRUNCATE,
    UNSUPPORTED_TEXT,
    Embedded,
    ModelCard,
)
from judged_server.embedding.models.store import CALLER
from judged_server.embedding.registry import LazyEmbedder, StoredEmbedders
from judged_server.embedding.runtime.session import unit_rows
from judged_server.judges.base import (
    ANONYMOUS,
    Caller,
    Judge,
    JudgeKind,
    Missing,
    Profile,
    join_columns,
    size_of,
    with_missing,
)
from judged_server.scheduling.concurrency import INLINE_BYTES, run_by_size, run_computation
from judged_server.scheduling.fairness import checkpoint

VERSION = 2
MIN_SCORE = 0.75
"""The default threshold. Metrics of the family `_similarity` have a threshold of their own, which
is in `metrics.measures`."""

BLOCK_CELLS = 1 << 20
"""The most cosines in one matrix product: 8 MB, however large the sides."""

_ROUNDING = 1e-12


class SemanticKind(JudgeKind):
    """Builds semantic judges over the embedding models of this server."""

    kind = "semantic"
    profiles = (
        Profile(
            "",
            "Cosine of the two texts' embeddings; the query is not used. The threshold is a "
            "default that a request may set; metrics *_similarity have a fixed one of their own.",
            MIN_SCORE,
            (
                Parameter(
                    "model",
                    "",
                    f'The embedding model; empty for the server\'s default, "{CALLER}" for vectors '
                    "that every group brings itself.",
                ),
                Parameter(
                    "long_text",
                    TRUNCATE,
                    "A text longer than the model's window is truncated and flagged, rejected, or "
                    "cut into windows of which the best cosine counts.",
                    choices=LONG_TEXT_POLICIES,
                ),
            ),
        ),
    )
    for_embeddings: Mapping[str, ParameterScalar] | None = {"model": CALLER}

    def __init__(self, embedders: StoredEmbedders) -> None:
        self._embedders = embedders

    def build(self, spec: JudgeSpec) -> SemanticJudge:
        """Return the judge. Raises ModelNotInstalled when its model is not on this server."""
        model = str(spec.parameters.get("model", ""))
        min_score = MIN_SCORE if spec.min_score is None else spec.min_score
        if model == CALLER:
            return SemanticJudge(None, TRUNCATE, caller_identity(min_score))
        embedder = self._embedders.get(model)
        long_text = str(spec.parameters.get("long_text", TRUNCATE))
        return SemanticJudge(embedder, long_text, _identify(embedder.card, long_text, min_score))


class SemanticJudge(Judge):
    """Scores groups by cosine."""

    def __init__(
        self, embedder: LazyEmbedder | None, long_text: str, identity: JudgeIdentity
    ) -> None:
        """Take an embedder for texts, or None for vectors that callers send."""
        self._embedder = embedder
        self._long_text = long_text
        self.identity = identity
        self.wants = "texts" if embedder is not None else "embeddings"

    async def judge(self, groups: Sequence[Group], caller: Caller = ANONYMOUS) -> ScoreColumns:
        """Return one score for each context; each distinct text is embedded once.

        Cancelling it drops batches of texts and groups that have not begun.
        """
        size = size_of(groups)
        numbers = await run_by_size(size, _number_texts, groups)
        embedded = _NOTHING
        if self._embedder is not None and numbers:
            embedded = await self._embedder.embed(list(numbers), self._long_text, caller.deadline)
        texts = _Texts(numbers, embedded)
        if size < INLINE_BYTES:
            return texts.score(groups)
        return await run_computation(texts.score, groups)


def caller_identity(min_score: float) -> JudgeIdentity:
    """Return the identity of the judge of vectors that callers send.

    How the vectors are made is not known here, so the identity says nothing about it.
    """
    return JudgeIdentity.build("semantic", "", min_score, [("model", CALLER)], version=1)


def score_vectors(groups: Sequence[Group]) -> ScoreColumns:
    """Return the cosine of each context of groups that bring their own vectors."""
    return _Texts({}, _NOTHING).score(groups)


class _Texts:
    """Distinct texts with their vectors, looked up by text."""

    def __init__(self, numbers: dict[str, int], embedded: Embedded) -> None:
        self._flags = embedded.flags
        self._faults = embedded.faults
        self._numbers = numbers
        self._offsets = np.asarray(embedded.row_offsets, np.int64)
        # A text without a vector gets another's row; its verdicts are missing.
        blank = np.zeros((1, embedded.vectors.shape[1]), np.float32)
        self._vectors = embedded.vectors if len(embedded.vectors) else blank

    def score(self, groups: Sequence[Group]) -> ScoreColumns:
        """Return the scores of all contexts; calls `checkpoint` for each group."""
        parts = []
        for group in groups:
            checkpoint()
            parts.append(self._score(group))
        return join_columns(parts)

    def _score(self, group: Group) -> ScoreColumns:
        if not group.n_contexts:
            return ScoreColumns(np.zeros(0))
        faults: dict[int, Missing] = {}
        if group.embeddings is not None:
            sides = Side(group.embeddings.retrieved), Side(group.embeddings.expected)
            return _without_gaps(cosine_matrix(*sides).ravel(), None, faults)
        retrieved, expected = self._ids(group.retrieved), self._ids(group.expected)
        scores = cosine_matrix(self._side(retrieved), self._side(expected)).ravel()
        flags = (self._flags[retrieved][:, None] | self._flags[expected]).ravel()
        cells = np.arange(len(scores)).reshape(len(retrieved), len(expected))
        # The fault of a retrieved text replaces that of an expected one.
        axes = (("expected", expected, cells.T), ("retrieved", retrieved, cells))
        for side, ids, rows in axes if self._faults else ():
            for row, number in zip(rows, ids.tolist(), strict=True):
                if number in self._faults:
                    reason, message = self._faults[number]
                    why = _missing(reason, f"{side} text: {message}")
                    faults |= dict.fromkeys(row.tolist(), why)
        return _without_gaps(scores, flags if flags.any() else None, faults)

    def _ids(self, texts: Sequence[str]) -> IntArray:
        return np.array([self._numbers[text] for text in texts], np.int64)

    def _side(self, ids: IntArray) -> Side:
        starts = np.minimum(self._offsets[ids], len(self._vectors) - 1)
        counts = np.maximum(self._offsets[ids + 1] - self._offsets[ids], 1)
        if counts.max() == 1:
            return Side(self._vectors[starts])
        first = np.cumsum(counts) - counts
        rows = np.repeat(starts - first, counts) + np.arange(counts.sum())
        return Side(self._vectors[rows], first)


_NOTHING = Embedded(np.zeros((0, 1), np.float32), (0,), np.zeros(0, np.uint8), {})


def _identify(card: ModelCard, long_text: str, min_score: float) -> JudgeIdentity:
    return JudgeIdentity.build(
        kind="semantic",
        profile="",
        min_score=min_score,
        parts=[
            ("model", card.name),
            ("sha", card.model_sha256[:8]),
            ("max_tokens", str(card.max_tokens)),
            ("long_text", long_text),
            ("precision", card.precision),
            ("provider", card.execution_provider),
        ],
        version=VERSION,
        secret_parts=[
            ("model_sha256", card.model_sha256),
            ("tokenizer_sha256", card.tokenizer_sha256),
            ("pooling", card.pooling),
            ("normalize", str(card.normalize)),
            ("prefix", card.prefix),
        ],
    )


def _number_texts(groups: Sequence[Group]) -> dict[str, int]:
    """Return the distinct texts that need a vector, numbered in order of appearance."""
    numbers: dict[str, int] = {}
    for group in groups:
        if group.embeddings is None and group.n_contexts:
            for text in (*group.expected, *group.retrieved):
                numbers.setdefault(text, len(numbers))
    return numbers


def _without_gaps(
    scores: FloatArray, flags: ByteArray | None, missing: dict[int, Missing]
) -> ScoreColumns:
    """Return scores as columns, 0 where one is missing or not finite."""
    for cell in np.flatnonzero(~np.isfinite(scores)).tolist():
        missing.setdefault(cell, _missing(EMBEDDING_FAILED, "the cosine is not finite"))
    return with_missing(scores, missing, flags)


def _missing(reason: str, message: str) -> Missing:
    status = Status.ABSTAINED if reason == UNSUPPORTED_TEXT else Status.ERROR
    return status, VerdictFault(0, reason, message, reason == OVERLOADED)


@dataclass(frozen=True, slots=True)
class Side:
    """Vectors of one side; text i owns the rows from `starts[i]`, or row i without `starts`."""

    vectors: Float32Array
    starts: IntArray | None = None


def cosine_matrix(rows: Side, columns: Side) -> FloatArray:
    """Return the best cosine of each row text with each column text, in [0, 1].

    A negative cosine is 0, and so is that of a zero vector. A vector that is not finite gives NaN.

    Products use double precision: they cost a fraction of the embedding, and a vector's cosine with
    itself is 1 to within 1e-15 instead of 1e-7.
    """
    right = unit_rows(columns.vectors).T
    step = max(1, BLOCK_CELLS // max(1, right.shape[1]))
    blocks = []
    for start in range(0, len(rows.vectors), step):
        block = unit_rows(rows.vectors[start : start + step]) @ right
        if columns.starts is not None:
            block = np.maximum.reduceat(block, columns.starts, axis=1)
        blocks.append(block)
    scores: FloatArray = np.concatenate(blocks)
    if rows.starts is not None:
        scores = np.maximum.reduceat(scores, rows.starts, axis=0)
    # Clamps negative cosines and rounding; comparisons with NaN are false, so NaN stays NaN.
    scores[scores <= 0] = 0.0
    scores[scores > 1 - _ROUNDING] = 1.0
    return scores
