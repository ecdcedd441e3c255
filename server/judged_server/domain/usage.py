"""What calls to language models took, and what one call may spend: money in whole nano-units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache
from itertools import zip_longest

from judged_server.domain.judges import ErrorGuarantee

NANO = 10**9
MOST_NANO = 1 << 62
"""No amount is larger, so that each fits into 64 bits, and so does the sum of two."""


@dataclass(frozen=True, slots=True)
class StageUsage:
    """What one stage of a cascade did: items that it was asked about, and settled."""

    judge: str
    asked: int = 0
    settled: int = 0
    cost: float | None = 0.0

    def __add__(self, other: StageUsage) -> StageUsage:
        """Return both together."""
        cost = _added(self.cost, other.cost)
        return StageUsage(self.judge, self.asked + other.asked, self.settled + other.settled, cost)


@dataclass(frozen=True, slots=True)
class CascadeUsage:
    """What a cascade did as a whole.

    `avoided_cost` is what the calls that it did not make would have cost at most, None where a
    price is not known; `guarantee` is that of the request, and `counts` are of the items in the
    bins of its data.
    """

    stages: tuple[StageUsage, ...]
    avoided_cost: float | None = 0.0
    guarantee: ErrorGuarantee | None = None
    counts: tuple[int, ...] = ()

    def __add__(self, other: CascadeUsage) -> CascadeUsage:
        """Return both together, which are of the same cascade."""
        stages = tuple(a + b for a, b in zip(self.stages, other.stages, strict=True))
        cost = _added(self.avoided_cost, other.avoided_cost)
        counts = tuple(map(sum, zip_longest(self.counts, other.counts, fillvalue=0)))
        return replace(self, stages=stages, avoided_cost=cost, counts=counts)


def _added(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


@dataclass(frozen=True, slots=True)
class Usage:
    """What calls to language models took; `calls` were answered, `attempts` were made.

    `cost` is None when the price of a call is not known. `latency_s` is summed over the calls.
    `cached` samples came from the verdict cache, `shared` ones from a question of another caller.
    `avoided_calls` were not made, since an earlier stage of a cascade settled the item; `cascade`
    is what its stages did, None for other judges. `estimated` calls have a count of tokens, or a
    cost, that is not the provider's but the most there can be. `left_out` names what stood beside
    replies and can't be what its name says.
    """

    calls: int = 0
    attempts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    latency_s: float = 0.0
    cached: int = 0
    shared: int = 0
    avoided_calls: int = 0
    cascade: CascadeUsage | None = None
    estimated: int = 0
    left_out: frozenset[str] = frozenset()

    def __add__(self, other: Usage) -> Usage:
        """Return both together."""
        if self._is_nothing and (self.cost is not None or other.cost is None):
            return other  # most sums begin so
        both = self.cascade is not None and other.cascade is not None
        return Usage(
            self.calls + other.calls,
            self.attempts + other.attempts,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            _added(self.cost, other.cost),
            self.latency_s + other.latency_s,
            self.cached + other.cached,
            self.shared + other.shared,
            self.avoided_calls + other.avoided_calls,
            self.cascade + other.cascade  # type: ignore[operator]  # both are there
            if both
            else self.cascade or other.cascade,
            self.estimated + other.estimated,
            self.left_out | other.left_out,
        )

    @property
    def _is_nothing(self) -> bool:
        tokens = self.input_tokens or self.output_tokens
        asked = self.calls or self.attempts or tokens or self.latency_s or self.cost
        return not (asked or self.cached or self.shared or self.avoided_calls or self.cascade)


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
