"""Idempotent calls: a call sent again under its request_id is computed once and answered each time.

Unary replies are shared and kept as serialized bytes; parts of streams (the verdicts of a chunk,
one score) as values. A call whose callers have all left goes on for a grace period, so that a
caller whose connection broke can pick it up on retry. The server can't tell that caller from one
that gave up.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast

from google.protobuf.message import Message
from judged.values.scores import AnswerScore

from judged_server.api.requests import Call
from judged_server.domain import Verdicts, need
from judged_server.judges.base import Caller
from judged_server.scheduling.concurrency import run_by_size
from judged_server.scheduling.fairness import SingleFlight

Answer = TypeVar("Answer", bytes, Verdicts, AnswerScore)

KEPT_S = 600.0
"""How long an answer is kept."""
MOST_BYTES = 64 << 20
"""The most bytes of all kept answers."""
GRACE_S = 10.0
"""How long a call goes on after its last caller has left."""
ENTRY_BYTES = 1_000
"""Memory of a kept answer beyond its own bytes."""

_UUID4 = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE
)


def check_request_id(request_id: str, at: str = "request_id") -> None:
    """Raise InvalidField unless `request_id` is a UUID of version 4."""
    rule = "must be a UUID of version 4, new for each call; or leave it out"
    need(bool(_UUID4.fullmatch(request_id)), at, rule)


def digest_of(*facts: object) -> bytes:
    """Return a SHA-256 digest of the facts; they may be protobuf messages or other values."""
    found = hashlib.sha256()
    for fact in facts:
        if isinstance(fact, Message):
            raw = fact.DESCRIPTOR.full_name.encode() + fact.SerializeToString(deterministic=True)
        else:
            raw = repr(fact).encode()
        found.update(len(raw).to_bytes(8, "big") + raw)
    return found.digest()


class _Work(NamedTuple):
    """Work in flight: the digest of its request, and the caller that began it."""

    digest: bytes
    caller: Caller


class _Kept(NamedTuple):
    """A kept answer, its size in bytes, and when it expires, by the clock of IdempotentCalls."""

    digest: bytes
    answer: Any
    size: int
    until: float


@dataclass
class IdempotentCalls:
    """The server's calls by request_id. For the event loop's thread.

    Keeps at most `most_bytes` of answers and evicts the oldest first. A call goes on for `grace_s`
    seconds after its last caller has left.
    """

    most_bytes: int = MOST_BYTES
    grace_s: float = GRACE_S
    clock: Callable[[], float] = time.monotonic
    _bytes: int = 0
    _kept: dict[str, _Kept] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with no call in flight."""
        self._calls: SingleFlight[_Work, Any] = SingleFlight(self.grace_s)

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
        """Return the answer for a request_id: a kept one, that of work in flight, or of `work`.

        `facts` are all that the answer depends on; `caller` is who `work` serves if it begins now.
        With `is_part` one id has many answers, told apart by their facts. A `call` without a cost
        tracker gets the one of the work. Answers with faults are kept only with `keeps_faults`;
        otherwise the next try computes them again. Raises InvalidField when the id was used with
        other facts, and what `work` raises.
        """
        size = sum(fact.ByteSize() for fact in facts if isinstance(fact, Message))
        digest = await run_by_size(size, digest_of, *facts)
        # Ids are scoped by tenant.
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
        """Cancel all calls in flight."""
        await self._calls.close()

    def _keep(self, key: str, digest: bytes, answer: bytes | Verdicts | AnswerScore) -> None:
        size = ENTRY_BYTES + len(pickle.dumps(answer))
        if size > self.most_bytes:
            return  # it would evict all the others and still not fit
        self._kept[key] = _Kept(digest, answer, size, self.clock() + KEPT_S)
        self._bytes += size
        self._drop_expired()

    def _drop_expired(self) -> None:
        """Drop expired answers, and the oldest ones beyond `most_bytes`."""
        now = self.clock()
        while self._kept:
            oldest, first = next(iter(self._kept.items()))  # in order of insertion, so of expiry
            if self._bytes <= self.most_bytes and first.until > now:
                return
            self._bytes -= self._kept.pop(oldest).size


def _has_fault(answer: bytes | Verdicts | AnswerScore) -> bool:
    if isinstance(answer, Verdicts):
        return bool(answer.columns.faults)
    return isinstance(answer, AnswerScore) and answer.error is not None
