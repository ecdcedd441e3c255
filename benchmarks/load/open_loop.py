"""An open-loop load generator: requests leave when they are due, whether or not others are back.

Latency runs from the instant a request was due, not from when it left, so that a server or a
generator that stalls can't hide what it made others wait (coordinated omission). Requests are
serialised before the clock starts, so that the generator costs little. What the requests are is up
to `request_mix`, what is done with the result to `load` and `mixed_load`.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import grpc
from hdrh.histogram import HdrHistogram
from judged.v1 import judge_service_pb2 as pb

from benchmarks.load.departures import depart

METHOD = "/judged.v1.JudgeService/BatchJudge"
MAX_US = 3_600_000_000
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0)


@dataclass(frozen=True, slots=True)
class Request:
    """One request as bytes, the kind it is counted under, and how many contexts it has."""

    label: str
    body: bytes
    contexts: int


@dataclass(slots=True)
class Tally:
    """What became of the requests of one kind; latencies are of those that were answered."""

    histogram: HdrHistogram = field(default_factory=lambda: HdrHistogram(1, MAX_US, 3))
    answered: int = 0
    contexts: int = 0
    missing_verdicts: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def sent(self) -> int:
        """How many there were."""
        return self.answered + sum(self.errors.values())

    def milliseconds(self, percentile: float) -> float:
        """Return the latency below which that share of the answers came."""
        return float(self.histogram.get_value_at_percentile(percentile)) / 1e3

    def add(self, other: Tally) -> None:
        """Count another's requests too."""
        self.histogram.add(other.histogram)
        self.answered += other.answered
        self.contexts += other.contexts
        self.missing_verdicts += other.missing_verdicts
        self.errors.update(other.errors)


@dataclass(slots=True)
class Outcome:
    """The tallies by label; `lag` is how late the generator itself sent."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    lag: Tally = field(default_factory=Tally)
    seconds: float = 0.0

    @property
    def total(self) -> Tally:
        """All labels together."""
        total = Tally()
        for tally in self.tallies.values():
            total.add(tally)
        return total


def arrivals(rate: float, seconds: float, *, poisson: bool, seed: int) -> Iterator[float]:
    """Yield the instants, in seconds from the start, at which requests are due."""
    rng = random.Random(seed)
    due = 0.0
    while True:
        due += rng.expovariate(rate) if poisson else 1 / rate
        if due >= seconds:
            return
        yield due


async def drive(
    target: str,
    due: Sequence[float],
    make: Callable[[], Request],
    timeout_s: float,
    warm_up: int = 3,
    elsewhere_s: Callable[[pb.BatchJudgeResponse], float] = lambda _: 0.0,
) -> Outcome:
    """Return what became of a request for each instant; they are made before the first leaves.

    `warm_up` more of them are sent first, one after the other, and not counted. `elsewhere_s` says
    of an answer which part of its latency is not the server's, and is left out.
    """
    requests = iter([make() for _ in due])
    outcome = Outcome()
    async with grpc.aio.insecure_channel(
        target, options=[("grpc.max_receive_message_length", -1), ("grpc.enable_retries", 0)]
    ) as channel:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
        for _ in range(warm_up):
            await _send(call, make(), time.perf_counter(), timeout_s, elsewhere_s, Outcome())
        started = time.perf_counter() + 0.05
        await depart(
            started,
            due,
            lambda at: _send(call, next(requests), at, timeout_s, elsewhere_s, outcome),
        )
        outcome.seconds = time.perf_counter() - started
    return outcome


async def _send(
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes],
    request: Request,
    due: float,
    timeout_s: float,
    elsewhere_s: Callable[[pb.BatchJudgeResponse], float],
    outcome: Outcome,
) -> None:
    outcome.lag.histogram.record_value(microseconds(time.perf_counter() - due))
    tally = outcome.tallies.setdefault(request.label, Tally())
    # The time limit counts from the due instant too: who waits does not know about queues.
    left = max(0.001, due + timeout_s - time.perf_counter())
    try:
        answer = await call(request.body, timeout=left)
    except grpc.aio.AioRpcError as error:
        tally.errors[error.code().name] += 1
        return
    latency_s = time.perf_counter() - due
    response = pb.BatchJudgeResponse.FromString(answer)
    tally.histogram.record_value(microseconds(latency_s - elsewhere_s(response)))
    tally.answered += 1
    tally.contexts += request.contexts
    tally.missing_verdicts += request.contexts - response.counts.ok


def microseconds(seconds: float) -> int:
    """Return seconds as what a histogram holds: at least 1, at most an hour."""
    return min(MAX_US, max(1, round(seconds * 1e6)))
