"""The session: unit vectors of real graphs, and a reason for graphs that are none."""

from typing import get_args

import numpy as np
import pytest
from judged_server.embedding.models.store import Pooling
from judged_server.embedding.runtime.session import (
    OnnxSession,
    UnusableGraphError,
    finite_rows,
    pool,
    unit_rows,
)
from onnx import TensorProto, helper

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


WHOLE_NUMBERS = helper.make_model(
    helper.make_graph(
        [
            helper.make_node("Constant", [], ["axes"], value_ints=[2]),
            helper.make_node("Unsqueeze", ["input_ids", "axes"], ["last_hidden_state"]),
        ],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "s"]) for name in BOTH],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.INT64, ["b", "s", 1])],
    ),
    opset_imports=[helper.make_opsetid("", 17)],
    ir_version=8,
).SerializeToString()


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "can't load it"),
        (b"\0" * 100, "can't load it"),
        (_graph({"input_ids": TensorProto.INT64}, {"flat": 2}, [CAST]), "its inputs are input_ids"),
        (_graph({**BOTH, "pixels": TensorProto.INT64}, {"flat": 2}, [CAST]), "pixels"),
        (_graph({**BOTH, "attention_mask": TensorProto.FLOAT}, {"flat": 2}, [CAST]), "int64"),
        (_graph(BOTH, {"flat": 2}, [CAST]), "no output with a vector"),
        (WHOLE_NUMBERS, r"its output is tensor\(int64\)"),
    ],
)
def test_an_unusable_graph_says_why(tmp_path, raw, words):
    with pytest.raises(UnusableGraphError, match=words):
        OnnxSession(_save(tmp_path, raw), "mean")


def test_an_output_of_another_shape_says_so(tmp_path):
    nodes = [CAST, helper.make_node("Unsqueeze", ["flat", "axes"], ["last_hidden_state"])]
    axes = helper.make_node("Constant", [], ["axes"], value_ints=[0])
    raw = _graph(BOTH, {"last_hidden_state": 3}, [axes, *nodes])
    with pytest.raises(UnusableGraphError, match="output has shape"):
        OnnxSession(_save(tmp_path, raw), "mean").run(IDS, MASK)


HIDDEN = np.array([[[1, 2], [3, 4], [100, 100]], [[5, 6], [7, 8], [9, 10]]], np.float32)
SHOWN = np.array([[1, 1, 0], [1, 1, 1]])


@pytest.mark.parametrize("pooling", get_args(Pooling))
def test_what_is_padded_has_no_say(pooling):
    other = HIDDEN.copy()
    other[0, 2] = np.nan
    if pooling == "mean":  # NaN times 0 is NaN; what a graph gives for padding is finite
        other[0, 2] = -7
    np.testing.assert_array_equal(pool(other, SHOWN, pooling), pool(HIDDEN, SHOWN, pooling))


@pytest.mark.parametrize("scale", [1e-45, 1e-30, 1.0, 1e30, np.finfo(np.float32).max])
def test_rows_of_any_size_become_unit_rows(scale):
    rows = np.array([[scale, 0, 0], [scale, scale, scale]], np.float32)
    np.testing.assert_allclose(np.linalg.norm(unit_rows(rows), axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_never_looks_finite(bad):
    rows = unit_rows(np.array([[bad, 1, 0], [0, 1, 0]], np.float32)).astype(np.float32)
    assert finite_rows(rows).tolist() == [False, True]
