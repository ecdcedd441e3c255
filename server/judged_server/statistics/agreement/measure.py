"""A table of ratings in, its agreement with intervals out.

The formulas are in `kappa` and `krippendorff`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from judged.values.agreement import MEASURES, Agreement, RatingLevel, RatingTable
from judged.values.intervals import Estimate, IntervalOptions

from judged_server.domain import FloatArray, IntArray
from judged_server.statistics.agreement import kappa, krippendorff
from judged_server.statistics.agreement.ratings import (
    Codes,
    Ratings,
    count_categories,
    rated_units,
    spelling_warnings,
    used_categories,
)
from judged_server.statistics.agreement.resampling import (
    check_resampling,
    estimate,
    known,
    undefined_intervals,
)
from judged_server.statistics.intervals import FEW_QUERIES

FEW_ITEMS = FEW_QUERIES
"""Below as many items with two ratings there is a warning."""


def measure_agreement(table: RatingTable, options: IntervalOptions) -> Agreement:
    """Return the agreement of raters over the items with two ratings or more.

    Cohen's kappas need two raters, the weighted ones categories that have an order. Fleiss's kappa
    sees only the items that all raters rated. Intervals come from resampled items. Raises what
    `Ratings.of` does.
    """
    ratings = Ratings.of(table)
    k, n_raters = len(ratings.categories), len(ratings.raters)
    codes = ratings.codes[np.count_nonzero(ratings.codes >= 0, axis=1) >= 2]
    counts = kappa.confusion(codes, k).ravel().tolist() if n_raters == 2 else []
    told = Agreement(ratings.raters, len(codes), ratings.categories, [int(n) for n in counts])
    if len(codes) == 0:
        reason = "no item has two ratings, so that there is no agreement; collect more"
        return replace(told, warnings=(reason,))
    used = used_categories(codes)
    rated = rated_units(codes, k, options.seed)
    layout = _Layout(k, used, n_raters, ratings.level)
    check_resampling(rated.units, layout.width, options)
    columns = rated.sums(layout.sums)

    def statistics(weights: FloatArray) -> FloatArray:
        return layout.values(weights @ columns)

    estimates, _ = estimate(statistics, rated.units, options)
    found = dict(zip(MEASURES, estimates, strict=True))
    n_complete = int(np.count_nonzero((codes >= 0).all(axis=1)))
    warnings = _warnings(found, layout, len(codes), n_complete)
    warnings += spelling_warnings(ratings)
    return replace(told, **known(found), warnings=tuple(warnings))


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the sums of each coefficient stand in one row."""

    n_categories: int
    used: IntArray
    n_raters: int
    level: RatingLevel

    @property
    def weighted(self) -> bool:
        """Whether the weighted kappas apply."""
        return self.n_raters == 2 and self.level is not RatingLevel.NOMINAL

    @property
    def width(self) -> int:
        """The number of sums."""
        return self._cuts[-1] + (3 + 2 * self.n_categories if self.n_raters == 2 else 0)

    @property
    def _cuts(self) -> tuple[int, int, int]:
        """Where Fleiss's sums begin, the coincidences, and what only two raters have."""
        k = len(self.used)
        pairs = k * (k - 1) // 2 if self.level is RatingLevel.ORDINAL else 1
        return 2, 2 + 2 + k, 2 + 2 + k + k + pairs

    def sums(self, codes: Codes) -> FloatArray:
        """Return what some items add to everything, float64[c]."""
        counts = count_categories(codes, self.used)
        parts = [
            kappa.pair_sums(counts),
            kappa.fleiss_sums(counts, self.n_raters),
            krippendorff.coincidence_sums(counts, self.used, self.level),
        ]
        if self.n_raters == 2:
            parts.append(kappa.cohen_sums(kappa.confusion(codes, self.n_categories)))
        return np.concatenate(parts)

    def values(self, sums: FloatArray) -> FloatArray:
        """Return float64[b, 6] in the order of the names; NaN also where one does not apply."""
        pairs, fleiss, coincident, cohen = np.split(sums, self._cuts, axis=1)
        none = np.full(len(sums), np.nan)
        plain, linear, quadratic = none, none, none
        if self.n_raters == 2:
            plain, linear, quadratic = kappa.cohen_kappas(cohen)
        if not self.weighted:
            linear, quadratic = none, none
        return np.stack(
            [
                kappa.observed(pairs),
                plain,
                linear,
                quadratic,
                kappa.fleiss_kappa(fleiss, self.n_raters),
                krippendorff.alpha(coincident, self.used, self.level),
            ],
            axis=1,
        )


def _warnings(
    found: dict[str, Estimate], layout: _Layout, n_items: int, n_complete: int
) -> list[str]:
    warnings = []
    if n_items < FEW_ITEMS:
        warnings.append(
            f"n_items is {n_items}: below {FEW_ITEMS} the intervals cover less often than they say"
        )
    applies = dict.fromkeys(MEASURES, True)
    applies["cohen_kappa"] = layout.n_raters == 2
    applies["linear_kappa"] = applies["quadratic_kappa"] = layout.weighted
    if n_complete == 0:
        applies["fleiss_kappa"] = False
        warnings.append(
            "fleiss_kappa is undefined: no item has the ratings of all raters; read "
            "krippendorff_alpha, which allows for missing ones"
        )
    undefined = [name for name in MEASURES if applies[name] and found[name].value is None]
    if undefined:
        warnings.append(
            f"{', '.join(undefined)}: undefined, since the raters used a single category, and "
            "chance alone would give full agreement; add items of other categories"
        )
    return warnings + undefined_intervals(MEASURES, list(found.values()))
