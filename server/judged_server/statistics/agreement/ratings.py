"""A table of ratings, and the units that a bootstrap over its items draws.

The coefficients are in `kappa` and `krippendorff`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from judged.values.agreement import RatingLevel, RatingTable
from numpy.typing import NDArray

from judged_server.domain import FloatArray, IntArray
from judged_server.domain.names import check_names
from judged_server.errors import InvalidField, LimitExceeded
from judged_server.statistics.agreement.resampling import MAX_UNITS, Units, deal

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
