"""A service of several servers under one name: calls go to each, and outlive one that ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import grpc
import pytest
from judged import Client, QueryGroup
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.integration.server_process import ServerProcess, running_server

GROUPS = [QueryGroup(query="q", expected=["a b"], retrieved=["a b", "c"])]
CALLS = 20


@pytest.fixture
def replicas() -> Iterator[tuple[ServerProcess, ServerProcess]]:
    with running_server() as first, running_server() as second:
        yield first, second


def target_of(*servers: ServerProcess) -> str:
    return "ipv4:" + ",".join(server.address for server in servers)


def calls_to(server: ServerProcess) -> int:
    return server.log_text().count("/judged.v1.JudgeService/BatchJudge")


def test_each_replica_gets_calls_and_one_that_ends_loses_none(
    replicas: tuple[ServerProcess, ServerProcess],
):
    with Client(target_of(*replicas)) as client:
        # How many calls the first connection gets until the second stands, nobody can say.
        while min(map(calls_to, replicas)) < CALLS:
            assert list(client.judge(GROUPS, "exact").relevant) == [True, False]
        replicas[0].process.send_signal(signal.SIGTERM)
        for _ in range(CALLS):
            assert list(client.judge(GROUPS, "exact").relevant) == [True, False]
        assert replicas[0].process.wait(60) == 0


# A thread of gRPC's own may look at the channel once more as it is closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_old_connection_takes_no_more_calls_and_ends_with_its_last():
    groups = [groups_pb2.QueryGroup(query="q", expected=["a"], retrieved=["a"])]
    may_send = threading.Event()

    def requests() -> Iterator[pb.StreamJudgeRequest]:
        yield pb.StreamJudgeRequest(
            start=pb.StreamJudgeStart(judge=groups_pb2.JudgeSpec(kind="exact"))
        )
        yield pb.StreamJudgeRequest(chunk=pb.JudgeChunk(chunk_id=1, groups=groups))
        assert may_send.wait(60)
        yield pb.StreamJudgeRequest(chunk=pb.JudgeChunk(chunk_id=2, groups=groups))

    with (
        running_server("--max-connection-age-s", "1") as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        is_old = threading.Event()
        stream = JudgeServiceStub(channel).StreamJudge(requests(), timeout=60)
        assert next(stream).HasField("started")
        assert next(stream).HasField("chunk")

        def seen(state: grpc.ChannelConnectivity) -> None:
            if state is grpc.ChannelConnectivity.IDLE:
                is_old.set()

        channel.subscribe(seen)
        assert is_old.wait(60)
        with Client(channel=channel) as client:
            assert list(client.judge(GROUPS, "exact").relevant) == [True, False]
        may_send.set()
        assert [reply.WhichOneof("message") for reply in stream] == ["chunk"]
