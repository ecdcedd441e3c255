"""

Whether two judges order the same systems alike: Kendall's tau-b and AP correlation.

Agreement on single items is in `agreement`.

The systems are taken as a sample of the systems that could have been compared: the interval says
how far the coefficient would move with other systems, not with other queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from judged.values.agreement import RankAgreement, SystemScores
from judged.values.intervals import Estimate, IntervalOptions

from judged_server.domain import FloatArray, check_names
from judged_server.errors import InvalidField
from judged_server.statistics.resampling import (
    Units,
    check_resampling,
    estimate,
    ratio,
    undefined_intervals,
)

MAX_SYSTEMS = 1_000
FEW_SYSTEMS = 10
"""Below as many systems there is a warning."""

_TABLES = 5  # over pairs of systems, each as wide as there are systems
_NAMES = ("kendall_tau", "tau_ap")


def rank_agreement(scores: SystemScores, options: IntervalOptions) -> RankAgreement:
    """Return the rank correlations of two judges' scores, the larger the better.

    Raises InvalidField for fewer than two systems, names that repeat or are empty, and scores that
    are not finite or not one a system; LimitExceeded above MAX_SYSTEMS.
    """
    check_names(scores.systems, "systems", MAX_SYSTEMS, "systems.systems")
    n = len(scores.systems)
    reference = _scores(scores.first, n, "systems.first")
    judged = _scores(scores.second, n, "systems.second")
    units = Units(np.ones(n, np.int64), "systems")
    check_resampling(units, _TABLES * n, options)
    products = _Products.of(reference, judged)
    estimates, _ = estimate(products.values, units, options)
    warnings = _warnings(n, estimates, reference, judged)
    found = dict(zip(_NAMES, (one.known for one in estimates), strict=True))
    return RankAgreement(n, **found, warnings=tuple(warnings))


@dataclass(frozen=True, slots=True)
class _Products:
    """float64[n, n] tables over pairs of systems.

    `same` is 1 where both judges order a pair alike, -1 where they differ, 0 for a tie;
    `untied_first` and `untied_second` are 1 where a judge has no tie. `above[i, j]` is 1 where the
    second judge puts j above i, and `agreed[i, j]` where the first does so too.
    """

    same: FloatArray
    untied_first: FloatArray
    untied_second: FloatArray
    above: FloatArray
    agreed: FloatArray

    @classmethod
    def of(cls, reference: FloatArray, judged: FloatArray) -> _Products:
        """Return the tables of two judges' scores."""
        # Signs come from comparisons: a difference of large scores could overflow or underflow.
        first, second = _order(reference), _order(judged)
        above = (second > 0).astype(np.float64)
        return cls(first * second, first**2, second**2, above, above * (first > 0))

    def values(self, weights: FloatArray) -> FloatArray:
        """Return float64[b, 2]: tau-b and tau_AP when systems weigh so much, float64[b, n]."""
        return np.stack([self._tau_b(weights), self._tau_ap(weights)], axis=1)

    def _tau_b(self, weights: FloatArray) -> FloatArray:
        """Return tau-b (Kendall 1945): pairs alike less pairs unlike, over untied pairs."""
        same, first, second = (
            ((weights @ table) * weights).sum(axis=1)
            for table in (self.same, self.untied_first, self.untied_second)
        )
        return ratio(same, np.sqrt(first * second))  # exact where the two are the same

    def _tau_ap(self, weights: FloatArray) -> FloatArray:
        """Return tau_AP of the second judge's ranking, the first's being the reference.

        For every system but those at the top: the share of the systems above it that belong
        there; their mean, stretched to -1..1 (Yilmaz, Aslam and Robertson 2008). Systems tied
        with it are not above it, and a pair that the reference ties does not count as belonging,
        as in either half of tau_AP,b (Urbano and Marrero 2017).
        """
        share = ratio(weights @ self.agreed.T, weights @ self.above.T)
        below_top = np.isfinite(share)
        counted = np.where(below_top, weights, 0.0)
        mean = ratio((counted * np.where(below_top, share, 0.0)).sum(axis=1), counted.sum(axis=1))
        ordered = ((weights @ self.untied_first) * weights).sum(axis=1) > 0
        return np.where(ordered, 2 * mean - 1, np.nan)


def _order(scores: FloatArray) -> FloatArray:
    """Return float64[n, n]: 1 where the system of the column is better, -1 where worse."""
    better = scores[None, :] > scores[:, None]
    return better.astype(np.float64) - better.T


def _warnings(
    n: int, estimates: Sequence[Estimate], reference: FloatArray, judged: FloatArray
) -> list[str]:
    warnings = []
    if n < FEW_SYSTEMS:
        warnings.append(
            f"only {n} systems: below {FEW_SYSTEMS} the intervals say little; compare more systems"
        )
    for name, scores in (("first", reference), ("second", judged)):
        if scores.min() == scores.max():
            warnings.append(
                f"kendall_tau and tau_ap are undefined: the {name} judge scores all systems alike"
            )
    return warnings + undefined_intervals(_NAMES, estimates)


def _scores(scores: Sequence[float], n: int, field: str) -> FloatArray:
    if len(scores) != n:
        raise InvalidField(field, f"has {len(scores)} entries for {n} systems")
    values = np.fromiter(scores, np.float64, n)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise InvalidField(f"{field}[{wrong[0]}]", "must be a finite number")
    return values
