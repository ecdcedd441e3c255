"""Calls under one request_id: who takes part, what is kept, and for how long."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.v1 import groups_pb2, verdicts_pb2
from judged.v1 import judge_service_pb2 as pb
from judged_server.api.idempotency import (
    ENTRY_BYTES,
    IdempotentCalls,
)
from judged_server.api.requests import Call
from judged_server.errors import Draining
from judged_server.judges.base import Caller

from tests.fakes.calls import a_call

ID = "0b0b9b3c-52c0-4f0a-9a44-5b3c8a7b1d11"


def request(request_id: str = ID, text: str = "r") -> pb.BatchJudgeRequest:
    return pb.BatchJudgeRequest(
        groups=[groups_pb2.QueryGroup(retrieved=[text])], request_id=request_id
    )


@dataclass
class Work:
    """Counts how often it is done; each time it waits for `go`."""

    rationale: str = ""
    error: Exception | None = None
    done: int = 0
    cancelled: int = 0
    go: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self) -> bytes:
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        self.done += 1
        if self.error is not None:
            raise self.error
        reply = pb.BatchJudgeResponse(counts=verdicts_pb2.VerdictCounts(ok=self.done))
        reply.judge.signature = self.rationale
        return reply.SerializeToString()


def ok(reply: bytes) -> int:
    return pb.BatchJudgeResponse.FromString(reply).counts.ok


async def once(
    calls: IdempotentCalls, sent: pb.BatchJudgeRequest, call: Call, caller: Caller, work: Work
) -> bytes:
    return await calls.once(sent.request_id, call, caller, (sent,), work)


def ready(**fields: object) -> Work:
    work = Work(**fields)
    work.go.set()
    return work


def caller(seconds: float = 1000.0) -> Caller:
    return Caller(asyncio.get_running_loop().time() + seconds)


async def leave(task: asyncio.Task[object]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def until(fact: Callable[[], bool]) -> None:
    """Let the others have their turns until something is so."""
    while not fact():  # noqa: ASYNC110 - what is waited for tells nobody
        await asyncio.sleep(0)


class TestKept:
    async def test_for_ten_minutes(self):
        seconds = 1000.0
        calls, work = IdempotentCalls(1 << 20, clock=lambda: seconds), ready()
        await once(calls, request(), a_call(), caller(), work)
        seconds += 300.0
        later = str(uuid.uuid4())
        await once(calls, request(later), a_call(), caller(), work)
        seconds += 299.0
        await once(calls, request(), a_call(), caller(), work)
        assert work.done == 2
        seconds += 2.0
        await once(calls, request(later), a_call(), caller(), work)
        assert work.done == 2
        await once(calls, request(), a_call(), caller(), work)
        assert work.done == 3

    async def test_a_failure_is_not_kept_and_frees_the_id(self):
        calls, work = IdempotentCalls(1 << 20), ready(error=Draining("bye", 1.0))
        with pytest.raises(Draining):
            await once(calls, request(), a_call(), caller(), work)
        work.error = None
        assert ok(await once(calls, request(text="x"), a_call(), caller(), work)) == 2


class TestBounds:
    @given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 400)), max_size=40))
    async def test_bytes_are_counted_as_they_come_and_go(self, asked: list[tuple[int, int]]):
        calls = IdempotentCalls(1000 + 2 * ENTRY_BYTES)
        for number, size in asked:
            work = ready(rationale="x" * size)
            await once(calls, request(ID[:-1] + str(number)), a_call(), caller(), work)
        # However it was filled before, it has room for two of these, and for no third.
        work = ready(rationale="x" * 400)
        ids = [str(uuid.uuid4()) for _ in range(3)]
        for each in (*ids, ids[2], ids[1]):
            await once(calls, request(each), a_call(), caller(), work)
        assert work.done == 3
        await once(calls, request(ids[0]), a_call(), caller(), work)
        assert work.done == 4


class TestLeaving:
    async def test_without_a_caller_a_call_ends_with_the_grace(self):
        calls, work = IdempotentCalls(1 << 20, grace_s=0.01), Work()
        task = asyncio.create_task(once(calls, request(), a_call(), caller(), work))
        await work.begun.wait()
        await leave(task)
        assert work.cancelled == 0
        await until(lambda: work.cancelled == 1)
        work.go.set()
        await once(calls, request(), a_call(), caller(), work)
        assert work.done == 1

    async def test_the_end_of_the_server_waits_for_no_grace(self):
        calls, work = IdempotentCalls(1 << 20, grace_s=600.0), Work()
        task = asyncio.create_task(once(calls, request(), a_call(), caller(), work))
        await work.begun.wait()
        await leave(task)
        await calls.close()
        assert work.cancelled == 1
