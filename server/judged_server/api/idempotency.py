"""Calls that are sent again under their request_id: worked once, answered each time.

Shared and kept are whole replies as they were written, and parts of streams (the verdicts of a
chunk, one score) as values. A call that all its callers have left goes on for a grace, so that a
caller whose connection broke finds it when they come again; somebody who gave up looks the same
from here.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast

from google.protobuf.message import Message
from judged.values.scores import AnswerScore

from judged_server.api.convert.judging import write_score, write_verdicts
from judged_server.api.requests import Call
from judged_server.domain import Verdicts, need
from judged_server.judges.base import Caller
from judged_server.scheduling.concurrency import run_by_size
from judged_server.scheduling.fairness import SingleFlight

Answer = TypeVar("Answer", bytes, Verdicts, AnswerScore)

KEPT_S = 600.0
"""How long an answer is kept from when it was there."""
MOST_BYTES = 64 << 20
"""Of all answers that are kept."""
GRACE_S = 10.0
"""How long a call goes on without callers, for them to return."""
ENTRY_BYTES = 1_000
"""What a kept answer takes beside its own bytes."""

_UUID4 = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE
)


def check_request_id(request_id: str, at: str = "request_id") -> None:
    """Raise InvalidField for what is no UUID of version 4."""
    rule = "must be a UUID of version 4, new for each call; or leave it out"
    need(bool(_UUID4.fullmatch(request_id)), at, rule)


def digest_of(*facts: object) -> bytes:
    """Return 32 bytes that two calls share when they agree in all these facts, messages or not."""
    found = hashlib.sha256()
    for fact in facts:
        if isinstance(fact, Message):
            raw = fact.DESCRIPTOR.full_name.encode() + fact.SerializeToString(deterministic=True)
        else:
            raw = repr(fact).encode()
        found.update(len(raw).to_bytes(8, "big") + raw)
    return found.digest()


class _Work(NamedTuple):
    """Work that is under way: the digest of its request, and the caller who began it."""

    digest: bytes
    caller: Caller


class _Kept(NamedTuple):
    """An answer, its size in bytes, and until when it counts, on the clock of the calls."""

    digest: bytes
    answer: Any
    size: int
    until: float


@dataclass
class IdempotentCalls:
    """The calls of a server by their request_id. For the event loop's thread.

    Answers of `most_bytes` in all are kept; the oldest give way. A call goes on for `grace_s`
    seconds after its last caller has gone.
    """

    most_bytes: int = MOST_BYTES
    grace_s: float = GRACE_S
    clock: Callable[[], float] = time.monotonic
    _bytes: int = 0
    _kept: dict[str, _Kept] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin without a call."""
        self._calls: SingleFlight[_Work, Any] = SingleFlight(self._grace)

    async def once(
        self,
        request_id: str,
        call: Call,
        caller: Caller,
        facts: Sequence[object],
        work: Callable[[], Coroutine[Any, Any, Answer]],
        *,
        is_part: bool = False,
        keeps_faults: bool = False,
    ) -> Answer:
        """Return the answer to what has an id: a kept one, or what `work` returns.

        `facts` are all that the answer depends on, `caller` the one whom `work` is to serve if it
        begins now. A stream has many parts under one id, which its facts tell apart. A `call`
        without a cost tracker gets that of the work. What has a fault is kept only with
        `keeps_faults`: else the next try may fare better. Raises InvalidField when the id is that
        of a call with other facts, and as `work` does.
        """
        size = sum(fact.ByteSize() for fact in facts if isinstance(fact, Message))
        digest = await run_by_size(size, digest_of, *facts)
        # An id is its tenant's own: the same one of another is another.
        key = f"{call.tenant.name}/{request_id.lower()}/{digest.hex() if is_part else ''}"
        self._drop_expired()
        kept, flight = self._kept.get(key), self._calls.find(key)
        known = kept or (flight and flight.about)
        rule = (
            "is that of another call of the last 10 minutes, whose fields differ; give each call "
            "an id of its own"
        )
        need(not known or known.digest == digest, "request_id", rule)
        if kept is not None:
            return cast("Answer", kept.answer)
        if flight is None:

            async def kept_work() -> Answer:
                answer = await work()
                if keeps_faults or not _has_fault(answer):
                    self._keep(key, digest, answer)
                return answer

            flight = self._calls.begin(key, _Work(digest, caller), kept_work)
        if call.cost_tracker is None:
            call.cost_tracker = flight.about.caller.cost_tracker
        return cast("Answer", await self._calls.wait(flight))

    async def close(self) -> None:
        """End all calls that are in work."""
        await self._calls.close()

    def _grace(self, work: _Work) -> float:
        """Return how long work goes on alone: for the grace, or with the time that it has."""
        deadline = work.caller.deadline
        left = self.grace_s if deadline is None else deadline - asyncio.get_running_loop().time()
        return min(self.grace_s, left)

    def _keep(self, key: str, digest: bytes, answer: bytes | Verdicts | AnswerScore) -> None:
        size = ENTRY_BYTES
        if isinstance(answer, bytes):
            size += len(answer)
        elif isinstance(answer, Verdicts):
            size += write_verdicts(answer).ByteSize()
        else:
            size += write_score(answer).ByteSize()
        if size > self.most_bytes:
            return  # too large, it would push out all the others, and then not fit
        self._kept[key] = _Kept(digest, answer, size, self.clock() + KEPT_S)
        self._bytes += size
        self._drop_expired()

    def _drop_expired(self) -> None:
        """Forget what was kept for its time, and the oldest of what is too much."""
        now = self.clock()
        while self._kept:
            oldest, first = next(iter(self._kept.items()))  # they stand in order
            if self._bytes <= self.most_bytes and first.until > now:
                return
            self._bytes -= self._kept.pop(oldest).size


def _has_fault(answer: bytes | Verdicts | AnswerScore) -> bool:
    if isinstance(answer, Verdicts):
        return bool(answer.columns.faults)
    return isinstance(answer, AnswerScore) and answer.error is not None
