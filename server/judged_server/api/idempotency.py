"""Calls that are sent again under their request_id: worked once, answered each time.

A call that all its callers have left goes on for a grace, so that a caller whose connection broke
finds it when they come again; somebody who gave up looks the same from here.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

from google.protobuf.message import Message
from judged.v1 import judge_service_pb2 as pb

from judged_server import errors
from judged_server.api.convert.scoring import write_score
from judged_server.api.convert.verdicts import write_verdicts
from judged_server.domain import Verdicts
from judged_server.domain.answers import AnswerScore
from judged_server.judges.base import Caller
from judged_server.scheduling.concurrency import run_by_size
from judged_server.scheduling.single_flight import SingleFlight
from judged_server.telemetry import access
from judged_server.tenant import current_tenant

Reply = TypeVar("Reply", bound=Message | bytes)
"""A reply as a message, or written already."""

_Answer = Message | bytes | AnswerScore | Verdicts
"""What callers share."""

FIELD = "request_id"
KEPT_S = 600.0
"""How long a reply is kept from when it was there."""
MOST_KEPT = 10_000
"""Replies that are kept at most, whatever their size. The oldest give way."""

_UUID4 = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE
)


def check_request_id(request_id: str, field: str = FIELD) -> None:
    """Raise InvalidField for what is no UUID of version 4."""
    if not _UUID4.fullmatch(request_id):
        raise errors.InvalidField(
            field, "must be a UUID of version 4, new for each call; or leave it out"
        )


class _Call(NamedTuple):
    """A call in work: the digest of its request, and the caller who began it."""

    digest: bytes
    caller: Caller


@dataclass(frozen=True, slots=True)
class _Kept:
    """A reply as it was sent, and until when it counts, on the clock of the calls.

    `kind` is that of its message; None when it was bytes, or a value. `size` is in bytes.
    """

    digest: bytes
    kind: type[Message] | None
    reply: bytes | AnswerScore | Verdicts
    size: int
    until: float


class IdempotentCalls:
    """The calls of a server by their request_id. For the event loop's thread."""

    def __init__(
        self,
        most_bytes: int,
        grace_s: float = 0.0,
        *,
        most_kept: int = MOST_KEPT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep `most_kept` replies of `most_bytes` in all; the oldest give way.

        A call goes on for `grace_s` seconds after its last caller has gone.
        """
        self._most_bytes = most_bytes
        self._most_kept = most_kept
        self._clock = clock
        self._grace_s = grace_s
        self._bytes = 0
        self._calls: SingleFlight[_Call, _Answer] = SingleFlight(self._grace)
        self._kept: dict[str, _Kept] = {}

    async def reply(
        self,
        request: Message,
        context: object | None,
        caller: Caller,
        work: Callable[[Caller], Coroutine[Any, Any, Reply]],
    ) -> Reply:
        """Return the reply to a request with a request_id: a kept one, or what `work` returns.

        `caller` is the one whom `work` is to serve if it begins now, and `context` the call for
        the access log, None for a part of one. Raises InvalidField when the id is that of a call
        with other fields, and as `work` does.
        """
        request_id: str = getattr(request, FIELD)
        digest = await run_by_size(request.ByteSize(), _digest, request)
        return cast("Reply", await self._shared(request_id, digest, context, caller, work))

    async def score(
        self,
        request_id: str,
        caller: Caller,
        facts: object,
        work: Callable[[], Coroutine[Any, Any, AnswerScore]],
    ) -> AnswerScore:
        """Return one score of an identified call: a kept one, or what `work` returns.

        `facts` are all that the score depends on. A score with a fault is not kept. Raises as
        `work` does.
        """
        digest = hashlib.sha256(repr(facts).encode()).digest()
        key = f"{request_id.lower()}/{digest.hex()}"
        found = await self._shared(key, digest, None, caller, lambda _: work())
        return cast("AnswerScore", found)

    async def verdicts(
        self,
        start: pb.StreamEvaluateStart,
        chunk: pb.EvaluateChunk,
        caller: Caller,
        work: Callable[[Caller], Coroutine[Any, Any, Verdicts]],
    ) -> Verdicts:
        """Return the verdicts of a chunk of an identified stream: kept ones, or those of `work`.

        Verdicts are not kept where one has a fault. Raises as `work` does.
        """
        digest = await run_by_size(chunk.ByteSize(), _chunk_digest, start, chunk)
        key = f"{start.request_id.lower()}/{digest.hex()}"
        return cast("Verdicts", await self._shared(key, digest, None, caller, work))

    async def _shared(
        self,
        request_id: str,
        digest: bytes,
        context: object | None,
        caller: Caller,
        work: Callable[[Caller], Coroutine[Any, Any, _Answer]],
    ) -> _Answer:
        # An id is its tenant's own: the same one of another is another.
        request_id = f"{current_tenant().name}/{request_id}"
        kept = self._find(request_id)
        if kept is not None:
            _refuse_other(kept.digest, digest)
            if kept.kind is None or not isinstance(kept.reply, bytes):
                return kept.reply
            return kept.kind.FromString(kept.reply)
        call = self._calls.find(request_id)
        if call is None:

            async def kept_work() -> _Answer:
                reply = await work(caller)
                self._keep(request_id, digest, reply)
                return reply

            call = self._calls.begin(request_id, _Call(digest, caller), kept_work)
        else:
            _refuse_other(call.about.digest, digest)
        if context is not None:
            access.spends(context, call.about.caller.cost_tracker)
        return cast("_Answer", await self._calls.wait(request_id, call))

    async def close(self) -> None:
        """End all calls that are in work."""
        await self._calls.close()

    def _grace(self, call: _Call) -> float:
        """Return how long a call goes on alone: for the grace, or with the time that it has."""
        deadline = call.caller.deadline
        left = self._grace_s if deadline is None else deadline - asyncio.get_running_loop().time()
        return min(self._grace_s, left)

    def _find(self, request_id: str) -> _Kept | None:
        kept = self._kept.get(request_id)
        if kept is not None and kept.until <= self._clock():
            self._drop(request_id)
            return None
        return kept

    def _keep(self, request_id: str, digest: bytes, reply: _Answer) -> None:
        now = self._clock()
        until = now + KEPT_S
        if isinstance(reply, AnswerScore):
            if reply.fault is not None:
                return  # the next try may fare better
            kept = _Kept(digest, None, reply, write_score(reply).ByteSize(), until)
        elif isinstance(reply, Verdicts):
            if reply.columns.faults:
                return
            kept = _Kept(digest, None, reply, write_verdicts(reply).ByteSize(), until)
        elif isinstance(reply, bytes):
            kept = _Kept(digest, None, reply, len(reply), until)
        else:
            written = reply.SerializeToString()
            kept = _Kept(digest, type(reply), written, len(written), until)
        if kept.size > self._most_bytes:
            return  # it would push out all the others, and then not fit
        self._kept[request_id] = kept
        self._bytes += kept.size
        while self._kept:  # the oldest stand first
            oldest, first = next(iter(self._kept.items()))
            full = self._bytes > self._most_bytes or len(self._kept) > self._most_kept
            if not full and first.until > now:
                return
            self._drop(oldest)

    def _drop(self, request_id: str) -> None:
        self._bytes -= self._kept.pop(request_id).size


def chunk_request(start: pb.StreamJudgeStart, chunk: pb.JudgeChunk) -> pb.BatchJudgeRequest:
    """Return what a chunk of an identified stream is known by: all that its answer depends on."""
    request = pb.BatchJudgeRequest(
        groups=chunk.groups, judge=start.judge, include_details=start.include_details
    )
    request.asking.cache = start.asking.cache
    request.request_id = f"{start.request_id.lower()}/{_digest(request).hex()}"
    return request


def _chunk_digest(start: pb.StreamEvaluateStart, chunk: pb.EvaluateChunk) -> bytes:
    """Return what the verdicts of a chunk depend on, in 32 bytes."""
    request = pb.EvaluateRequest(
        groups=chunk.groups,
        judge=start.judge,
        metrics=start.metrics,
        include_verdicts=start.include_verdicts,
        include_details=start.include_details,
    )
    request.asking.cache = start.asking.cache
    return _digest(request)


def _digest(request: Message) -> bytes:
    """Return what two requests share when they are the same call with the same fields."""
    name = request.DESCRIPTOR.full_name.encode()
    return hashlib.sha256(name + b"\0" + request.SerializeToString(deterministic=True)).digest()


def _refuse_other(known: bytes, digest: bytes) -> None:
    if known != digest:
        raise errors.InvalidField(
            FIELD,
            "is that of another call of the last 10 minutes, whose fields differ; give each call "
            "an id of its own",
        )
