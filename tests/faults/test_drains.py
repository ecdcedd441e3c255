"""Drains under load: each call that the server received is answered, or told that it drains.

Row 32 of the fault table. `benchmarks.faults` has the long run.
"""

from __future__ import annotations

import asyncio
import signal

import grpc
import pytest
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.faults.loads import TOLD_DRAINING, drained
from tests.integration.server_process import running_server

DRAINS = 2
CALLS = 150


@pytest.mark.timeout(300)
def test_no_call_that_was_received_is_lost():
    for _ in range(DRAINS):
        with running_server("--log-level", "warning") as server:
            counted = asyncio.run(drained(server, CALLS))
            assert counted.keys() <= {"OK", TOLD_DRAINING}, counted
            assert counted["OK"] >= 5
            assert counted.total() == CALLS
            assert server.process.wait(60) == 0


def test_what_outlasts_the_grace_is_told_so():
    with (
        running_server("--grace-s", "0.2") as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        opened = pb.StreamJudgeRequest(
            start=pb.StreamJudgeStart(judge=groups_pb2.JudgeSpec(kind="exact"))
        )

        def requests():
            yield opened
            server.process.wait(60)

        replies = JudgeServiceStub(channel).StreamJudge(requests(), timeout=60)
        next(replies)
        server.process.send_signal(signal.SIGTERM)
        with pytest.raises(grpc.RpcError) as caught:
            next(replies)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "grpc-retry-pushback-ms" in dict(caught.value.trailing_metadata())
        assert server.process.wait(60) == 0
