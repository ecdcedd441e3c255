"""An open-loop load generator: requests leave when they are due, whether or not others are back.

Latency runs from the instant a request was due, not from when it left, so that a server or a
generator that stalls can't hide what it made others wait (coordinated omission). Requests are
serialised before the clock starts, so that the generator costs little. What they are, and when they
are due, is up to `request_mix`.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import NamedTuple

import grpc

from judged._load.departures import depart
from judged._transport.connection import AsyncConnection
from judged.credentials import Credentials
from judged.v1 import judge_service_pb2 as pb

METHOD = "/judged.v1.JudgeService/BatchJudge"
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 100.0)
LATE_MS = 5.0
"""A generator that sends later than this, at its 99th percentile, is part of what it measures."""
BUSY = 0.9
"""So is one whose thread has less than a tenth of its time left."""
_SHORTEST_S = 1e-6


@dataclass(frozen=True, slots=True)
class Request:
    """One request as bytes, the kind it is counted under, and how many contexts it has."""

    label: str
    body: bytes
    contexts: int


class Sent(NamedTuple):
    """What became of a request: its label, when it was due, how late it left, how long it took.

    In seconds, `due` from the start, `took` from when it was due. `code` says why there is no
    answer, else is empty; `changed` whether another answer to the same request had other verdicts.
    """

    label: str
    due: float
    late: float
    took: float
    code: str = ""
    contexts: int = 0
    missing: int = 0
    changed: bool = False


@dataclass(slots=True)
class Tally:
    """What became of requests, counted; latencies are of those that were answered."""

    latencies: list[float] = field(default_factory=list)
    contexts: int = 0
    missing_verdicts: int = 0
    changed: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, sent: Iterable[Sent]) -> Tally:
        """Return the count of requests."""
        tally = cls()
        for each in sent:
            if each.code:
                tally.errors[each.code] += 1
                continue
            tally.record(each.took)
            tally.contexts += each.contexts
            tally.missing_verdicts += each.missing
            tally.changed += each.changed
        return tally

    @property
    def answered(self) -> int:
        """How many were answered."""
        return len(self.latencies)

    @property
    def sent(self) -> int:
        """How many there were."""
        return self.answered + self.errors.total()

    @property
    def is_whole(self) -> bool:
        """Whether every request was answered with every verdict."""
        return not self.errors and not self.missing_verdicts

    def record(self, seconds: float) -> None:
        """Count an answer that took so long."""
        self.latencies.append(max(_SHORTEST_S, seconds))

    def milliseconds(self, percentile: float) -> float:
        """Return the latency within which that share of the answers came; NaN without any."""
        if not self.latencies:
            return math.nan
        self.latencies.sort()  # sorted already but for what came since: cheap
        rank = math.ceil(percentile / 100 * self.answered)
        return self.latencies[max(rank, 1) - 1] * 1e3


@dataclass(slots=True)
class Outcome:
    """All requests that were sent, as they ended.

    `messages` has the first message of each code, `verdicts` by the body of a request what was
    judged relevant; `busy` is the share of the time that the thread of the generator worked.
    """

    sent: list[Sent] = field(default_factory=list)
    messages: dict[str, str] = field(default_factory=dict)
    verdicts: dict[bytes, bytes] = field(default_factory=dict)
    seconds: float = 0.0
    busy: float = 0.0

    @property
    def total(self) -> Tally:
        """What became of all of them."""
        return Tally.of(self.sent)

    @property
    def late_ms(self) -> float:
        """How late the generator sent, at its 99th percentile."""
        return Tally([each.late for each in self.sent]).milliseconds(99)

    @property
    def client_is_late(self) -> bool:
        """Whether the generator is part of what it measured."""
        return self.late_ms > LATE_MS or self.busy > BUSY


async def drive(
    target: str,
    due: Sequence[float],
    requests: Iterator[Request],
    timeout_s: float,
    warm_up: int = 3,
    elsewhere_s: Callable[[pb.BatchJudgeResponse], float] = lambda _: 0.0,
    *,
    credentials: Credentials | None = None,
    go_on: Callable[[Outcome], bool] = lambda _: True,
) -> Outcome:
    """Return what became of a request for each instant; they are made before the first leaves.

    `warm_up` more of them are sent first, one after the other, and not counted. `elsewhere_s` says
    of an answer which part of its latency is not the server's, and is left out. No more requests
    leave once `go_on` is false.
    """
    made = iter(list(islice(requests, len(due))))
    outcome = Outcome()
    connection = AsyncConnection(target, credentials=credentials)
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = connection.channel().unary_unary(METHOD)

    async def send(request: Request, due: float, started: float, outcome: Outcome) -> None:
        late = time.perf_counter() - due
        # The time limit counts from the due instant too: who waits does not know about queues.
        left = max(0.001, timeout_s - late)
        about = request.label, due - started, late
        try:
            answer = await call(request.body, timeout=left, metadata=connection.metadata())
        except grpc.aio.AioRpcError as error:
            code = error.code().name
            outcome.messages.setdefault(code, error.details() or "")
            outcome.sent.append(Sent(*about, time.perf_counter() - due, code))
            return
        took = time.perf_counter() - due
        response = pb.BatchJudgeResponse.FromString(answer)
        took -= elsewhere_s(response)
        relevant = bytes(response.verdicts.relevant)
        missing = request.contexts - min(response.counts.ok, len(relevant))
        changed = outcome.verdicts.setdefault(request.body, relevant) != relevant
        outcome.sent.append(Sent(*about, took, "", request.contexts, missing, changed))

    try:
        for request in islice(requests, warm_up):
            await send(request, time.perf_counter(), 0.0, Outcome())
        started, worked = time.perf_counter() + 0.05, time.thread_time()
        await depart(
            started,
            takewhile(lambda _: go_on(outcome), due),
            lambda due: send(next(made), due, started, outcome),
        )
        outcome.seconds = time.perf_counter() - started
        outcome.busy = (time.thread_time() - worked) / outcome.seconds
    finally:
        await connection.close()
    return outcome
