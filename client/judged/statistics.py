"""How sure a number is: intervals, and how to ask for them. No protobuf, no NumPy.

How they travel is up to `_statistics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class IntervalMethod(IntEnum):
    """How an interval is made."""

    PERCENTILE = 1
    BCA = 2
    T = 3


@dataclass(frozen=True, slots=True)
class IntervalOptions:
    """What interval to make. None means the server's default: percentile, 0.95, 10,000, seed 0."""

    method: IntervalMethod | None = None
    confidence: float | None = None
    resamples: int | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """What a number may plausibly be. `signature` says how it was made, `warnings` what to mind."""

    lower: float
    upper: float
    confidence: float
    standard_error: float
    signature: str
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval; each is None where the data leave it undefined."""

    value: float | None
    interval: Interval | None
