"""The ceiling's products: those of the model, for the batches that the server cuts."""

import onnx
import onnxruntime as ort
import pytest

from benchmarks.embed import product_worker
from benchmarks.peers.passages import Passages


@pytest.mark.parametrize("budget", [64, 256])
def test_batches_hold_every_text_once_within_the_budget(budget):
    lengths = [*range(3, 60), 200, 200, 7]
    shapes = product_worker.batches(lengths, budget)
    assert sum(rows for rows, _ in shapes) == len(lengths)
    assert sum(rows * tokens for rows, tokens in shapes) >= sum(lengths)
    assert all(rows * tokens <= budget or rows == 1 for rows, tokens in shapes)


def test_rows_are_padded_to_a_multiple():
    assert product_worker.batches([17, 16], 1_000, 16) == [(2, 32)]


def test_the_weights_are_those_of_the_model():
    model = onnx.load_from_string(product_worker.graph())
    sizes = [tuple(weight.dims) for weight in model.graph.initializer]
    a_layer = [(384, 384)] * 4 + [(384, 1536), (1536, 384)]
    assert sizes == a_layer * 6
    assert {node.op_type for node in model.graph.node} == {"MatMul"}
    # Of a token: two for each weight. The rest of Passages.flops is attention.
    of_weights = 2 * sum(rows * columns for rows, columns in sizes)
    assert Passages([], [1]).flops == pytest.approx(of_weights + 6 * 4 * 384)


def test_values_neither_grow_nor_vanish():
    session = ort.InferenceSession(product_worker.graph(), providers=["CPUExecutionProvider"])
    for feed in product_worker.feeds([(2, 20), (1, 200)]):
        for value in session.run(None, feed):
            assert 1e-6 < abs(value).mean() < 100


def test_every_batch_runs_once():
    done: list[product_worker.Feeds] = []
    feeds = list(product_worker.feeds([(1, 2)] * 5))
    assert product_worker.seconds([done.append, done.append], feeds) > 0
    assert len(done) == 5
