"""A table of ratings in, its agreement with intervals out.

Kappa is agreement beyond chance, Cohen's for two raters and Fleiss's for a fixed panel;
Krippendorff's alpha is for any number of raters, with ratings missing (Krippendorff (2011),
"Computing Krippendorff's Alpha-Reliability": an item with m ratings adds 1 / (m - 1) for each
ordered pair of its ratings to the coincidence of their categories).

`*_sums` gives what some items add; the function of the coefficient turns such sums, one row a
resample, into values. NaN means undefined: chance alone would give full agreement.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from judged.values.agreement import MEASURES, Agreement, RatingLevel, RatingTable
from judged.values.intervals import Estimate, IntervalOptions
from numpy.typing import NDArray

from judged_server.domain import FloatArray, IntArray, check_names
from judged_server.errors import InvalidField, LimitExceeded
from judged_server.statistics.intervals import FEW_QUERIES
from judged_server.statistics.resampling import (
    MAX_UNITS,
    Units,
    check_resampling,
    deal,
    estimate,
    ratio,
    undefined_intervals,
)

MAX_ITEMS = 1_000_000
MAX_RATERS = 1_000
MAX_CATEGORIES = 100
"""What one call may bring."""

Codes = NDArray[np.int8]
"""Ratings, [items, raters]: a category's place, or -1 for none."""

_NUMBER = re.compile(r"[+-]?\d{1,15}(\.\d*)?")
_BETWEEN = re.compile(r"(?<=\w)[\s_-]+(?=\w)")
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_YES = ("yes", "y", "true", "t", "1", "да", "ja", "oui", "sí", "si", "sim", "是")
_NO = ("no", "n", "false", "f", "0", "нет", "nein", "nee", "non", "não", "否")
"""Spellings of true and false, which sheets, models and people mix."""

_ROWS = 1 << 14  # rows that are worked on at once


@dataclass(frozen=True, slots=True)
class Ratings:
    """What raters said of items, and of which kind the categories are."""

    raters: tuple[str, ...]
    categories: tuple[str, ...]
    codes: Codes
    level: RatingLevel = RatingLevel.NOMINAL

    @classmethod
    def of(cls, table: RatingTable, field: str = "ratings") -> Ratings:
        """Return the ratings of a table.

        Raises InvalidField for fewer than two raters or categories, for names that repeat or are
        empty, for columns of different lengths or none at all, and for a rating that is no
        category's place; LimitExceeded above the sizes of this module.
        """
        categories, raters = table.categories, [rater.name for rater in table.raters]
        columns = [rater.ratings for rater in table.raters]
        check_names(categories, "categories", MAX_CATEGORIES, f"{field}.categories")
        check_names(raters, "raters", MAX_RATERS, f"{field}.raters", ".name")
        n = len(columns[0])
        if n == 0:
            raise InvalidField(f"{field}.raters[0].ratings", "must hold at least one item")
        if n > MAX_ITEMS:
            raise LimitExceeded(f"{field}.raters[0].ratings", "items", MAX_ITEMS, n)
        codes = np.empty((n, len(columns)), np.int8)
        for j, column in enumerate(columns):
            path = f"{field}.raters[{j}].ratings"
            if len(column) != n:
                raise InvalidField(path, f"has {len(column)} entries where raters[0] has {n}")
            places = np.fromiter(column, np.int64, n)
            wrong = np.flatnonzero((places < -1) | (places >= len(categories)))
            if len(wrong):
                rule = f"must be -1 for no rating, or the place of one of {len(categories)} "
                raise InvalidField(f"{path}[{wrong[0]}]", f"{rule}categories, counted from 0")
            codes[:, j] = places
        return cls(tuple(raters), tuple(categories), codes, table.level)


@dataclass(frozen=True, slots=True)
class RatedUnits:
    """Items with two ratings or more, like ones counted together or many dealt into groups.

    `unit_of` is int64[rows], ascending: the unit of each row of `codes`.
    """

    codes: Codes
    unit_of: IntArray
    units: Units

    def sums(self, summed: Callable[[Codes], FloatArray]) -> FloatArray:
        """Return float64[units, c]: what `summed` makes of each unit's rows, float64[c]."""
        n_units = len(self.units.counts)
        bounds = np.searchsorted(self.unit_of, np.arange(n_units + 1)).tolist()
        rows = []
        for begin, end in pairwise(bounds):
            parts = range(begin, end, _ROWS)
            rows.append(sum(summed(self.codes[i : min(i + _ROWS, end)]) for i in parts))
        return np.array(rows, np.float64)


def rated_units(codes: Codes, n_categories: int, seed: int) -> RatedUnits:
    """Return the units of items, each of which has two ratings or more."""
    patterns, counts = _patterns(codes, n_categories)
    if len(patterns) <= MAX_UNITS:
        unit_of: IntArray = np.arange(len(patterns), dtype=np.int64)
        return RatedUnits(patterns, unit_of, Units(counts, "items"))
    unit_of, n_units = deal(len(codes), seed)
    order = np.argsort(unit_of, kind="stable")
    ones = np.ones(n_units, np.int64)
    return RatedUnits(codes[order], unit_of[order], Units(ones, f"{n_units} groups of items"))


def _patterns(codes: Codes, n_categories: int) -> tuple[Codes, IntArray]:
    """Return the distinct rows and how often each occurs."""
    n_raters = codes.shape[1]
    base = n_categories + 1
    if base**n_raters < 2**62:
        # One integer a row sorts much faster than rows do.
        keys = (codes.astype(np.int64) + 1) @ (base ** np.arange(n_raters, dtype=np.int64))
        _, first, counts = np.unique(keys, return_index=True, return_counts=True)
        return codes[first], counts
    return np.unique(codes, axis=0, return_counts=True)


def used_categories(codes: Codes) -> IntArray:
    """Return the categories that occur, ascending."""
    found = np.unique(codes).astype(np.int64)
    return found[found >= 0]


def spelling_warnings(ratings: Ratings) -> list[str]:
    """Return what may be wrong with how raters write categories."""
    warnings = []
    used = [ratings.categories[place] for place in used_categories(ratings.codes)]
    for what, names in (("categories", used), ("raters", ratings.raters)):
        alike: dict[str, list[str]] = {}
        for name in names:
            alike.setdefault(_folded(name), []).append(name)
        if several := [" and ".join(map(repr, each)) for each in alike.values() if len(each) > 1]:
            warnings.append(
                f"{what} {', '.join(several)} count as different ones, and differ by case, space, "
                "signs or type alone; write each in one way"
            )
    given = [set(used_categories(column).tolist()) for column in ratings.codes.T]
    for own, rater in zip(given, ratings.raters, strict=True):
        if own and not any(own & other for other in given if other is not own):
            warnings.append(
                f"{rater!r} gives no category that another rater gives; check that they write them "
                "alike"
            )
            break
    return warnings


def _folded(category: str) -> str:
    """Return what is the same of categories that are one to people: `Yes `, `yes`, `TRUE`, `1`."""
    text = _UNSEEN.sub("", unicodedata.normalize("NFKC", category).casefold())
    text = _BETWEEN.sub(" ", text.strip(" \t\r\n.,;:!?'\"`*"))
    if _NUMBER.fullmatch(text):
        text = f"{float(text):g}"
    return {**dict.fromkeys(_YES, "yes"), **dict.fromkeys(_NO, "no")}.get(text, text)


def count_categories(codes: Codes, categories: IntArray) -> FloatArray:
    """Return float64[rows, k]: how many of a row's ratings are each of the given categories."""
    places = np.full(int(categories[-1]) + 2, len(categories))  # the last for -1 and for others
    places[categories] = np.arange(len(categories))
    width = len(categories) + 1
    cells = places[codes] + np.arange(0, len(codes) * width, width)[:, None]
    counts = np.bincount(cells.ravel(), minlength=len(codes) * width).reshape(-1, width)
    return counts[:, :-1].astype(np.float64)


def pair_sums(counts: FloatArray) -> FloatArray:
    """Return float64[2]: pairs of equal ratings, and pairs in all; `counts` are [items, k]."""
    given = counts.sum(axis=1)
    return np.array([(counts * (counts - 1)).sum(), (given * (given - 1)).sum()])


def observed_agreement(sums: FloatArray) -> FloatArray:
    """Return the share of pairs of ratings that are equal."""
    return ratio(sums[:, 0], sums[:, 1])


def disagreements(n_categories: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the disagreement of each two categories: unweighted, linear, quadratic (Cohen 1968).

    Linear and quadratic ones grow with the distance of the categories' places.
    """
    places = np.arange(n_categories, dtype=np.float64)
    distance = np.abs(places[:, None] - places[None, :])
    return (distance > 0).astype(np.float64), distance, distance**2


def confusion(codes: Codes, n_categories: int) -> FloatArray:
    """Return float64[k, k]: items by the first and the second rater's category."""
    cells = codes[:, 0].astype(np.int64) * n_categories + codes[:, 1]
    shape = (n_categories, n_categories)
    return np.bincount(cells, minlength=n_categories**2).reshape(shape).astype(np.float64)


def cohen_sums(counts: FloatArray) -> FloatArray:
    """Return float64[3 + 2k] of a confusion [k, k]: disagreements, then both marginals."""
    disagreeing = [(table * counts).sum() for table in disagreements(len(counts))]
    return np.concatenate([disagreeing, counts.sum(axis=1), counts.sum(axis=0)])


def cohen_kappas(sums: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return Cohen's kappa, plain, linear and quadratic: 1 - sum w o / sum w e.

    o are the counts of pairs of categories, e those that the two raters' marginals would give by
    chance (Cohen 1960, 1968).
    """
    k = (sums.shape[1] - 3) // 2
    first, second = sums[:, 3 : 3 + k], sums[:, 3 + k :]
    n = first.sum(axis=1)
    plain, linear, quadratic = (
        1 - ratio(sums[:, i] * n, ((first @ table) * second).sum(axis=1))
        for i, table in enumerate(disagreements(k))
    )
    return plain, linear, quadratic


def fleiss_sums(counts: FloatArray, n_raters: int) -> FloatArray:
    """Return float64[2 + k] of the items that all raters rated; `counts` are [items, k].

    Their number, the sum of their squared counts, their ratings by category.
    """
    complete = counts[counts.sum(axis=1) == n_raters]
    return np.concatenate([[len(complete), (complete**2).sum()], complete.sum(axis=0)])


def fleiss_kappa(sums: FloatArray, n_raters: int) -> FloatArray:
    """Return Fleiss's kappa (P - Pe) / (1 - Pe) of `fleiss_sums` (Fleiss 1971).

    P is the mean share of agreeing pairs of raters, Pe the sum of squared shares of categories.
    """
    n, squares, counts = sums[:, 0], sums[:, 1], sums[:, 2:]
    agreeing = ratio(squares - n * n_raters, n * n_raters * (n_raters - 1))
    chance = (ratio(counts, (n * n_raters)[:, None]) ** 2).sum(axis=1)
    one_category = (counts > 0).sum(axis=1) < 2
    return np.where(one_category, np.nan, ratio(agreeing - chance, 1 - chance))


def coincidence_sums(counts: FloatArray, categories: IntArray, level: RatingLevel) -> FloatArray:
    """Return what items add: float64[k] ratings by category, then their disagreement.

    `counts` is float64[items, k], how many of an item's ratings are of each category, two or more
    in all. The disagreement is one number, coincidences times differences, for nominal and interval
    categories. The differences of ordinal ones hang on the ratings of all items, so that there it
    is the coincidence of each two categories. A coincidence is counted in one of its two orders.
    """
    pairs = (counts / (counts.sum(axis=1, keepdims=True) - 1)).T @ counts
    low, high = np.triu_indices(len(categories), 1)
    together = pairs[low, high]
    if level is RatingLevel.NOMINAL:
        together = together.sum(keepdims=True)
    elif level is RatingLevel.INTERVAL:
        together = np.array([together @ (categories[high] - categories[low]) ** 2.0])
    return np.concatenate([counts.sum(axis=0), together])


def krippendorff_alpha(sums: FloatArray, categories: IntArray, level: RatingLevel) -> FloatArray:
    """Return 1 - observed / expected disagreement of `coincidence_sums`, float64[b, ...].

    NaN where all ratings are of one category: nothing could have disagreed.
    """
    k = len(categories)
    rated = sums[:, :k]
    n = rated.sum(axis=1)
    if k < 2:
        return np.full(len(sums), np.nan)
    seen = sums[:, k]
    if level is RatingLevel.NOMINAL:
        expected = (n**2 - (rated**2).sum(axis=1)) / 2
    else:
        places: FloatArray = categories[None, :].astype(np.float64)
        if level is RatingLevel.ORDINAL:
            # A category stands at the middle of its ratings in the order of all: the difference of
            # two is then the ratings between them, and half of their own.
            places = np.cumsum(rated, axis=1) - rated / 2
            low, high = np.triu_indices(k, 1)
            seen = (sums[:, k:] * (places[:, high] - places[:, low]) ** 2).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            centred = places - (rated * places).sum(axis=1, keepdims=True) / n[:, None]
        expected = n * (rated * centred**2).sum(axis=1)
    one_category = (rated > 0).sum(axis=1) < 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(one_category, np.nan, 1 - (n - 1) * seen / expected)


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
    counts = confusion(codes, k).ravel().tolist() if n_raters == 2 else []
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
    known: dict[str, Any] = {name: one.known for name, one in found.items()}
    return replace(told, **known, warnings=tuple(warnings))


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
            pair_sums(counts),
            fleiss_sums(counts, self.n_raters),
            coincidence_sums(counts, self.used, self.level),
        ]
        if self.n_raters == 2:
            parts.append(cohen_sums(confusion(codes, self.n_categories)))
        return np.concatenate(parts)

    def values(self, sums: FloatArray) -> FloatArray:
        """Return float64[b, 6] in the order of the names; NaN also where one does not apply."""
        pairs, fleiss, coincident, cohen = np.split(sums, self._cuts, axis=1)
        none = np.full(len(sums), np.nan)
        plain, linear, quadratic = none, none, none
        if self.n_raters == 2:
            plain, linear, quadratic = cohen_kappas(cohen)
        if not self.weighted:
            linear, quadratic = none, none
        return np.stack(
            [
                observed_agreement(pairs),
                plain,
                linear,
                quadratic,
                fleiss_kappa(fleiss, self.n_raters),
                krippendorff_alpha(coincident, self.used, self.level),
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
