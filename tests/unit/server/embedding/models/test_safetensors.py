"""The safetensors reader gives back what was written and refuses what makes no sense."""

import json
import struct

import numpy as np
import pytest
from judged_server.embedding.models.bert_graph import read_safetensors

from tests.fakes.models import tiny_model


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
