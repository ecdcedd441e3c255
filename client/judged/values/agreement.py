"""How far raters agree on items, and judges on the order of systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from judged._views import View
from judged.errors import InvalidArgument
from judged.values.intervals import Estimate, Estimates, estimate_names


class RatingLevel(IntEnum):
    """What may be done with categories."""

    NOMINAL = 1
    """They are equal or not."""
    ORDINAL = 2
    """They have an order."""
    INTERVAL = 3
    """They are evenly spaced."""


@dataclass(frozen=True, slots=True)
class Rater:
    """One rater's column: for each item the place of a category, or -1 for no rating."""

    name: str
    ratings: Sequence[int]


@dataclass(frozen=True, slots=True, repr=False)
class RatingTable(View):
    """What several raters said of the same items."""

    categories: Sequence[str]
    raters: Sequence[Rater]
    level: RatingLevel = RatingLevel.NOMINAL

    @classmethod
    def of(
        cls,
        categories: Sequence[str],
        ratings: Mapping[str, Sequence[str | None]],
        level: RatingLevel = RatingLevel.NOMINAL,
    ) -> RatingTable:
        """Return the table of what each rater said of each item: a category, or None.

        Raises InvalidArgument for a rating that is no category.
        """
        places: dict[str | None, int] = {name: place for place, name in enumerate(categories)}
        places[None] = -1
        raters = []
        for j, (name, said) in enumerate(ratings.items()):
            for i, each in enumerate(said):
                if each not in places:
                    rule = "is none of the categories; add it to them, or give None for no rating"
                    raise InvalidArgument.of_field(f"ratings.raters[{j}].ratings[{i}]", rule)
            raters.append(Rater(name, [places[each] for each in said]))
        return cls(categories, raters, level)


@dataclass(frozen=True, slots=True)
class SystemScores:
    """What two judges said of the same systems; the first is the reference, larger is better."""

    systems: Sequence[str]
    first: Sequence[float]
    second: Sequence[float]


@dataclass(frozen=True, slots=True, repr=False)
class Agreement(Estimates):
    """How far raters agree. An estimate is None where it does not apply or is undefined.

    `confusion` counts, row after row, the items that the first of two raters put into the category
    of the row and the second into that of the column; it is empty for more raters. `fleiss_kappa`
    is over items that all raters rated, the rest over items with two ratings or more, `n_items` of
    them.
    """

    raters: Sequence[str]
    n_items: int
    categories: Sequence[str]
    confusion: Sequence[int] = ()
    observed: Estimate | None = None
    cohen_kappa: Estimate | None = None
    linear_kappa: Estimate | None = None
    quadratic_kappa: Estimate | None = None
    fleiss_kappa: Estimate | None = None
    krippendorff_alpha: Estimate | None = None
    warnings: tuple[str, ...] = ()

    def confusion_rows(self) -> list[Sequence[int]]:
        """Return the confusion as a list of rows."""
        k = len(self.categories)
        return [self.confusion[row : row + k] for row in range(0, len(self.confusion), k)]


@dataclass(frozen=True, slots=True, repr=False)
class RankAgreement(Estimates):
    """How far two judges order the same systems alike; None where that is undefined."""

    n_systems: int
    kendall_tau: Estimate | None
    tau_ap: Estimate | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class MeasuredAgreement(View):
    """The answer to `measure_agreement`: each part is None when it was not asked for."""

    ratings: Agreement | None
    systems: RankAgreement | None

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row a coefficient of either, with its interval."""
        parts = (part for part in (self.ratings, self.systems) if part is not None)
        return [row for part in parts for row in part.to_rows()]


MEASURES = estimate_names(Agreement)
"""The coefficients of an Agreement, by name."""
