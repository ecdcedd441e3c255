"""Statistics that take long end with their caller and with the server, and let others work."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import grpc
import pytest
from judged import Client, Judge, QueryGroup
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2, statistics_service_pb2
from judged.v1.statistics_service_pb2_grpc import StatisticsServiceStub

from tests.fakes.stubs import stub_of_all_calls
from tests.integration.server_process import ServerProcess, running_server

QUERIES, METRICS = 20_000, 16
TICKS = os.sysconf("SC_CLK_TCK")


def values(seed: int, columns: int) -> metrics_pb2.PerQueryValues:
    rng = Random(seed)
    return metrics_pb2.PerQueryValues(
        query_ids=[str(n) for n in range(QUERIES)],
        columns=[
            metrics_pb2.ValueColumn(values=[rng.random() for _ in range(QUERIES)])
            for _ in range(columns)
        ],
    )


def compare_runs() -> statistics_service_pb2.CompareRunsRequest:
    """Two minutes of work: 100,000 permutations of 20,000 queries, and as many resamples as go."""
    return statistics_service_pb2.CompareRunsRequest(
        metrics=[f"precision@{k}" for k in range(1, METRICS + 1)],
        runs=[
            statistics_service_pb2.ComparedRun(name=str(n), values=values(n, METRICS))
            for n in range(2)
        ],
        comparison=statistics_service_pb2.CompareOptions(permutations=100_000),
    )


def compute_metrics() -> pb.ComputeMetricsRequest:
    interval = metrics_pb2.IntervalOptions(resamples=50_000)
    return pb.ComputeMetricsRequest(
        metrics=["precision@1"],
        values=values(0, 1),
        options=metrics_pb2.MetricOptions(interval=interval),
    )


def calibrate() -> statistics_service_pb2.CalibrateRequest:
    rng = Random(0)
    labels = [rng.random() < 0.5 for _ in range(QUERIES)]
    return statistics_service_pb2.CalibrateRequest(
        scores=[min(1.0, max(0.0, 0.5 * label + 0.5 * rng.random())) for label in labels],
        labelled=range(QUERIES),
        labels=labels,
        interval=metrics_pb2.IntervalOptions(resamples=100_000),
    )


def cpu_seconds(server: ServerProcess) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def wait_for(fact: Callable[[], bool], seconds: float = 60.0) -> None:
    ends = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < ends
        time.sleep(0.02)


def is_idle(server: ServerProcess) -> bool:
    """Whether the process uses next to nothing of a core for a while."""
    before, began = cpu_seconds(server), time.monotonic()
    wait_for(lambda: time.monotonic() - began >= 0.3)
    return cpu_seconds(server) - before <= 0.06


def _logged(server: ServerProcess, word: str, times: int) -> bool:
    return server.log_text().count(word) >= times


REQUESTS = {
    "CompareRuns": compare_runs,
    "ComputeMetrics": compute_metrics,
    "Calibrate": calibrate,
}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("method", REQUESTS)
def test_end_with_their_caller(method: str):
    with running_server() as server, grpc.insecure_channel(server.address) as channel:
        wait_for(lambda: is_idle(server))
        before = cpu_seconds(server)
        request = REQUESTS[method]()
        with pytest.raises(grpc.RpcError) as caught:
            getattr(stub_of_all_calls(channel), method)(request, timeout=1.0)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        wait_for(lambda: is_idle(server))
        assert cpu_seconds(server) - before < 5


@pytest.mark.parametrize("signals", [1, 2])
def test_end_with_their_server(signals: int):
    grace = "3" if signals == 1 else "60"
    with running_server("--grace-s", grace) as server, grpc.insecure_channel(server.address) as ch:
        request, before = compare_runs(), cpu_seconds(server)
        calls = [
            StatisticsServiceStub(ch).CompareRuns.future(request, timeout=500) for _ in range(8)
        ]
        wait_for(lambda: cpu_seconds(server) - before > 1.0)
        for number in range(signals):
            server.process.send_signal(signal.SIGTERM)
            wait_for(partial(_logged, server, "drain", number + 1))
        assert server.process.wait(60) == signals - 1
        for call in calls:
            assert call.exception() is not None


def test_let_a_lexical_batch_work_beside_them():
    groups = [QueryGroup(f"q {n}", ["a b c d"] * 20, [f"a b c {n}"] * 50) for n in range(30)]
    with (
        running_server() as server,
        grpc.insecure_channel(server.address) as channel,
        Client(server.address) as client,
        ThreadPoolExecutor() as pool,
    ):
        request, before = compare_runs(), cpu_seconds(server)
        stub = StatisticsServiceStub(channel)
        calls = [
            stub.CompareRuns.future(request, timeout=60) for _ in range(3)
        ]  # one sender's share of the memory
        wait_for(lambda: cpu_seconds(server) - before > 1.0)
        verdicts = pool.submit(client.judge, groups, Judge("token_overlap")).result(30)
        assert len(verdicts) == 30_000
        assert not any(call.done() for call in calls[1:])
        for call in calls:
            call.cancel()
