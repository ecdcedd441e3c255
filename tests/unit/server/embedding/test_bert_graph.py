"""The graph builder: same bytes each time, standard operators, the arithmetic of BERT."""

import math

import numpy as np
import onnx
import onnxruntime as ort
from judged_server.embedding.bert_graph import BertShape, build_bert_graph

from tests.fakes import tiny_model


def test_the_same_weights_give_the_same_bytes():
    shape = BertShape(tiny_model.LAYERS, tiny_model.HEADS, 1e-12)
    assert build_bert_graph(tiny_model.weights(), shape) == tiny_model.graph()


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
        expected = _bert(token_ids[row, :length])
        np.testing.assert_allclose(hidden[row, :length], expected, atol=2e-5)


def _bert(token_ids: np.ndarray) -> np.ndarray:
    """BERT in float64, written from its definition, one sequence without padding."""
    weights = {name: value.astype(np.float64) for name, value in tiny_model.weights().items()}

    def linear(name: str, value: np.ndarray) -> np.ndarray:
        return value @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name: str, value: np.ndarray) -> np.ndarray:
        centred = value - value.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    hidden = norm(
        "embeddings.LayerNorm",
        weights["embeddings.word_embeddings.weight"][token_ids]
        + weights["embeddings.position_embeddings.weight"][: len(token_ids)]
        + weights["embeddings.token_type_embeddings.weight"][0],
    )
    size = tiny_model.HIDDEN // tiny_model.HEADS
    for layer in (f"encoder.layer.{index}" for index in range(tiny_model.LAYERS)):
        query, key, value = (
            linear(f"{layer}.attention.self.{part}", hidden) for part in ("query", "key", "value")
        )
        mixed = np.zeros_like(hidden)
        for head in range(tiny_model.HEADS):
            part = slice(head * size, (head + 1) * size)
            scores = query[:, part] @ key[:, part].T / math.sqrt(size)
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            mixed[:, part] = shares / shares.sum(-1, keepdims=True) @ value[:, part]
        attended = linear(f"{layer}.attention.output.dense", mixed)
        hidden = norm(f"{layer}.attention.output.LayerNorm", attended + hidden)
        raised = linear(f"{layer}.intermediate.dense", hidden)
        raised *= (1 + np.vectorize(math.erf)(raised / math.sqrt(2))) / 2
        hidden = norm(f"{layer}.output.LayerNorm", linear(f"{layer}.output.dense", raised) + hidden)
    return hidden
