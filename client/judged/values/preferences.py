"""Paired comparisons of systems, and the ranking that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from judged._views import View, row_of
from judged.values.intervals import Estimate, ends_of


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """One comparison of two systems' answers to a query, `first` shown in the first place.

    `preference` is in [0, 1]: 1 prefers the first, 0 the second, .5 is a tie.
    """

    query_id: str
    first: str
    second: str
    preference: float


@dataclass(frozen=True, slots=True)
class RankedSystem:
    """One system of a ranking: its strength in natural log-odds, and how its comparisons went."""

    name: str
    strength: Estimate
    wins: float
    ties: float
    losses: float


@dataclass(frozen=True, slots=True)
class PositionBias:
    """What became of pairs that were compared in both orders.

    `same` had the same outcome in both, in `first` the answer shown first was preferred both times,
    in `second` that shown second; `mixed` tied in one order alone. `preference_for_first` is .5
    without bias, None without such pairs.
    """

    pairs: int
    same: int
    first: int
    second: int
    mixed: int
    preference_for_first: float | None


@dataclass(frozen=True, slots=True, repr=False)
class SystemRanking(View):
    """Systems, the strongest first; `tie` is Davidson's nu, the share of ties."""

    systems: Sequence[RankedSystem]
    tie: float
    position: PositionBias
    queries: int
    warnings: Sequence[str]
    signature: str

    def __repr__(self) -> str:
        return f"SystemRanking({' > '.join(system.name for system in self.systems)})"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row a system, the strongest first."""
        return [
            {
                "system": system.name,
                "strength": system.strength.value,
                **ends_of(system.strength.interval),
                **row_of(system, "wins ties losses"),
            }
            for system in self.systems
        ]
