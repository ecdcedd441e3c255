"""The graph builder: same bytes each time, the arithmetic of BERT, and its weights from a file."""

import json
import struct

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from judged_server.embedding.models.bert_graph import (
    read_safetensors,
)

from tests.fakes.models import tiny_model
from tests.fakes.models.numpy_bert import hidden_states


def test_all_operators_are_standard_ones_of_opset_17():
    model = onnx.load_from_string(tiny_model.graph())
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for node in model.graph.node} == {""}
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]


def test_the_graph_computes_what_bert_is_defined_to_compute():
    token_ids = np.array([[2, 9, 17, 8, 3], [2, 30, 3, 0, 0]], np.int64)
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int64)
    session = ort.InferenceSession(tiny_model.graph(), providers=["CPUExecutionProvider"])
    (hidden,) = session.run(None, {"input_ids": token_ids, "attention_mask": mask})
    for row, length in ((0, 5), (1, 3)):
        expected = hidden_states(token_ids[row, :length])
        np.testing.assert_allclose(hidden[row, :length], expected, atol=2e-5)


def _file(header: object, body: bytes = b"") -> bytes:
    encoded = json.dumps(header).encode()
    return struct.pack("<Q", len(encoded)) + encoded + body


def test_tensors_come_back_by_name_and_bit_for_bit():
    tensors = read_safetensors(tiny_model.safetensors())
    expected = tiny_model.weights()
    assert tensors.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(tensors[name], value)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff" * 8,
        struct.pack("<Q", 100) + b"{}",
        _file({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"\0" * 7),
        _file({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, b"\0" * 8),
        _file({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}, b"\0" * 8),
        _file({"a": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}}, b"\0" * 8),
        struct.pack("<Q", 4) + b"nope",
    ],
)
def test_a_file_that_makes_no_sense_is_a_value_error(raw):
    with pytest.raises(ValueError):  # noqa: PT011 - the message differs by case
        read_safetensors(raw)
