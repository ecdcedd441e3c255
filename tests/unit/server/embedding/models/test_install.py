"""Adding a foreign model: tried before it is stored, refused with the file and the reason."""

from typing import get_args

import numpy as np
import onnx
import pytest
from judged_server.embedding.models.adding import WritableStore
from judged_server.embedding.models.folder import ModelOptions
from judged_server.embedding.models.loading import load_embedder
from judged_server.embedding.models.store import ModelSourceError, Pooling
from onnx import helper, numpy_helper
from tokenizers import Tokenizer

from tests.fakes.models import tiny_model
from tests.fakes.models.numpy_bert import hidden_states
from tests.fakes.models.tiny_model import write_folder

TEXTS = ["a cat", "", "the cats sleep", "b" * 40, "naïve, 中文!"]


@pytest.fixture
def models(tmp_path) -> WritableStore:
    return WritableStore(tmp_path / "models")


def _rename_input(model):
    model.graph.input[1].name = "mask"
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            if name == "attention_mask":
                node.input[i] = "mask"


def _nan_weights(model):
    for tensor in model.graph.initializer:
        if tensor.name == "embeddings.LayerNorm.bias":
            value = np.full(tiny_model.HIDDEN, np.nan, np.float32)
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))


def _quantise(model):
    model.graph.node.append(helper.make_node("DynamicQuantizeLinear", ["one"], ["q", "s", "z"]))


async def _embed(models, name, policy="truncate") -> np.ndarray:
    embedder = load_embedder(models.load(name))
    try:
        return (await embedder.embed(TEXTS, policy)).vectors
    finally:
        embedder.close()


def _expected(pooling="mean", prefix="", window=tiny_model.WINDOW, hidden=tiny_model.HIDDEN):
    """The unit vectors of TEXTS by NumPy, from the definition of the model and of its pooling."""
    library = Tokenizer.from_buffer(tiny_model.tokenizer())
    library.no_padding()
    library.enable_truncation(window)
    rows = []
    for text in TEXTS:
        states = hidden_states(np.array(library.encode(prefix + text).ids), hidden)
        pooled = {
            "mean": states.mean(axis=0),
            "cls": states[0],
            "max": states.max(axis=0),
            "last": states[-1],
        }[pooling]
        rows.append(pooled / np.linalg.norm(pooled))
    return np.array(rows)


@pytest.mark.parametrize("pooling", get_args(Pooling))
async def test_each_pooling_gives_the_vectors_of_its_definition(models, tmp_path, pooling):
    assert tiny_model.add_to(models, tmp_path, pooling=pooling).pooling == pooling
    np.testing.assert_allclose(await _embed(models, "tiny"), _expected(pooling), atol=1e-5)


async def test_a_graph_with_token_types_gets_type_0(models, tmp_path):
    tiny_model.add_to(models, tmp_path, onnx=tiny_model.with_token_types())
    np.testing.assert_allclose(await _embed(models, "tiny"), _expected(), atol=1e-5)


async def test_the_operators_options_go_first(models, tmp_path):
    folder = write_folder(tmp_path / "source", prompts={"prompts": {"document": "d: "}})
    (folder / "onnx" / "model.onnx").rename(folder / "other.onnx")
    options = ModelOptions(graph="other.onnx", prefix="q: ", max_tokens=9)
    manifest = models.add("tiny", folder, options)
    assert (manifest.prefix, manifest.max_tokens) == ("q: ", 9)
    expected = _expected(prefix="q: ", window=9)
    np.testing.assert_allclose(await _embed(models, "tiny"), expected, atol=1e-5)


def test_weights_beside_the_graph_come_along(models, tmp_path):
    folder = write_folder(tmp_path / "source")
    model = onnx.load_from_string(tiny_model.graph())
    graph = folder / "onnx" / "model.onnx"
    onnx.save(model, graph, save_as_external_data=True, location="weights.bin", size_threshold=512)
    manifest = models.add("big", folder)
    assert [file.path for file in manifest.files] == [
        "model.onnx",
        "tokenizer.json",
        "weights.bin",
    ]
    models.load("big")
    (models.root / "big" / "weights.bin").write_bytes(b"")
    with pytest.raises(Exception, match=r"weights\.bin"):
        models.load("big")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_rename_input, "its inputs are input_ids, mask"),
        (_nan_weights, "no usable vectors"),
        (_quantise, "quantises activations"),
    ],
)
def test_an_unusable_graph_is_refused_and_nothing_is_stored(models, tmp_path, change, words):
    with pytest.raises(ModelSourceError, match=words):
        tiny_model.add_to(models, tmp_path, onnx=tiny_model.edited(change))
    assert models.list() == {}
    assert list(models.root.iterdir()) == []


def test_a_window_longer_than_the_positions_is_refused(models, tmp_path):
    with pytest.raises(ModelSourceError, match="a first run fails"):
        tiny_model.add_to(models, tmp_path, window=tiny_model.POSITIONS + 1)


@pytest.mark.parametrize("name", ["", "..", "A model", "a/b", "-a", "caller"])
def test_a_name_that_could_be_a_path_is_refused(models, tmp_path, name):
    with pytest.raises(ModelSourceError, match="can't be a name"):
        models.add(name, write_folder(tmp_path / "source"))
