"""Results of a load: statistics at one rate, and the highest rate that keeps a bound on p99."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from judged._load.open_loop import BUSY, PERCENTILES, Outcome, Sent, Tally

PRECISION = 1.03
"""The search ends once a rate at most this many times the best one has failed."""
_SLOW_SHARE = 0.01
_LEAST_REQUESTS = 2
_INTERVALS = 100
_SHORTEST_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class Step:
    """One rate that was tried.

    `held`: whether every answer had all its verdicts and p99 was within the bound. If not,
    `limited_by` names the bottleneck, "server" or "client".
    """

    rps: float
    held: bool
    limited_by: str | None
    sent: int
    answered: int
    p50_ms: float | None
    p99_ms: float | None
    client_late_p99_ms: float


@dataclass(slots=True)
class Search:
    """The rates that were tried, in order, as in the JSON document.

    `capacity_rps` is the highest rate that passed, `not_held_rps` the lowest rate that failed and
    `limited_by` its bottleneck; each is None if there is no such rate.
    """

    capacity_rps: float | None = None
    not_held_rps: float | None = None
    limited_by: str | None = None
    steps: list[Step] = field(default_factory=list)


def find_rate(attempt: Callable[[float], Step], first: float, duration_s: float) -> Search:
    """Return the highest rate that passes, to within PRECISION.

    Doubles or halves the rate until one passes and one fails, then narrows down between them. A
    rate that fails is tried a second time, since the machine may have been busy for a moment. Ends
    at a rate at which the client can't send, since nothing is known beyond it.
    """
    found, rate = Search(), first
    while rate * duration_s >= _LEAST_REQUESTS:
        for _ in range(2):
            step = attempt(rate)
            found.steps.append(step)
            if step.held:
                break
        if step.held:
            found.capacity_rps = rate
        else:
            found.not_held_rps, found.limited_by = rate, step.limited_by
        low, high = found.capacity_rps, found.not_held_rps
        if step.limited_by == "client" or (low and high and high <= low * PRECISION):
            break
        rate = math.sqrt((low or rate / 4) * (high or rate * 4))
    return found


class Bound:
    """A bound on p99: says when a run can no longer meet it.

    A request that was slow only because it was sent late counts against the client.
    """

    def __init__(self, p99_ms: float, planned: int) -> None:
        self._p99_ms, self._planned = p99_ms, planned
        self._seen = self._slow = 0

    def allows_more(self, outcome: Outcome) -> bool:
        """Return whether so few requests were slow or failed that p99 can still meet the bound."""
        new = outcome.sent[self._seen :]
        self._seen += len(new)
        self._slow += sum(
            bool(each.code) or (each.took - each.late) * 1e3 > self._p99_ms for each in new
        )
        return self._slow <= self._planned * _SLOW_SHARE

    def step(self, rps: float, outcome: Outcome) -> Step:
        """Return the result of a run at a rate."""
        total = outcome.total
        is_whole = total.is_whole and total.answered == self._planned
        passed = is_whole and total.milliseconds(99) <= self._p99_ms
        is_client = outcome.busy > BUSY or (is_whole and self.allows_more(outcome))
        return Step(
            rps,
            passed,
            None if passed else "client" if is_client else "server",
            total.sent,
            total.answered,
            _number(total.milliseconds(50)),
            _number(total.milliseconds(99)),
            outcome.late_ms,
        )


def document(outcome: Outcome, seconds: float) -> dict[str, Any]:
    """Return the statistics of requests due within `seconds`, for the JSON document."""
    kinds: dict[str, list[Sent]] = {}
    intervals: dict[int, list[Sent]] = {}
    length = max(_SHORTEST_INTERVAL_S, seconds / _INTERVALS)
    for each in outcome.sent:
        kinds.setdefault(each.label, []).append(each)
        intervals.setdefault(int(each.due / length), []).append(each)
    overall = {"all": outcome.sent} if len(kinds) > 1 else {}
    return {
        "client": {
            "late_p99_ms": outcome.late_ms,
            "busy": outcome.busy,
            "is_late": outcome.client_is_late,
        },
        "requests": {
            name: _statistics(Tally.of(sent), outcome.seconds or 1.0)
            for name, sent in (overall | dict(sorted(kinds.items()))).items()
        },
        "over_time": [
            {"from_s": number * length, "answered": tally.answered}
            | {f"p{p}_ms": tally.milliseconds(p) for p in (50, 99, 100)}
            for number, sent in sorted(intervals.items())
            if (tally := Tally.of(sent)).answered
        ],
    }


def _statistics(tally: Tally, seconds: float) -> dict[str, Any]:
    return {
        "sent": tally.sent,
        "answered": tally.answered,
        "answered_a_s": tally.answered / seconds,
        "contexts_a_s": tally.contexts / seconds,
        "missing_verdicts": tally.missing_verdicts,
        "changed_verdicts": tally.changed,
        "errors": dict(sorted(tally.errors.items())),
        "latency_ms": {f"p{p:g}": _number(tally.milliseconds(p)) for p in PERCENTILES},
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
