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
from collections.abc import Callable, Iterator, Sequence
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


@dataclass(slots=True)
class Tally:
    """What became of the requests of one kind; latencies are of those that were answered.

    `changed` counts the answers whose verdicts differ from those of the same request before.
    `messages` has the first message of each code of `errors`.
    """

    latencies: list[float] = field(default_factory=list)
    contexts: int = 0
    missing_verdicts: int = 0
    changed: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    messages: dict[str, str] = field(default_factory=dict)

    @property
    def answered(self) -> int:
        """How many were answered."""
        return len(self.latencies)

    @property
    def sent(self) -> int:
        """How many there were."""
        return self.answered + sum(self.errors.values())

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

    def add(self, other: Tally) -> None:
        """Count another's requests too."""
        self.latencies += other.latencies
        self.contexts += other.contexts
        self.missing_verdicts += other.missing_verdicts
        self.changed += other.changed
        self.errors.update(other.errors)
        self.messages = other.messages | self.messages


class Answer(NamedTuple):
    """When a request was due, from the start, how long its answer took, and how late it was sent.

    All in seconds; `took` counts from when it was due.
    """

    due: float
    took: float
    late: float


@dataclass(slots=True)
class Outcome:
    """The tallies by label, and all answers.

    `lag` is how late the generator itself sent, `busy` the share of the time that its thread
    worked.
    """

    tallies: dict[str, Tally] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    lag: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    busy: float = 0.0
    verdicts: dict[bytes, bytes] = field(default_factory=dict)
    """By the body of a request, what was judged relevant."""

    @property
    def total(self) -> Tally:
        """All labels together."""
        total = Tally()
        for tally in self.tallies.values():
            total.add(tally)
        return total

    @property
    def client_is_late(self) -> bool:
        """Whether the generator is part of what it measured."""
        return self.lag.milliseconds(99) > LATE_MS or self.busy > BUSY


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
        outcome.lag.record(late)
        tally = outcome.tallies.setdefault(request.label, Tally())
        # The time limit counts from the due instant too: who waits does not know about queues.
        left = max(0.001, timeout_s - late)
        try:
            answer = await call(request.body, timeout=left, metadata=connection.metadata())
        except grpc.aio.AioRpcError as error:
            code = error.code().name
            tally.errors[code] += 1
            tally.messages.setdefault(code, error.details() or "")
            return
        took = time.perf_counter() - due
        response = pb.BatchJudgeResponse.FromString(answer)
        took -= elsewhere_s(response)
        tally.record(took)
        outcome.answers.append(Answer(due - started, took, late))
        tally.contexts += request.contexts
        relevant = bytes(response.verdicts.relevant)
        tally.missing_verdicts += request.contexts - min(response.counts.ok, len(relevant))
        tally.changed += outcome.verdicts.setdefault(request.body, relevant) != relevant

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
