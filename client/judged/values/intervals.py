"""A number and how sure it is, and means that human labels have corrected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Self

from judged._inputs import Given
from judged._views import View


class IntervalMethod(IntEnum):
    """How an interval is made."""

    PERCENTILE = 1
    """Percentiles of the means of resampled queries (Efron 1979)."""
    BCA = 2
    """Percentiles corrected for bias and skewness (Efron 1987)."""
    T = 3
    """Mean and standard error under Student's t."""


class Options:
    """Options of a call, whose defaults are the server's."""

    __slots__ = ()

    @classmethod
    def of(cls, **given: Any) -> Self:  # noqa: ANN401 - of any field
        """Return options with what is given; what is None has its default."""
        return cls(**{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True, slots=True)
class IntervalOptions(Options):
    """What interval to make. `resamples` and `seed` are those of the bootstrap; T has none."""

    method: IntervalMethod = IntervalMethod.PERCENTILE
    confidence: float = 0.95
    resamples: int = 10_000
    seed: int = 0

    @property
    def signature(self) -> str:
        """How the interval is made, in one stable line."""
        confidence = f"confidence:{self.confidence:.12g}"
        if self.method is IntervalMethod.T:
            return f"t|{confidence}|v1"
        name = self.method.name.lower()
        return f"bootstrap:{name}|resamples:{self.resamples}|seed:{self.seed}|{confidence}|v2"


@dataclass(frozen=True, slots=True)
class Interval:
    """What a number may plausibly be. `signature` says how it was made, `warnings` what to mind."""

    lower: float
    upper: float
    confidence: float
    standard_error: float
    signature: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval; each is None where the data leave it undefined."""

    value: float | None = None
    interval: Interval | None = None

    @property
    def known(self) -> Estimate | None:
        """The estimate; None for one without a value."""
        return None if self.value is None else self


def ends_of(interval: Interval | None) -> dict[str, float | None]:
    """Return the ends as cells of a row; None without an interval."""
    if interval is None:
        return {"lower": None, "upper": None}
    return {"lower": interval.lower, "upper": interval.upper}


def estimate_names(kind: Any) -> tuple[str, ...]:  # noqa: ANN401 - a dataclass, or one of its values
    """Return the names of the fields that are estimates, or None."""
    return tuple(part.name for part in fields(kind) if part.type == "Estimate | None")


def estimates_of(value: Any) -> dict[str, Estimate | None]:  # noqa: ANN401 - a dataclass
    """Return the fields of a value that are estimates, or None, by name."""
    return {name: getattr(value, name) for name in estimate_names(value)}


def estimate_row(name: str, estimate: Estimate | None) -> dict[str, Any]:
    """Return the row of a number with its interval."""
    known = estimate or Estimate()
    return {"measure": name, "value": known.value, **ends_of(known.interval)}


class Estimates(View):
    """A result with a row a number."""

    __slots__ = ()

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row a number, with its interval."""
        return [estimate_row(*named) for named in estimates_of(self).items()]


@dataclass(frozen=True, slots=True, repr=False)
class HumanLabels(Given, View):
    """What people decided on every context of some rankings.

    `relevant` holds ranking after ranking in the order of `query_ids`, each retrieved-major. Draw
    the rankings to label at random, 200 or more: the correction is for such labels only. Where they
    were drawn with unequal probabilities, `inclusion_probabilities` has that of each.
    """

    query_ids: Sequence[str]
    relevant: Sequence[bool]
    inclusion_probabilities: Sequence[float] = ()


@dataclass(frozen=True, slots=True, repr=False)
class CorrectedEstimate(View):
    """A mean with the judge's error carried into it (prediction-powered inference, PPI++).

    `corrected` is None with fewer than two labelled queries. `naive` is the mean of the machine's
    values, `labels_only` that of the human ones. `power` says how much the machine's values were
    trusted, from 0 to 1. `half_width_with_more` is half the width to expect of the corrected
    interval with 50 labels more; None where that can't be told.
    """

    corrected: Estimate | None
    naive: Estimate | None
    labels_only: Estimate | None
    n_labelled: int
    n: int
    power: float
    warnings: tuple[str, ...] = ()
    half_width_with_more: float | None = None


def names_by_warning(
    warned: Mapping[str, Interval | CorrectedEstimate | None],
) -> dict[str, list[str]]:
    """Return the names of the numbers that share each warning."""
    names: dict[str, list[str]] = {}
    for name, one in warned.items():
        for warning in () if one is None else one.warnings:
            names.setdefault(warning, []).append(name)
    return names


def shared_warnings(
    what: str, warned: Mapping[str, Interval | CorrectedEstimate | None]
) -> Iterator[str]:
    """Yield each warning once: that of `what`, and of which numbers if it is not that of all."""
    for warning, names in names_by_warning(warned).items():
        of_some = "" if len(names) == len(warned) else f" of {', '.join(names)}"
        yield f"{what}{of_some}: {warning}"
