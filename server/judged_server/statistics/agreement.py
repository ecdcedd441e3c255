"""Agreement of raters on items, and of judges on the order of systems, with intervals.

Kappa is agreement beyond chance, Cohen's for two raters and Fleiss's for a fixed panel;
Krippendorff's alpha is for any number of raters, with ratings missing (Krippendorff (2011),
"Computing Krippendorff's Alpha-Reliability": an item with m ratings adds 1 / (m - 1) for each
ordered pair of its ratings to the coincidence of their categories). NaN means undefined: chance
alone would give full agreement.

Kendall's tau-b and AP correlation say whether two judges rank the same systems alike. The systems
are treated as a sample of those that could have been compared: the interval is for other systems,
not for other queries.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from judged.values.agreement import (
    MEASURES,
    Agreement,
    RankAgreement,
    RatingLevel,
    RatingTable,
    SystemScores,
)
from judged.values.choices import Estimate, IntervalOptions
from numpy.typing import NDArray

from judged_server.domain import (
    FloatArray,
    IntArray,
    plain_form,
)
from judged_server.statistics.intervals import (
    FEW_QUERIES,
    Units,
    by_name,
    check_resampling,
    estimate,
    ratio,
    units_of,
)

MAX_ITEMS = 1_000_000
MAX_RATERS = 1_000
MAX_CATEGORIES = 101
MAX_COMPARED = 1_000
"""The limits of one call."""
FEW_ITEMS = FEW_QUERIES
FEW_SYSTEMS = 10
"""With fewer than this there is a warning."""

Codes = NDArray[np.int8]
"""Ratings, [items, raters]: the index of a category, or -1 for no rating."""

_TABLES = 5  # tables over pairs of systems, with one column per system
_RANKS = ("kendall_tau", "tau_ap")

_NUMBER = re.compile(r"[+-]?\d{1,15}(\.\d*)?")
_BETWEEN = re.compile(r"(?<=[^\W\d_])[\s/_-]+(?=[^\W\d_])")
_TRUE = "yes y true t 1 да ja oui sí sì si sim tak evet 是 はい 예 네 نعم"
_FALSE = "no n false f 0 нет nein nee non não nie hayır 否 いいえ 아니요 لا"  # noqa: RUF001
_YES, _NO = _TRUE.split(), _FALSE.split()
"""Spellings of true and false that spreadsheets, models and people mix."""


def measure_agreement(table: RatingTable, options: IntervalOptions) -> Agreement:
    """Return the agreement of raters over the items with two ratings or more.

    Cohen's kappas need two raters, the weighted ones also ordered categories. Fleiss's kappa uses
    only the items that all raters rated. Intervals are from resampled items.
    """
    codes = np.stack([np.array(rater.ratings, np.int8) for rater in table.raters], axis=1)
    raters, categories = tuple(rater.name for rater in table.raters), tuple(table.categories)
    remarks = [*_spelling_warnings(codes, raters, categories), *_scale_warnings(table)]
    codes = codes[np.count_nonzero(codes >= 0, axis=1) >= 2]
    confusion: list[int] = []
    if len(raters) == 2:
        k = len(categories)
        cells = codes[:, 0].astype(np.int64) * k + codes[:, 1]
        confusion = np.bincount(cells, minlength=k**2).tolist()
    agreement = Agreement(raters, len(codes), categories, confusion)
    if not len(codes):
        reason = "no item has two ratings, so that there is no agreement; collect more"
        return replace(agreement, warnings=(reason,))
    coefficients = _Coefficients(_used(codes), len(raters), table.level)
    unit_of, units = units_of(None, len(codes), options.seed)
    order = np.argsort(unit_of, kind="stable")
    parts = np.split(codes[order], np.cumsum(np.bincount(unit_of))[:-1])
    columns = np.array([coefficients.sums(part) for part in parts])
    check_resampling(units, columns.shape[1], options)
    estimates = estimate(lambda weights: coefficients.values(weights @ columns), units, options)
    found, no_interval = by_name(MEASURES, estimates)
    warnings = (*_warnings(codes, coefficients, estimates), *no_interval, *remarks)
    return replace(agreement, **found, warnings=warnings)  # type: ignore[arg-type]  # estimates


def _used(codes: Codes) -> IntArray:
    """Return the categories that occur, ascending."""
    found = np.unique(codes).astype(np.int64)
    return found[found >= 0]


def _spelling_warnings(codes: Codes, raters: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return warnings about categories and raters that are spelled inconsistently."""
    warnings = []
    used = [names[place] for place in _used(codes)]
    for what, written in (("categories", used), ("raters", raters)):
        alike: dict[str, list[str]] = {}
        for name in written:
            alike.setdefault(_folded(name), []).append(name)
        if several := [" and ".join(map(repr, each)) for each in alike.values() if len(each) > 1]:
            warnings.append(
                f"{what} {', '.join(several)} count as different ones, and differ by case, space, "
                "signs or type alone; write each in one way"
            )
    given = [set(_used(column).tolist()) for column in codes.T]
    for own, rater in zip(given, raters, strict=True):
        if own and not any(own & other for other in given if other is not own):
            warnings.append(
                f"{rater!r} gives no category that another rater gives; check that they write them "
                "alike"
            )
            break
    return warnings


def _scale_warnings(table: RatingTable) -> list[str]:
    """Return a warning about numbers whose places as categories differ from their values."""
    if table.level is RatingLevel.NOMINAL or not all(map(_NUMBER.fullmatch, table.categories)):
        return []
    steps = np.diff([float(number) for number in table.categories])
    in_order = bool((steps > 0).all() or (steps < 0).all())
    if np.allclose(steps, steps[0]) or (in_order and table.level is RatingLevel.ORDINAL):
        return []
    problem = "unevenly spaced" if in_order else "out of order"
    rule = "their places in the list count, not their values; list all steps of the scale in order"
    return [f"the categories are numbers and {problem}: {rule}"]


def _folded(category: str) -> str:
    """Return a form that is equal for spellings of one category: `Yes `, `TRUE` and `1`.

    As it is for `not relevant` and `NotRelevant`.
    """
    text = _BETWEEN.sub("", plain_form(category).casefold().strip(" .,;:!?'\"`*()[]{}"))
    if _NUMBER.fullmatch(text):
        text = f"{float(text):g}"
    return "yes" if text in _YES else "no" if text in _NO else text


@dataclass(frozen=True, slots=True)
class _Coefficients:
    """The agreement coefficients of some raters, as functions of sums over items."""

    used: IntArray
    n_raters: int
    level: RatingLevel

    @property
    def weighted(self) -> bool:
        """Whether the weighted kappas apply."""
        return self.n_raters == 2 and self.level is not RatingLevel.NOMINAL

    @property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """All pairs of categories, by their indices among those used."""
        return np.triu_indices(len(self.used), 1)

    def sums(self, codes: Codes) -> FloatArray:
        """Return the sums over some items, float64[c].

        In this order: pairs of equal ratings, and all pairs; of items that all raters rated, their
        number, their squared counts and their ratings by category; ratings by category; the
        coincidence of each pair of categories; for two raters, the ratings of each by category.
        """
        counts = np.stack([(codes == each).sum(axis=1) for each in self.used], axis=1)
        given = counts.sum(axis=1)
        complete = counts[given == self.n_raters]
        coincident = (counts / (given[:, None] - 1)).T @ counts
        parts = [
            [(counts * (counts - 1)).sum(), (given * (given - 1)).sum()],
            [len(complete), (complete**2).sum(), *complete.sum(axis=0)],
            counts.sum(axis=0),
            coincident[self.pairs],
        ]
        if self.n_raters == 2:
            parts += [(column[:, None] == self.used).sum(axis=0) for column in codes.T]
        return np.concatenate(parts).astype(np.float64)

    def values(self, sums: FloatArray) -> FloatArray:
        """Return float64[b, 6] in the order of MEASURES; NaN also for one that does not apply."""
        k = len(self.used)
        sizes = [2, 2 + k, k, len(self.pairs[0])]
        equal, fleiss, rated, coincident, marginals = np.split(sums, np.cumsum(sizes), axis=1)
        undefined = np.full(len(sums), np.nan)
        kappas = [undefined] * 3
        if self.n_raters == 2:
            distance = np.abs(self.used[:, None] - self.used).astype(np.float64)
            tables = (np.sign(distance), *((distance, distance**2) if self.weighted else ()))
            found = [self._cohen(coincident, marginals, table) for table in tables]
            kappas = [*found, undefined, undefined][:3]
        fleiss_kappa = self._fleiss(fleiss)
        alpha = self._krippendorff(rated, coincident)
        return np.stack(
            [ratio(equal[:, 0], equal[:, 1]), *kappas, fleiss_kappa, alpha],
            axis=1,
        )

    def _cohen(
        self, coincident: FloatArray, marginals: FloatArray, table: FloatArray
    ) -> FloatArray:
        """Return Cohen's kappa, 1 - sum w o / sum w e, by the disagreement w of two categories.

        o are the counts of pairs of categories, e those that are expected by chance from the two
        raters' marginals (Cohen 1960, 1968).
        """
        first, second = np.split(marginals, 2, axis=1)
        seen = coincident @ table[self.pairs] * first.sum(axis=1)
        return 1 - ratio(seen, ((first @ table) * second).sum(axis=1))

    def _fleiss(self, sums: FloatArray) -> FloatArray:
        """Return Fleiss's kappa, (P - Pe) / (1 - Pe) (Fleiss 1971).

        P is the mean share of agreeing pairs of raters, Pe the sum of squared shares of categories.
        """
        n, squares, counts, m = sums[:, 0], sums[:, 1], sums[:, 2:], self.n_raters
        agreeing = ratio(squares - n * m, n * m * (m - 1))
        chance = (ratio(counts, (n * m)[:, None]) ** 2).sum(axis=1)
        return _of_several(counts, ratio(agreeing - chance, 1 - chance))

    def _krippendorff(self, rated: FloatArray, coincident: FloatArray) -> FloatArray:
        """Return 1 - observed / expected disagreement.

        The places of ordinal categories depend on the ratings of all items: a category is at the
        middle of its ratings in the order of all, so that the difference of two is the number of
        ratings between them plus half of their own.
        """
        low, high = self.pairs
        places = self.used[None, :].astype(np.float64)
        if self.level is RatingLevel.ORDINAL:
            places = np.cumsum(rated, axis=1) - rated / 2
        gaps = (places[:, high] - places[:, low]) ** 2
        if self.level is RatingLevel.NOMINAL:
            gaps = np.ones_like(gaps)
        expected = (rated[:, low] * rated[:, high] * gaps).sum(axis=1)
        seen = (rated.sum(axis=1) - 1) * (coincident * gaps).sum(axis=1)
        return _of_several(rated, 1 - ratio(seen, expected))


def _of_several(counts: FloatArray, values: FloatArray) -> FloatArray:
    """Return the values, or NaN if all ratings are of one category: nothing could disagree."""
    return np.where((counts > 0).sum(axis=1) < 2, np.nan, values)


def _warnings(
    codes: Codes, coefficients: _Coefficients, estimates: Sequence[Estimate]
) -> list[str]:
    warnings, n_items = [], len(codes)
    if n_items < FEW_ITEMS:
        warnings.append(
            f"n_items is {n_items}: below {FEW_ITEMS} the intervals cover less often than they say"
        )
    complete = bool((codes >= 0).all(axis=1).any())
    if not complete:
        warnings.append(
            "fleiss_kappa is undefined: no item has the ratings of all raters; read "
            "krippendorff_alpha, which allows for missing ones"
        )
    pair, weighted = coefficients.n_raters == 2, coefficients.weighted
    applies = (True, pair, weighted, weighted, complete, True)
    undefined = [
        name
        for name, one, does in zip(MEASURES, estimates, applies, strict=True)
        if does and one.value is None
    ]
    if undefined:
        warnings.append(
            f"{', '.join(undefined)}: undefined, since the raters used a single category, and "
            "chance alone would give full agreement; add items of other categories"
        )
    return warnings


def rank_agreement(scores: SystemScores, options: IntervalOptions) -> RankAgreement:
    """Return the rank correlations of two judges' scores; larger scores are better.

    tau-b (Kendall 1945) is concordant minus discordant pairs, over untied pairs. tau_AP takes, for
    every system except those at the top, the share of the systems above it that are also above it
    by the first judge, the reference. It is the mean share, scaled to -1..1 (Yilmaz, Aslam and
    Robertson 2008). Systems tied with it are not above it, and a pair that the reference ties does
    not count, as in either half of tau_AP,b (Urbano and Marrero 2017).
    """
    n = len(scores.systems)
    given = {name: np.array(getattr(scores, name), np.float64) for name in ("first", "second")}
    units = Units(n, "systems")
    check_resampling(units, _TABLES * n, options)
    # [n, n]: 1 where the system of the column is better, -1 where worse. Signs come from
    # comparisons: a difference of large scores could overflow or underflow.
    first, second = (
        (each[None, :] > each[:, None]) * 1.0 - (each[None, :] < each[:, None])
        for each in given.values()
    )
    above = (second > 0) * 1.0
    agreed = above * (first > 0)
    tables = (first * second, first**2, second**2)

    def statistics(weights: FloatArray) -> FloatArray:
        same, *untied = (((weights @ table) * weights).sum(axis=1) for table in tables)
        share = ratio(weights @ agreed.T, weights @ above.T)
        below_top = np.isfinite(share)
        counted = np.where(below_top, weights, 0.0)
        mean = ratio((counted * np.where(below_top, share, 0.0)).sum(axis=1), counted.sum(axis=1))
        tau_b = ratio(same, np.sqrt(untied[0] * untied[1]))  # exact where the two are the same
        return np.stack([tau_b, np.where(untied[0] > 0, 2 * mean - 1, np.nan)], axis=1)

    found, no_interval = by_name(_RANKS, estimate(statistics, units, options))
    warnings = []
    if n < FEW_SYSTEMS:
        warnings.append(
            f"only {n} systems: below {FEW_SYSTEMS} the intervals say little; compare more systems"
        )
    warnings += [
        f"kendall_tau and tau_ap are undefined: the {name} judge scores all systems alike"
        for name, each in given.items()
        if each.min() == each.max()
    ]
    return RankAgreement(n, **found, warnings=(*warnings, *no_interval))
