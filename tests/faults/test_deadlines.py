"""Work whose time is over is not done: at most what runs already is wasted. Rows 2 and 3."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.fakes.canaries import TEXT
from tests.integration.server_process import ServerProcess, running_server

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="not run: /proc")

TICKS = 100


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with running_server("--vector-cache", "off", "--log-level", "warning") as ready:
        yield ready


def cpu_seconds(server: ServerProcess) -> float:
    """Return what a server took so far, once it does nothing any more."""
    before = -1.0
    while True:
        stat = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
        now = (int(stat[11]) + int(stat[12])) / TICKS
        if now - before <= 0.02:
            return now
        before = now
        time.sleep(0.3)


def request(seed: int, texts: int) -> pb.BatchJudgeRequest:
    body = "words of a passage that is some sixty tokens long and says little " * 4
    group = groups_pb2.QueryGroup(
        query="q",
        expected=[f"{seed} {body}"],
        retrieved=[f"{TEXT} {seed} {n} {body}" for n in range(texts)],
    )
    return pb.BatchJudgeRequest(groups=[group], judge=groups_pb2.JudgeSpec(kind="semantic"))


def ended(server: ServerProcess, sent: pb.BatchJudgeRequest, seconds: float) -> tuple[str, str]:
    """Return the code and the message of a call that fails."""
    with grpc.insecure_channel(server.address) as channel:
        grpc.channel_ready_future(channel).result(20)
        with pytest.raises(grpc.RpcError) as caught:
            JudgeServiceStub(channel).BatchJudge(sent, timeout=seconds)
    return caught.value.code().name, caught.value.details()


def test_of_work_that_takes_longer_than_its_deadline_next_to_nothing_is_done(
    server: ServerProcess,
):
    idle = cpu_seconds(server)
    with grpc.insecure_channel(server.address) as channel:
        JudgeServiceStub(channel).BatchJudge(request(1, 150), timeout=120)
    whole = cpu_seconds(server) - idle
    idle = cpu_seconds(server)
    for seed in range(3):
        code, _ = ended(server, request(10 + seed, 150), 0.1)
        assert code in {"DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"}
    assert (cpu_seconds(server) - idle) / 3 < whole / 2


def test_what_can_not_be_done_in_time_is_refused_at_once(server: ServerProcess):
    with grpc.insecure_channel(server.address) as channel:
        JudgeServiceStub(channel).BatchJudge(request(2, 100), timeout=120)  # its rate is known now
    code, message = ended(server, request(3, 3_000), 2.0)
    assert code == "DEADLINE_EXCEEDED"
    assert "allow more, or send less" in message
