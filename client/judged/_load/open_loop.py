"""Open-loop load generator: sends requests when they are due, without waiting for answers.

Latency counts from the time a request was due, not from when it was sent, so that a server or a
generator that stalls can't hide the waiting it caused (coordinated omission). Requests are
serialised before the clock starts, so that sending costs little. `request_mix` makes the requests
and their due times.
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
"""If the p99 of sending delays is above this, the generator distorts the measurement."""
BUSY = 0.9
"""So does a generator whose thread works for more than this share of the time."""
_SHORTEST_S = 1e-6


@dataclass(frozen=True, slots=True)
class Request:
    """One serialised request, the label it is counted under, and its number of contexts."""

    label: str
    body: bytes
    contexts: int


class Sent(NamedTuple):
    """The outcome of one request: label, due time, sending delay and latency.

    Times are in seconds, `due` from the start and `took` from `due`. `code` is the status of a
    failure, else empty. `changed`: an earlier answer to the same request had other verdicts.
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
    """Counts of outcomes; `latencies` are those of answered requests."""

    latencies: list[float] = field(default_factory=list)
    contexts: int = 0
    missing_verdicts: int = 0
    changed: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, sent: Iterable[Sent]) -> Tally:
        """Return the counts of these outcomes."""
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
        """Number of requests that were answered."""
        return len(self.latencies)

    @property
    def sent(self) -> int:
        """Number of requests that were sent."""
        return self.answered + self.errors.total()

    @property
    def is_whole(self) -> bool:
        """Whether every request was answered with every verdict."""
        return not self.errors and not self.missing_verdicts

    def record(self, seconds: float) -> None:
        """Add the latency of an answer."""
        self.latencies.append(max(_SHORTEST_S, seconds))

    def milliseconds(self, percentile: float) -> float:
        """Return this percentile of the latencies; NaN if there are none."""
        if not self.latencies:
            return math.nan
        self.latencies.sort()  # cheap: mostly sorted already
        rank = math.ceil(percentile / 100 * self.answered)
        return self.latencies[max(rank, 1) - 1] * 1e3


@dataclass(slots=True)
class Outcome:
    """The outcomes of all requests that were sent.

    `messages` has the first message of each code, `verdicts` the relevance verdicts by request
    body; `busy` is the share of the time that the generator's thread worked.
    """

    sent: list[Sent] = field(default_factory=list)
    messages: dict[str, str] = field(default_factory=dict)
    verdicts: dict[bytes, bytes] = field(default_factory=dict)
    seconds: float = 0.0
    busy: float = 0.0

    @property
    def total(self) -> Tally:
        """Counts over all requests."""
        return Tally.of(self.sent)

    @property
    def late_ms(self) -> float:
        """The p99 of sending delays, in ms."""
        return Tally([each.late for each in self.sent]).milliseconds(99)

    @property
    def client_is_late(self) -> bool:
        """Whether the generator distorted the measurement."""
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
    """Send a request at each due time, and return the outcomes. All are made before sending starts.

    `warm_up` more are sent first, one after the other, and not counted. `elsewhere_s` returns the
    part of an answer's latency that is not the server's; it is subtracted. Sending stops once
    `go_on` is false.
    """
    made = iter(list(islice(requests, len(due))))
    outcome = Outcome()
    connection = AsyncConnection(target, credentials=credentials)
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = connection.channel().unary_unary(METHOD)

    async def send(request: Request, due: float, started: float, outcome: Outcome) -> None:
        late = time.perf_counter() - due
        # The timeout counts from the due time too, as the latency does.
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
