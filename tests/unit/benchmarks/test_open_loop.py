"""The load generator: when requests are due, and that latency counts from then."""

import asyncio

import grpc
from judged.v1 import groups_pb2, verdicts_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import (
    JudgeServiceServicer,
    add_JudgeServiceServicer_to_server,
)

from benchmarks.load.open_loop import Request, drive


class OneAtATime(JudgeServiceServicer):
    """A server that holds each request until it is let go, one after the other."""

    def __init__(self, hold_s: float) -> None:
        self.hold_s = hold_s
        self.lock = asyncio.Lock()

    async def BatchJudge(self, request, context):
        if not request.groups:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "groups: is empty")
        async with self.lock:
            await asyncio.sleep(self.hold_s)
        return pb.BatchJudgeResponse(counts=verdicts_pb2.VerdictCounts(ok=1))


async def _drive(hold_s: float, due: list[float], make, **more):
    server = grpc.aio.server()
    # Abstract in the stub alone: at run time the other calls answer UNIMPLEMENTED.
    service = OneAtATime(hold_s)  # type: ignore[abstract]
    add_JudgeServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        return await drive(f"127.0.0.1:{port}", due, make, 10.0, warm_up=1, **more)
    finally:
        await server.stop(None)


GOOD = pb.BatchJudgeRequest(groups=[groups_pb2.QueryGroup(expected=["a"], retrieved=["b"])])


def _good() -> Request:
    return Request("good", GOOD.SerializeToString(), 2)


class TestDrive:
    async def test_requests_leave_when_due_and_wait_for_nobody(self):
        # Ten at once at a server that takes 20 ms each: a closed loop would see 20 ms every time.
        outcome = await _drive(0.02, [0.0] * 10, _good)
        tally = outcome.tallies["good"]
        assert tally.answered == tally.sent == 10
        assert tally.milliseconds(100) >= 195
        assert tally.milliseconds(50) >= 95

    async def test_what_was_spent_elsewhere_is_left_out(self):
        outcome = await _drive(0.5, [0.0], _good, elsewhere_s=lambda answer: 0.5 * answer.counts.ok)
        assert outcome.total.milliseconds(100) < 450
        outcome = await _drive(0.0, [0.0], _good, elsewhere_s=lambda _: 1e6)
        assert outcome.total.milliseconds(100) < 1

    async def test_verdicts_that_are_missing_are_counted(self):
        total = (await _drive(0.0, [0.0, 0.01], _good)).total
        assert (total.contexts, total.missing_verdicts) == (4, 2)

    async def test_failures_are_counted_by_code_and_have_no_latency(self):
        total = (await _drive(0.0, [0.0] * 3, lambda: Request("bad", b"", 1))).total
        assert (total.sent, total.answered) == (3, 0)
        assert total.errors == {"INVALID_ARGUMENT": 3}
        assert total.histogram.get_total_count() == 0
