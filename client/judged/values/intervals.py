"""A number and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any


class IntervalMethod(IntEnum):
    """How an interval is made."""

    PERCENTILE = 1
    """Percentiles of the means of resampled queries (Efron 1979)."""
    BCA = 2
    """Percentiles corrected for bias and skewness (Efron 1987)."""
    T = 3
    """Mean and standard error under Student's t."""


@dataclass(frozen=True, slots=True)
class IntervalOptions:
    """What interval to make. `resamples` and `seed` are those of the bootstrap; T has none."""

    method: IntervalMethod = IntervalMethod.PERCENTILE
    confidence: float = 0.95
    resamples: int = 10_000
    seed: int = 0

    @classmethod
    def of(cls, **given: Any) -> IntervalOptions:  # noqa: ANN401 - of any field
        """Return options with what is given; what is None has its default."""
        return cls(**{name: value for name, value in given.items() if value is not None})

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


def ends_of(interval: Interval | None) -> dict[str, float | None]:
    """Return the ends as cells of a row; None without an interval."""
    if interval is None:
        return {"lower": None, "upper": None}
    return {"lower": interval.lower, "upper": interval.upper}


def estimates_of(value: Any) -> dict[str, Estimate | None]:  # noqa: ANN401 - a dataclass
    """Return the fields of a value that are estimates, or None, by name."""
    named = (part.name for part in fields(value) if part.type == "Estimate | None")
    return {name: getattr(value, name) for name in named}


def estimate_row(name: str, estimate: Estimate | None) -> dict[str, Any]:
    """Return the row of a number with its interval."""
    known = estimate or Estimate()
    return {"measure": name, "value": known.value, **ends_of(known.interval)}
