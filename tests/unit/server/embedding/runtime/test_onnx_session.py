"""The session: unit vectors of real graphs, and a reason for graphs that are none."""

import numpy as np
import onnx
import pytest
from judged_server.embedding.runtime.backend import UnusableGraphError
from judged_server.embedding.runtime.onnx_session import EncoderSession
from onnx import TensorProto, helper

from tests.fakes.models import tiny_model

IDS = np.array([[2, 9, 17, 3], [2, 30, 3, 0]], np.int64)
MASK = np.array([[1, 1, 1, 1], [1, 1, 1, 0]], np.int64)


def _save(tmp_path, raw: bytes) -> str:
    path = tmp_path / "model.onnx"
    path.write_bytes(raw)
    return str(path)


def _graph(inputs, outputs, nodes) -> bytes:
    """A graph of few nodes over the named inputs; `outputs` maps names to ranks."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, kind, ["b", "s"]) for name, kind in inputs.items()],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["b"] * rank)
            for name, rank in outputs.items()
        ],
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()


BOTH = {"input_ids": TensorProto.INT64, "attention_mask": TensorProto.INT64}
CAST = helper.make_node("Cast", ["input_ids"], ["flat"], to=TensorProto.FLOAT)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_rows_are_unit_vectors(tmp_path, pooling):
    session = EncoderSession(_save(tmp_path, tiny_model.graph()), pooling)
    vectors = session.run(IDS, MASK)
    assert vectors.dtype == np.float32
    assert vectors.shape == (2, tiny_model.HIDDEN)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_poolings_differ(tmp_path):
    path = _save(tmp_path, tiny_model.graph())
    mean, cls = (EncoderSession(path, pooling).run(IDS, MASK) for pooling in ("mean", "cls"))
    assert np.abs(mean - cls).max() > 0.01


def test_token_types_are_zero_where_the_graph_asks_for_them(tmp_path):
    model = onnx.load_from_string(tiny_model.graph())
    kind = helper.make_tensor_value_info("token_type_ids", TensorProto.INT64, ["b", "s"])
    model.graph.input.append(kind)
    (tmp_path / "other").mkdir()
    asking = EncoderSession(_save(tmp_path / "other", model.SerializeToString()), "mean")
    plain = EncoderSession(_save(tmp_path, tiny_model.graph()), "mean")
    np.testing.assert_array_equal(asking.run(IDS, MASK), plain.run(IDS, MASK))


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "can't load it"),
        (b"\0" * 100, "can't load it"),
        (_graph({"input_ids": TensorProto.INT64}, {"flat": 2}, [CAST]), "its inputs are input_ids"),
        (_graph({**BOTH, "pixels": TensorProto.INT64}, {"flat": 2}, [CAST]), "pixels"),
        (_graph({**BOTH, "attention_mask": TensorProto.FLOAT}, {"flat": 2}, [CAST]), "int64"),
        (_graph(BOTH, {"flat": 2}, [CAST]), "no output with a vector"),
    ],
)
def test_an_unusable_graph_says_why(tmp_path, raw, words):
    with pytest.raises(UnusableGraphError, match=words):
        EncoderSession(_save(tmp_path, raw), "mean")


def test_a_missing_graph_says_so(tmp_path):
    with pytest.raises(UnusableGraphError, match="can't load it"):
        EncoderSession(str(tmp_path / "none.onnx"), "mean")


def test_an_output_of_another_shape_says_so(tmp_path):
    nodes = [CAST, helper.make_node("Unsqueeze", ["flat", "axes"], ["last_hidden_state"])]
    axes = helper.make_node("Constant", [], ["axes"], value_ints=[0])
    raw = _graph(BOTH, {"last_hidden_state": 3}, [axes, *nodes])
    with pytest.raises(UnusableGraphError, match="output has shape"):
        EncoderSession(_save(tmp_path, raw), "mean").run(IDS, MASK)
