"""Builder of a BERT encoder as an ONNX graph in standard operators, from its weights.

Token ids and a mask in, `last_hidden_state` out. The same weights give the same bytes. Pooling is
outside the graph, so that built and added models are pooled alike.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

MAX_HEADER_BYTES = 100_000_000
DTYPES = {"F32": "<f4", "F16": "<f2", "I64": "<i8"}


def read_safetensors(raw: bytes) -> dict[str, NDArray[Any]]:
    """Return the tensors of a safetensors file by name, as views of `raw`.

    Raises ValueError when the header or a tensor's bounds make no sense.
    """
    header_bytes = int.from_bytes(raw[:8], "little")
    if not 2 <= header_bytes <= min(MAX_HEADER_BYTES, len(raw) - 8):
        raise ValueError(f"a header of {header_bytes} bytes in a file of {len(raw)}")
    header = json.loads(raw[8 : 8 + header_bytes])
    body = memoryview(raw)[8 + header_bytes :]
    tensors: dict[str, NDArray[Any]] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype = np.dtype(DTYPES[entry["dtype"]])
        start, end = entry["data_offsets"]
        shape = tuple(entry["shape"])
        if not 0 <= start <= end <= len(body) or end - start != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"tensor {name}: bytes {start} to {end} do not hold shape {shape}")
        tensors[name] = np.frombuffer(body[start:end], dtype).reshape(shape)
    return tensors


OPSET = 17
"""The first opset with LayerNormalization."""
IR_VERSION = 8
"""The format that goes with opset 17; pinned, as the default moves with the onnx release."""

_Attribute = int | float | list[int]
Weights = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class BertShape:
    """The sizes in a BERT model's config.json that its weights do not tell."""

    layers: int
    heads: int
    layer_norm_eps: float


def build_bert_graph(weights: Weights, shape: BertShape) -> bytes:
    """Return the serialised ONNX model of a BERT encoder with an exact (erf) GELU.

    Inputs `input_ids` and `attention_mask`, int64 [batch, sequence]; output `last_hidden_state`,
    float32 [batch, sequence, hidden]. Every token is of type 0, as in sentence embedding.
    """
    graph = _Graph(weights)
    hidden_size = weights["embeddings.word_embeddings.weight"].shape[1]
    attention = _Attention(shape.heads, hidden_size // shape.heads)
    mask = _additive_mask(graph)
    hidden = _embeddings(graph, shape)
    for index in range(shape.layers):
        hidden = _layer(graph, f"encoder.layer.{index}", hidden, mask, attention, shape)
    graph.add("Identity", [hidden], name="last_hidden_state")
    return graph.serialise(hidden_size)


@dataclass(frozen=True, slots=True)
class _Attention:
    heads: int
    head_size: int


class _Graph:
    """Nodes and constants as they are added; each node's output is its name."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def add(self, operator: str, inputs: list[str], name: str, **attributes: _Attribute) -> str:
        node = helper.make_node(operator, inputs, [name], name)
        node.attribute.extend(helper.make_attribute(*item) for item in sorted(attributes.items()))
        self.nodes.append(node)
        return name

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name])

    def linear(self, name: str, value: str, scale: float = 1.0) -> str:
        """Add value @ weight.T + bias; a torch Linear keeps its weight transposed."""
        weight = self.constant(
            f"{name}.weight", self.weights[f"{name}.weight"].T * np.float32(scale)
        )
        bias = self.constant(f"{name}.bias", self.weights[f"{name}.bias"] * np.float32(scale))
        product = self.add("MatMul", [value, weight], f"{name}.matmul")
        return self.add("Add", [product, bias], f"{name}.out")

    def layer_norm(self, name: str, value: str, epsilon: float) -> str:
        inputs = [value, self.weight(f"{name}.weight"), self.weight(f"{name}.bias")]
        return self.add("LayerNormalization", inputs, f"{name}.out", axis=-1, epsilon=epsilon)

    def serialise(self, hidden_size: int) -> bytes:
        ids = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
            for name in ("input_ids", "attention_mask")
        ]
        out = helper.make_tensor_value_info(
            "last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", hidden_size]
        )
        graph = helper.make_graph(
            self.nodes, "bert_encoder", ids, [out], list(self.constants.values())
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            producer_name="judged",
            ir_version=IR_VERSION,
        )
        onnx.checker.check_model(model)
        serialised: bytes = model.SerializeToString(deterministic=True)
        return serialised


def _additive_mask(graph: _Graph) -> str:
    """Add 0 where a token is, the lowest float where padding is, broadcast over heads and rows."""
    lowest = graph.constant("lowest", np.array(np.finfo(np.float32).min, np.float32))
    one = graph.constant("one", np.array(1, np.float32))
    axes = graph.constant("mask_axes", np.array([1, 2], np.int64))
    kept = graph.add("Cast", ["attention_mask"], "mask.float", to=TensorProto.FLOAT)
    padded = graph.add("Sub", [one, kept], "mask.padded")
    scaled = graph.add("Mul", [padded, lowest], "mask.scaled")
    return graph.add("Unsqueeze", [scaled, axes], "mask.out")


def _embeddings(graph: _Graph, shape: BertShape) -> str:
    positions = graph.weights["embeddings.position_embeddings.weight"]
    types = graph.weights["embeddings.token_type_embeddings.weight"]
    table = graph.constant("embeddings.positions_and_type_0", positions + types[0])
    words = graph.add(
        "Gather",
        [graph.weight("embeddings.word_embeddings.weight"), "input_ids"],
        "embeddings.words",
    )
    zero = graph.constant("zero", np.array([0], np.int64))
    length = graph.add("Shape", ["input_ids"], "embeddings.length", start=1, end=2)
    slice_inputs = [table, zero, length, zero]
    placed = graph.add("Slice", slice_inputs, "embeddings.positions")
    summed = graph.add("Add", [words, placed], "embeddings.sum")
    return graph.layer_norm("embeddings.LayerNorm", summed, shape.layer_norm_eps)


def _layer(
    graph: _Graph, name: str, hidden: str, mask: str, attention: _Attention, shape: BertShape
) -> str:
    attended = _self_attention(graph, f"{name}.attention", hidden, mask, attention)
    projected = graph.linear(f"{name}.attention.output.dense", attended)
    summed = graph.add("Add", [projected, hidden], f"{name}.attention.sum")
    normed = graph.layer_norm(f"{name}.attention.output.LayerNorm", summed, shape.layer_norm_eps)
    raised = _gelu(graph, f"{name}.gelu", graph.linear(f"{name}.intermediate.dense", normed))
    lowered = graph.linear(f"{name}.output.dense", raised)
    total = graph.add("Add", [lowered, normed], f"{name}.sum")
    return graph.layer_norm(f"{name}.output.LayerNorm", total, shape.layer_norm_eps)


def _self_attention(graph: _Graph, name: str, hidden: str, mask: str, attention: _Attention) -> str:
    """Add softmax(q k' + mask) v; the scale of the dot products is folded into the queries."""
    split = graph.constant(
        "heads", np.array([0, 0, attention.heads, attention.head_size], np.int64)
    )
    joined = graph.constant(
        "joined", np.array([0, 0, attention.heads * attention.head_size], np.int64)
    )

    def heads(part: str, order: list[int], scale: float = 1.0) -> str:
        value = graph.linear(f"{name}.self.{part}", hidden, scale)
        value = graph.add("Reshape", [value, split], f"{name}.{part}.split")
        return graph.add("Transpose", [value], f"{name}.{part}.heads", perm=order)

    query = heads("query", [0, 2, 1, 3], 1 / math.sqrt(attention.head_size))
    key = heads("key", [0, 2, 3, 1])
    value = heads("value", [0, 2, 1, 3])
    scores = graph.add("MatMul", [query, key], f"{name}.scores")
    masked = graph.add("Add", [scores, mask], f"{name}.masked")
    shares = graph.add("Softmax", [masked], f"{name}.shares", axis=-1)
    mixed = graph.add("MatMul", [shares, value], f"{name}.mixed")
    swapped = graph.add("Transpose", [mixed], f"{name}.swapped", perm=[0, 2, 1, 3])
    return graph.add("Reshape", [swapped, joined], f"{name}.joined")


def _gelu(graph: _Graph, name: str, value: str) -> str:
    """Add x/2 * (1 + erf(x / sqrt 2)); engines that have a fused GELU recognise the pattern."""
    root_two = graph.constant("root_two", np.array(math.sqrt(2), np.float32))
    one = graph.constant("one", np.array(1, np.float32))
    half = graph.constant("half", np.array(0.5, np.float32))
    shrunk = graph.add("Div", [value, root_two], f"{name}.shrunk")
    erf = graph.add("Erf", [shrunk], f"{name}.erf")
    shifted = graph.add("Add", [erf, one], f"{name}.shifted")
    doubled = graph.add("Mul", [value, shifted], f"{name}.doubled")
    return graph.add("Mul", [doubled, half], f"{name}.out")
