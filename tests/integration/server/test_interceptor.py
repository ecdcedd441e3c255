"""The guard around calls, with handlers that misbehave in a real server of this process."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import pytest
from judged._transport.call import to_error
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import scores_pb2
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub
from judged_server import errors, telemetry
from judged_server.api.interceptor import CallInterceptor
from judged_server.api.listeners import JUDGE
from judged_server.api.requests import Admission, Receiver
from judged_server.settings import Settings

CANARY = "sk-canary-in-an-exception"


Service = tuple["Misbehaving", JudgeServiceStub, CallInterceptor]


class Text:
    """What a call holds as long as its frames are there."""


class Misbehaving:
    """Each call fails in one of the ways that the interceptor is for."""

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        self.entered = asyncio.Event()
        self.released = asyncio.Event()

    def hold(self) -> Text:
        """Return something for a handler to hold; `released` is set when it is let go of."""
        text = Text()
        weakref.finalize(text, self.released.set)
        return text

    async def BatchJudge(self, request: Any, context: Any) -> Any:
        _held = self.hold()
        raise ValueError(CANARY)

    async def Evaluate(self, request: Any, context: Any) -> Any:
        child = asyncio.create_task(asyncio.sleep(60))
        child.cancel()
        await child

    async def ComputeMetrics(self, request: Any, context: Any) -> Any:
        _held = self.hold()
        self.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()

    async def GetServerInfo(self, request: Any, context: Any) -> Any:
        _held = self.hold()
        raise errors.Overloaded("busy", 0.7)

    async def ScoreAnswers(self, request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            while True:
                score = scores_pb2.AnswerScore(reasoning="x" * 100_000)
                yield pb.ScoreAnswersResponse(score=score)
        finally:
            self.cancelled.set()

    async def StreamJudge(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        _held = self.hold()
        yield pb.StreamJudgeResponse()
        raise KeyError(CANARY)


@pytest.fixture
def silence() -> Iterator[None]:
    """Keep what goes wrong on purpose out of the log, and the log of other tests as it was."""
    level, handlers = logging.root.level, list(logging.root.handlers)
    telemetry.configure("critical")
    yield
    telemetry.configure("info")
    logging.root.setLevel(level)
    logging.root.handlers[:] = handlers


@pytest.fixture
async def service(silence: None) -> AsyncIterator[Service]:
    async with serving(
        default_deadline_s=0.2, max_unary_deadline_s=0.3, max_stream_deadline_s=5
    ) as found:
        yield found


@asynccontextmanager
async def serving(**limits: float) -> AsyncIterator[Service]:
    server = grpc.aio.server()
    interceptor = CallInterceptor(
        Settings.model_construct(**limits), Receiver(Admission(1 << 28), 1 << 24)
    )
    misbehaving = Misbehaving()
    handlers = dict(interceptor.handlers(JUDGE, misbehaving))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(JUDGE.full_name, handlers),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield misbehaving, JudgeServiceStub(channel), interceptor
    await server.stop(0)


async def failure(call: Any) -> Any:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return to_error(caught.value, "here")


async def test_an_exceptions_text_never_reaches_the_caller(service):
    _, stub, _ = service
    error = await failure(stub.BatchJudge(pb.BatchJudgeRequest()))
    assert (error.code, error.reason) == ("INTERNAL", "INTERNAL")
    assert CANARY not in error.message
    assert error.metadata["ref"] in error.message


async def test_a_stray_cancelled_error_does_not_leave_the_caller_hanging(service):
    _, stub, _ = service
    error = await failure(stub.Evaluate(pb.EvaluateRequest(), timeout=60))
    assert error.code == "INTERNAL"


async def test_a_call_without_a_deadline_gets_one(service):
    misbehaving, stub, _ = service
    async with asyncio.timeout(10):
        error = await failure(stub.ComputeMetrics(pb.ComputeMetricsRequest()))
    assert (error.code, error.reason) == ("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED")
    assert misbehaving.cancelled.is_set()


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Let no cycle of objects be found."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("ending", ["bug", "refusal", "deadline", "cancel", "stream"])
async def test_a_call_that_failed_is_let_go_of_at_once(service, no_collection, ending: str):
    misbehaving, stub, _ = service
    if ending == "cancel":
        call = stub.ComputeMetrics(pb.ComputeMetricsRequest(), timeout=60)
        await misbehaving.entered.wait()
        call.cancel()
    elif ending == "stream":
        replies = stub.StreamJudge(iter([pb.StreamJudgeRequest()]))
        with suppress(grpc.aio.AioRpcError):
            while await replies.read() is not grpc.aio.EOF:
                pass
    elif ending == "bug":
        await failure(stub.BatchJudge(pb.BatchJudgeRequest()))
    elif ending == "deadline":
        await failure(stub.ComputeMetrics(pb.ComputeMetricsRequest()))
    else:
        await failure(stub.GetServerInfo(pb.GetServerInfoRequest()))
    async with asyncio.timeout(10):
        await misbehaving.released.wait()


async def test_a_stream_whose_replies_nobody_reads_is_ended(silence: None):
    # No other limit ends the call before the wait gives up.
    async with serving(max_unread_s=0.2) as (misbehaving, stub, _):
        replies: Any = stub.ScoreAnswers(pb.ScoreAnswersRequest(), timeout=600)
        await replies.read()  # and no other
        await asyncio.wait_for(misbehaving.cancelled.wait(), 20)
        replies.cancel()
