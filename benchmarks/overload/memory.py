"""The memory part of `overload`: many large requests at once, and many compressed ones.

`overload` describes the figures.
"""

from __future__ import annotations

import gzip
import time
from collections import Counter
from collections.abc import Sequence

import grpc
from judged._load.open_loop import METHOD
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb

from benchmarks.harness import Server, serving
from benchmarks.memory import memory_mb
from benchmarks.overload.clients import watch_health

LARGE_CALLS, COMPRESSED_CALLS = 30, 40
KEPT_AFTER_S = 3.0
_OPTIONS = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))


def large_request() -> bytes:
    """Return a request of 15 MB: 1,500 queries with ten passages each."""
    text = "some words of a text that is as long as passages are " * 18
    groups = []
    for i in range(1_500):
        retrieved = [f"{i} {n} {text}" for n in range(9)]
        groups.append(
            groups_pb2.QueryGroup(query="q", expected=[f"{i} {text}"], retrieved=retrieved)
        )
    spec = groups_pb2.JudgeSpec(kind="exact")
    return pb.BatchJudgeRequest(groups=groups, judge=spec).SerializeToString()


def send(server: Server, bodies: Sequence[bytes]) -> Counter[str]:
    """Send all at once; return the number of requests by status code."""
    with grpc.insecure_channel(server.address, options=_OPTIONS) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
        futures = [call.future(body, timeout=120) for body in bodies]
        return Counter(future.code().name for future in futures)


def measure_memory() -> dict[str, list[float]]:
    """Return one sample of each figure."""
    body = large_request()
    # Compressed once here, so that sending takes no CPU time for compression.
    compressed = gzip.compress(body)
    flags = ("--vector-cache", "off", "--log-level", "warning")
    with serving("judged_server", *flags) as server:
        send(server, [body])
        time.sleep(KEPT_AFTER_S)
        before = memory_mb(server.pid, "VmRSS")
        codes = send(server, [body] * LARGE_CALLS)
        peak = memory_mb(server.pid, "VmHWM")
        time.sleep(KEPT_AFTER_S)
        kept = memory_mb(server.pid, "VmRSS")
        print(f"{LARGE_CALLS} calls of 15 MB: {dict(codes)}", flush=True)
        worst = watch_health(server, lambda: _inflate(server, compressed))
    return {
        "rss_growth_mb_30x15mb": [peak - before],
        "rss_kept_mb_30x15mb": [kept - before],
        "health_worst_ms_inflating": [worst],
    }


def _inflate(server: Server, compressed: bytes) -> None:
    codes = send(server, [compressed] * COMPRESSED_CALLS)
    print(
        f"{COMPRESSED_CALLS} calls of {len(compressed)} bytes that inflate to 15 MB: {dict(codes)}"
    )
