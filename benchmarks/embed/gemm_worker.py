"""Measures the matrix-multiplication peak of the machine, on request: the ceiling of `embed`.

Each line of input gets one answer: the best rate, in GFLOP/s of all cores, over a few shapes. fp32
is ONNX Runtime's MatMul, bf16 is OpenVINO's with inference precision bf16; each is tried as one
computation over all cores and as one computation per core. A multiplication and an addition count
as two operations. The worker exits with the reason if the runtime is not installed.

    python -m benchmarks.embed.gemm_worker fp32|bf16
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

SHAPES = ((512, 384, 1536), (512, 1536, 384), (1024, 1024, 1024), (2048, 2048, 2048))
"""(M, K, N): two shapes of the model, and two square ones to reach the peak."""
MEASURE_S = 0.25

Multiply = Callable[[], object]


def fp32(shape: tuple[int, int, int], threads: int) -> Multiply:
    """Return one multiplication on ONNX Runtime with `threads` threads."""
    import onnxruntime as ort  # noqa: PLC0415 - one of two runtimes
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415

    m, k, n = shape
    rng = np.random.default_rng(1)
    weights = numpy_helper.from_array(rng.random((k, n), np.float32), "weights")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["rows", "weights"], ["product"])],
        "gemm",
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, [m, k])],
        [helper.make_tensor_value_info("product", TensorProto.FLOAT, [m, n])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    # Bound buffers avoid copying the product, which would count as multiplying.
    binding = session.io_binding()
    binding.bind_cpu_input("rows", rng.random((m, k), np.float32))
    binding.bind_output("product", "cpu")
    return lambda: session.run_with_iobinding(binding)


def bf16(shape: tuple[int, int, int], threads: int) -> Multiply:
    """Return one multiplication on OpenVINO in bf16 with `threads` threads."""
    import judged_server.embedding  # noqa: F401, PLC0415 - first: it disables OpenVINO's telemetry
    import openvino as ov  # noqa: PLC0415 - one of two runtimes
    from openvino import opset13 as ops  # noqa: PLC0415

    m, k, n = shape
    rng = np.random.default_rng(1)
    core = ov.Core()
    if "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise SystemExit("Error: this CPU has no bf16")
    rows = ops.parameter([m, k], np.float32)
    # A second, tiny product, so that the first one's result is not written out as fp32.
    product = ops.matmul(rows, ops.constant(rng.random((k, n), np.float32)), False, False)
    small = ops.matmul(product, ops.constant(rng.random((n, 1), np.float32)), False, False)
    compiled = core.compile_model(
        ov.Model([small], [rows]),
        "CPU",
        {
            "INFERENCE_PRECISION_HINT": "bf16",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
        },
    )
    request = compiled.create_infer_request()
    feed = rng.random((m, k), np.float32)
    request.infer([feed])
    infer: Multiply = request.infer
    return infer


def rates(build: Callable[[tuple[int, int, int], int], Multiply]) -> Iterator[Callable[[], float]]:
    """Yield measurements in FLOP/s: for each shape, one product over all cores, then one each."""
    cores = len(os.sched_getaffinity(0))
    for shape in SHAPES:
        flops = 2.0 * shape[0] * shape[1] * shape[2]
        for works in {1, cores}:
            multiplies = [build(shape, cores // works) for _ in range(works)]
            yield partial(flops_a_second, flops, multiplies)


def flops_a_second(flops: float, works: list[Multiply]) -> float:
    """Return the total FLOP/s of `works`, each of `flops` operations."""
    return flops * times_a_second(works)


def times_a_second(works: list[Multiply]) -> float:
    """Return the total runs a second of all works, run concurrently."""
    begin = threading.Barrier(len(works))
    counts = [0.0] * len(works)

    def repeat(i: int) -> None:
        works[i]()
        begin.wait()
        done, started = 0, time.perf_counter()
        while (spent := time.perf_counter() - started) < MEASURE_S:
            works[i]()
            done += 1
        counts[i] = done / spent

    threads = [threading.Thread(target=repeat, args=(i,)) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


def main() -> None:
    """Serve until standard input ends."""
    measures = list(rates({"fp32": fp32, "bf16": bf16}[sys.argv[1]]))
    print(json.dumps({"precision": sys.argv[1]}), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"gflops": max(measure() for measure in measures) / 1e9}), flush=True)


if __name__ == "__main__":
    main()
