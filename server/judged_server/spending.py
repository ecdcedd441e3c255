"""Money as whole nano-units, and what one call may spend and has spent."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

NANO = 10**9
MOST_NANO = 1 << 62
"""No amount is larger, so that each fits into 64 bits, and so does the sum of two."""


def nano_within(amount: float) -> int:
    """Return the nano-units of a limit, never more than it."""
    exact = Decimal(repr(amount)) * NANO
    return min(int(exact.to_integral_value(ROUND_FLOOR)), MOST_NANO)


def nano_covering(amount: Decimal) -> int:
    """Return the nano-units of a cost, never less than it."""
    return min(int((amount * NANO).to_integral_value(ROUND_CEILING)), MOST_NANO)


def to_amount(nano: int) -> float:
    """Return nano-units as an amount of the currency."""
    return nano / NANO


@dataclass(slots=True)
class UsageReport:
    """What models took; `cost` in the currency of their prices, None where one has none.

    `latency_s` is summed over the calls, of which several may be under way at a time.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    latency_s: float = 0.0


class CostTracker:
    """What one call may spend, has spent, and holds for what is under way.

    `limit` is in nano-units, None for none. `granted` counts the questions that were let through,
    `refused_by_day` those that were not because of the server's budget of the day. `unreported` is
    what models took since it was told last.
    """

    __slots__ = ("granted", "held", "limit", "max_cost", "refused_by_day", "spent", "unreported")

    def __init__(self, max_cost: float | None = None) -> None:
        """Begin with nothing spent; `max_cost` is the call's limit in the server's currency."""
        self.max_cost = max_cost
        self.limit = None if max_cost is None else nano_within(max_cost)
        self.spent = 0
        self.held = 0
        self.granted = 0
        self.refused_by_day = 0
        self.unreported: UsageReport | None = None

    def note(
        self,
        calls: int,
        input_tokens: int,
        output_tokens: int,
        cost: float | None,
        latency_s: float,
    ) -> None:
        """Note what a question took; `cost` is None where the price is not known."""
        noted = self.unreported
        if noted is None:
            noted = self.unreported = UsageReport()
        noted.calls += calls
        noted.input_tokens += input_tokens
        noted.output_tokens += output_tokens
        noted.cost = None if cost is None or noted.cost is None else noted.cost + cost
        noted.latency_s += latency_s

    def report(self) -> UsageReport | None:
        """Return what was noted since it was told last; None when models were asked nothing."""
        noted, self.unreported = self.unreported, None
        return noted
