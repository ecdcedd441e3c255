"""Checks the server's limits of start-up time, memory and health-check latency.

first_verdict_over_2_s    from starting the process to the first verdict of the semantic judge, over
                          the 2 s that are allowed; the model is installed and in the page cache,
                          and bytecode is compiled. ONNX Runtime; others append their name.
memory_over_450_mb        resident memory after that verdict, over the 450 MB that are allowed.
health_p99_over_100_ms    health checks, one every 20 ms, beside a batch that keeps the model busy
                          on all cores: their 99th percentile over the 100 ms that are allowed.
health_max_over_100_ms    the slowest of them.

    python -m benchmarks.readiness
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from judged import Client, QueryGroup

from benchmarks.harness import Server, closing_line, serving
from benchmarks.peers.backends import Backend, backends, running
from benchmarks.peers.environments import NotRun
from tests.conformance.prose import build_groups

SEED = 20
ROUNDS = 5
WORK_GROUPS = 60
ALLOWED_S = 2.0


def first_verdict_seconds(backend: Backend) -> tuple[float, float]:
    """Return the seconds to the first semantic verdict, and resident memory in MB after it."""
    started = time.perf_counter()
    with serving("judged_server", *backend.flags) as server, Client(server.address) as client:
        client.judge([QueryGroup("q", ["a first text"], ["another text"])], "semantic")
        return time.perf_counter() - started, resident_mb(server)


def resident_mb(server: Server) -> float:
    """Return the resident memory of the server in MB."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1000


def health_seconds(server: Server, groups: list[QueryGroup]) -> list[float]:
    """Return the latency of each health check while the server embeds."""
    took = []
    with Client(server.address) as client, grpc.insecure_channel(server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        stub.Check(health_pb2.HealthCheckRequest(), timeout=10)
        batch = threading.Thread(target=lambda: client.judge(groups, "semantic"))
        batch.start()
        while batch.is_alive():
            started = time.perf_counter()
            stub.Check(health_pb2.HealthCheckRequest(), timeout=10)
            took.append(time.perf_counter() - started)
            batch.join(0.02)
    return sorted(took)


def can_start(backend: Backend, not_run: dict[str, str]) -> bool:
    """Return whether a backend starts here; if not, add the reason to `not_run`."""
    try:
        with running(backend):
            return True
    except NotRun as problem:
        print(f"{backend.name}: not run ({problem})")
        not_run[f"first_verdict_over_2_s_{backend.name}"] = str(problem)
        return False


def main() -> None:
    """Measure and print."""
    prose = build_groups(SEED, WORK_GROUPS)
    groups = [QueryGroup(g.query, g.expected, g.retrieved) for g in prose]
    samples: dict[str, list[float]] = {
        "first_verdict_over_2_s": [],
        "memory_over_450_mb": [],
        "health_p99_over_100_ms": [],
        "health_max_over_100_ms": [],
    }
    not_run: dict[str, str] = {}
    reference, *others = backends()
    usable = [backend for backend in others if can_start(backend, not_run)]
    first_verdict_seconds(reference)  # the first start may compile bytecode
    for _ in range(ROUNDS):
        seconds, megabytes = first_verdict_seconds(reference)
        samples["first_verdict_over_2_s"].append(seconds / ALLOWED_S)
        samples["memory_over_450_mb"].append(megabytes / 450)
        for backend in usable:
            took, _ = first_verdict_seconds(backend)
            name = f"first_verdict_over_2_s_{backend.name}"
            samples.setdefault(name, []).append(took / ALLOWED_S)
        with serving("judged_server") as server:
            checks = health_seconds(server, groups)
        samples["health_p99_over_100_ms"].append(checks[int(len(checks) * 0.99)] / 0.1)
        samples["health_max_over_100_ms"].append(checks[-1] / 0.1)
        print(
            f"{seconds:.2f} s, {megabytes:.0f} MB, {len(checks)} checks, slowest {checks[-1]:.3f} s"
        )
    print(closing_line("readiness", samples, not_run))


if __name__ == "__main__":
    main()
