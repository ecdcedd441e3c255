"""A server whose capacity is known: it takes the same time for each call, one after the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import verdicts_pb2
from judged.v1.judge_service_pb2_grpc import JudgeServiceServicer

from tests.fakes.services import running

_WORKERS = 200


class PacedServer(JudgeServiceServicer):
    """Answers that all is relevant, `hold_s` after the answer before, or after the call.

    It is busy by the clock, and not by how long a sleep really takes: `latest_s` is how much later
    than that an answer left, because the machine had no time for it.
    """

    def __init__(self, hold_s: float) -> None:
        self.hold_s = hold_s
        self.address = ""
        self.calls = 0
        self.latest_s = 0.0
        self.authorization: str | bytes = ""
        self.stalls: dict[int, float] = {}
        """By the number of a call, the seconds that the server stands before it."""
        self._free = 0.0
        self._lock = threading.Lock()

    def GetServerInfo(self, request: Any, context: Any) -> pb.GetServerInfoResponse:
        return pb.GetServerInfoResponse(version="paced")

    def BatchJudge(self, request: Any, context: Any) -> pb.BatchJudgeResponse:
        self.authorization = dict(context.invocation_metadata()).get("authorization", "")
        if not request.groups:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "groups: is empty")
        with self._lock:
            self.calls += 1
            stands_s = self.stalls.pop(self.calls, 0.0)
            self._free = max(self._free, time.monotonic()) + stands_s + self.hold_s
            ends = self._free
        time.sleep(max(0.0, ends - time.monotonic()))
        self.latest_s = max(self.latest_s, time.monotonic() - ends)
        n = sum(len(group.expected) * len(group.retrieved) for group in request.groups)
        return pb.BatchJudgeResponse(
            verdicts=verdicts_pb2.VerdictColumns(relevant=[True] * n),
            counts=verdicts_pb2.VerdictCounts(ok=n),
        )


@contextmanager
def paced_server(hold_s: float) -> Iterator[PacedServer]:
    """Run such a server."""
    service = PacedServer(hold_s)  # type: ignore[abstract]  # others answer UNIMPLEMENTED
    with running(service, _WORKERS):
        yield service
