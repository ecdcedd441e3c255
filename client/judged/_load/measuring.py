"""What a load showed: of requests at one rate, and the highest rate that a bound on p99 allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from judged._load.open_loop import BUSY, PERCENTILES, Outcome, Sent, Tally

PRECISION = 1.03
"""A rate that holds is looked for until one that is so many times as high does not."""
_SLOW_SHARE = 0.01
_LEAST_REQUESTS = 2
_STRETCHES = 100
_SHORTEST_STRETCH_S = 0.1


@dataclass(frozen=True, slots=True)
class Step:
    """One rate that was tried.

    `held` says whether all answers came whole, and p99 in time; where not, `limited_by` says who
    could do no more, "server" or "client".
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
    """What was tried, in order, as the JSON document has it.

    `capacity_rps` is the highest rate that held, and `not_held_rps` the lowest one above it that
    did not, None where there was none; `limited_by` is that of its step.
    """

    capacity_rps: float | None = None
    not_held_rps: float | None = None
    limited_by: str | None = None
    steps: list[Step] = field(default_factory=list)


def find_rate(attempt: Callable[[float], Step], first: float, duration_s: float) -> Search:
    """Return the highest rate of which an attempt holds, to within PRECISION.

    It doubles, or halves, until both sides are known, and goes on between them. A rate that does
    not hold is tried once more, since a busy moment of a machine is no limit. Where the client
    can't send at a rate, nothing is known beyond it, and the search ends.
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
    """A bound on p99: says when a run is over it, and can't come back.

    What was slow only because it was sent late is the client's fault.
    """

    def __init__(self, p99_ms: float, planned: int) -> None:
        self._p99_ms, self._planned = p99_ms, planned
        self._seen = self._slow = 0

    def allows_more(self, outcome: Outcome) -> bool:
        """Say whether the server was slow, or failed, so seldom that p99 may still hold."""
        new = outcome.sent[self._seen :]
        self._seen += len(new)
        self._slow += sum(
            bool(each.code) or (each.took - each.late) * 1e3 > self._p99_ms for each in new
        )
        return self._slow <= self._planned * _SLOW_SHARE

    def step(self, rps: float, outcome: Outcome) -> Step:
        """Return what became of a rate."""
        total = outcome.total
        is_whole = total.is_whole and total.answered == self._planned
        held = is_whole and total.milliseconds(99) <= self._p99_ms
        is_client = outcome.busy > BUSY or (is_whole and self.allows_more(outcome))
        return Step(
            rps,
            held,
            None if held else "client" if is_client else "server",
            total.sent,
            total.answered,
            _number(total.milliseconds(50)),
            _number(total.milliseconds(99)),
            outcome.late_ms,
        )


def document(outcome: Outcome, seconds: float) -> dict[str, Any]:
    """Return what the JSON document says of requests that were due in so many seconds."""
    kinds: dict[str, list[Sent]] = {}
    stretches: dict[int, list[Sent]] = {}
    length = max(_SHORTEST_STRETCH_S, seconds / _STRETCHES)
    for each in outcome.sent:
        kinds.setdefault(each.label, []).append(each)
        stretches.setdefault(int(each.due / length), []).append(each)
    first = {"all": outcome.sent} if len(kinds) > 1 else {}
    return {
        "client": {
            "late_p99_ms": outcome.late_ms,
            "busy": outcome.busy,
            "is_late": outcome.client_is_late,
        },
        "requests": {
            name: _told(Tally.of(sent), outcome.seconds or 1.0)
            for name, sent in (first | dict(sorted(kinds.items()))).items()
        },
        "over_time": [
            {"from_s": number * length, "answered": tally.answered}
            | {f"p{p}_ms": tally.milliseconds(p) for p in (50, 99, 100)}
            for number, sent in sorted(stretches.items())
            if (tally := Tally.of(sent)).answered
        ],
    }


def _told(tally: Tally, seconds: float) -> dict[str, Any]:
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
