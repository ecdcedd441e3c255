"""Measures the speed of the model's matrix products, on request: the ceiling of `embed`.

Computes only the products of the default model: the six of each layer with their own weights, and
the two of attention, for the batches that the server would make of the texts. No normalisation,
softmax, GELU, bias, transposition, tokenizer or call. Batches run in parallel, one per core, as in
the server. fp32 is ONNX Runtime, bf16 is OpenVINO.

Each line of input gets one answer: GFLOP/s of real tokens, counted by `passages.Passages.flops`.
LENGTHS is a JSON file with the number of tokens of each text. The worker exits with the reason if
the runtime is not installed.

    python -m benchmarks.embed.product_worker fp32|bf16 LENGTHS
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import judged_server.embedding.batching as server_queue  # first: disables OpenVINO's telemetry
import numpy as np
import onnx
from judged_server.embedding.batching import Call
from judged_server.embedding.tokenizer import TokenizedText
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from benchmarks.peers.passages import Passages

LAYERS, HIDDEN, INNER, HEADS = 6, 384, 1536, 12
HEAD = HIDDEN // HEADS
MOST_TOKENS = 256

Feeds = Mapping[str, NDArray[np.float32]]
Run = Callable[[Feeds], object]


def batches(lengths: Sequence[int], budget: int, multiple: int = 1) -> list[tuple[int, int]]:
    """Return (rows, tokens per row) of the server's batches when all texts wait at once."""
    found = []
    with closing(asyncio.new_event_loop()) as loop:
        call = Call(loop.create_future())
    for length in sorted(lengths):
        call.add(b"", TokenizedText((np.zeros(length, np.int64),)), 1)
    while call.windows:
        batch: list[server_queue.Window] = []
        call.fill(batch, budget)
        longest = max(window.length for window in batch)
        found.append((len(batch), -(-longest // multiple) * multiple))
    return found


def graph() -> bytes:
    """Return the products as an ONNX graph: one chain for the weights, one for attention."""
    rng = np.random.default_rng(1)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def product(left: str, right: str) -> str:
        name = f"product_{len(nodes)}"
        nodes.append(helper.make_node("MatMul", [left, right], [name]))
        return name

    def weight(rows: int, columns: int) -> str:
        name = f"weight_{len(weights)}"
        # With this scale, values neither grow nor vanish along the chain.
        values = rng.standard_normal((rows, columns), np.float32) / np.float32(math.sqrt(rows))
        weights.append(numpy_helper.from_array(values, name))
        return name

    states, mixed = "states", "query"
    for _ in range(LAYERS):
        for rows, columns in [(HIDDEN, HIDDEN)] * 4 + [(HIDDEN, INNER), (INNER, HIDDEN)]:
            states = product(states, weight(rows, columns))
        mixed = product(product(mixed, "key"), "value")
    shapes: dict[str, list[str | int]] = {
        "states": ["b", "s", HIDDEN],
        "key": ["b", HEADS, HEAD, "s"],
    }
    shapes |= {name: ["b", HEADS, "s", HEAD] for name in ("query", "value")}
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "products",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
            [
                helper.make_tensor_value_info(states, TensorProto.FLOAT, shapes["states"]),
                helper.make_tensor_value_info(mixed, TensorProto.FLOAT, shapes["query"]),
            ],
            weights,
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    serialised: bytes = model.SerializeToString()
    return serialised


def feeds(shapes: Sequence[tuple[int, int]]) -> Iterator[Feeds]:
    """Yield random inputs for each batch, all views of the same few arrays."""
    rng = np.random.default_rng(2)
    most = max(rows * tokens for rows, tokens in shapes) * HIDDEN
    arrays = {
        "states": rng.standard_normal(most, np.float32),
        "query": rng.standard_normal(most, np.float32),
        "key": rng.standard_normal(most, np.float32) / np.float32(math.sqrt(HEAD)),
        "value": rng.standard_normal(most, np.float32) / np.float32(math.sqrt(MOST_TOKENS)),
    }
    for rows, tokens in shapes:
        size = rows * tokens * HIDDEN
        by_head = (rows, HEADS, tokens, HEAD)
        yield {
            "states": arrays["states"][:size].reshape(rows, tokens, HIDDEN),
            "query": arrays["query"][:size].reshape(by_head),
            "key": arrays["key"][:size].reshape(rows, HEADS, HEAD, tokens),
            "value": arrays["value"][:size].reshape(by_head),
        }


def fp32(cores: int) -> list[Run]:
    """Return a run of the graph for each core."""
    import onnxruntime as ort  # noqa: PLC0415 - one of two runtimes

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.enable_mem_pattern = False
    session = ort.InferenceSession(graph(), options, providers=["CPUExecutionProvider"])
    return [lambda feed: session.run(None, feed)] * cores


def bf16(cores: int) -> list[Run]:
    """Return a run of the graph for each core, each with its own request."""
    import openvino as ov  # noqa: PLC0415 - one of two runtimes

    core = ov.Core()
    if "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise SystemExit("Error: this CPU has no bf16")
    options = {
        "INFERENCE_PRECISION_HINT": "bf16",
        "NUM_STREAMS": cores,
        "INFERENCE_NUM_THREADS": cores,
        "ENABLE_CPU_PINNING": False,
        "CPU_RUNTIME_CACHE_CAPACITY": 1_024,
    }
    model = core.compile_model(core.read_model(graph()), "CPU", options)

    def run(request: ov.InferRequest) -> Run:
        return lambda feed: request.infer(feed, share_inputs=True, share_outputs=True)

    return [run(model.create_infer_request()) for _ in range(cores)]


def seconds(runs: Sequence[Run], batch_feeds: Sequence[Feeds]) -> float:
    """Return the wall seconds of all batches, run in parallel."""
    waiting: queue.SimpleQueue[Feeds | None] = queue.SimpleQueue()
    for feed in itertools.chain(batch_feeds, [None] * len(runs)):
        waiting.put(feed)

    def work(run: Run) -> None:
        while (feed := waiting.get()) is not None:
            run(feed)

    threads = [threading.Thread(target=work, args=(run,)) for run in runs]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def main() -> None:
    """Serve until standard input ends."""
    precision, lengths_file = sys.argv[1:]
    lengths = json.loads(Path(lengths_file).read_text())
    cores = len(os.sched_getaffinity(0))
    if precision == "fp32":
        runs, shapes = fp32(cores), batches(lengths, server_queue.BATCH_TOKENS)
    else:
        runs = bf16(cores)
        from judged_server.embedding.runtime import openvino_session  # noqa: PLC0415 - needs OpenVINO

        shapes = batches(lengths, openvino_session.BATCH_TOKENS, openvino_session.PAD_TO)
    batch_feeds = list(feeds(shapes))
    seconds(runs, batch_feeds)  # the first run of a shape is slower
    padded = sum(rows * tokens for rows, tokens in shapes)
    print(json.dumps({"batches": len(shapes), "padding": padded / sum(lengths) - 1}), flush=True)
    work = Passages([], lengths).flops
    for _ in sys.stdin:
        print(json.dumps({"gflops": work / seconds(runs, batch_feeds) / 1e9}), flush=True)


if __name__ == "__main__":
    main()
