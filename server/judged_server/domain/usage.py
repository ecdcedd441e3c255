"""What one call may spend: money in whole nano-units."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache

from judged.values.judges import Usage

NANO = 10**9
MOST_NANO = 1 << 62
"""No amount is larger, so that each fits into 64 bits, and so does the sum of two."""


class CostTracker:
    """What one call may spend, has spent, and holds for what is under way.

    `limit` is in nano-units, None for none. `granted` counts the questions that were let through,
    `refused_by_day` those that were not because of a budget of a day or month, the last of which
    was `refusing_budget`. `unreported` is what models took since it was told last.
    """

    __slots__ = (
        "granted",
        "held",
        "limit",
        "max_cost",
        "refused_by_day",
        "refusing_budget",
        "spent",
        "unreported",
    )

    def __init__(self, max_cost: float | None = None) -> None:
        """Begin with nothing spent; `max_cost` is the call's limit in the server's currency."""
        self.max_cost = max_cost
        self.limit = None if max_cost is None else nano_within(max_cost)
        self.spent = 0
        self.held = 0
        self.granted = 0
        self.refused_by_day = 0
        self.refusing_budget = "per_day"
        self.unreported: Usage | None = None

    def note(self, usage: Usage) -> None:
        """Note what a question took."""
        self.unreported = usage if self.unreported is None else self.unreported + usage

    def report(self) -> Usage | None:
        """Return what was noted since it was told last; None when models were asked nothing."""
        noted, self.unreported = self.unreported, None
        return noted


@lru_cache(maxsize=1024)
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
