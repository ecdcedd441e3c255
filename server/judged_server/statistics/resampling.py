"""Intervals of statistics that are no means: kappa, alpha, AUC, rank correlations.

A statistic is a function of how often each unit was drawn, so that a resample costs as much as
there are units and not as there are items: units are distinct patterns of ratings with the number
of items that show them, or clusters, or single items. What a unit is, and the statistic, is up to
the modules that ask; means over queries have `statistics.intervals`, which also knows what
percentiles an interval reaches.

The draws of like units are those of `intervals`. Units that stand for many items are drawn by
NumPy's RandomState, whose numbers are promised never to change, where `Generator` may find better
ones.

Where there would be more units than `MAX_UNITS`, they are dealt at random into as many groups and
the groups are drawn. Groups of independent items are independent, so that the interval speaks of
the same thing; the standard error of 1,024 groups varies by about 2 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from judged.values.intervals import Estimate, Interval, IntervalMethod, IntervalOptions

from judged_server.domain import FloatArray, IntArray
from judged_server.errors import InvalidField
from judged_server.scheduling.checkpoint import checkpoint
from judged_server.statistics.intervals import (
    bca_levels,
    expanded_levels,
    percentile,
    resample_counts,
    t_quantile,
)

MAX_UNITS = 1_024
"""Units that are drawn one by one; more are dealt into as many groups."""
MAX_LEFT_OUT = 0.05
"""The share of undefined resamples above which an interval carries a warning."""

MAX_STEPS = 200_000_000_000
"""Steps of the bootstrap that a call may ask for, a multiplication each: about ten seconds."""

_DRAW, _SPLIT, _VALUE = 128, 2_048, 256
"""Steps that it takes to draw a unit, one that stands for many, and to work with a sum."""
_BLOCK = 1 << 20  # numbers held at once for the weights of a block of resamples: 8 MB
_FLAT = "every resample gives the same value, so that the interval has no width; it says too much"

Statistics = Callable[[FloatArray], FloatArray]
"""From weights, float64[b, units], to values, float64[b, statistics]; NaN where undefined."""


@dataclass(frozen=True, slots=True)
class Units:
    """What is drawn: int64[u], how many like draws each unit stands for, and what they are."""

    counts: IntArray
    over: str

    @property
    def total(self) -> int:
        """The number of draws in a resample."""
        return int(self.counts.sum())

    @property
    def alike(self) -> bool:
        """Whether each unit stands for one draw."""
        return bool(np.all(self.counts == 1))


def ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Return above / below, NaN where below is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: FloatArray = np.where(below != 0, above / below, np.nan)
    return quotient


def deal(n: int, seed: int) -> tuple[IntArray, int]:
    """Return the unit of each of n things, and the number of units: themselves, or groups."""
    if n <= MAX_UNITS:
        return np.arange(n, dtype=np.int64), n
    order = np.random.Generator(np.random.PCG64(seed)).permutation(n)
    return order % MAX_UNITS, MAX_UNITS


def units_of(clusters: IntArray | None, n: int, seed: int) -> tuple[IntArray, Units]:
    """Return the unit of each of n items, and the units: items, or clusters where given."""
    things, over = n, "items"
    place: IntArray = np.arange(n, dtype=np.int64)
    if clusters is not None:
        names, place = np.unique(clusters, return_inverse=True)
        things, over = len(names), "clusters"
    unit_of, n_units = deal(things, seed)
    if n_units < things:
        over = f"{n_units} groups of {over}"
    return unit_of[place], Units(np.ones(n_units, np.int64), over)


def sum_by_unit(unit_of: IntArray, n_units: int, columns: Sequence[FloatArray]) -> FloatArray:
    """Return float64[units, columns]: each column summed over the items of a unit."""
    return np.stack([np.bincount(unit_of, column, n_units) for column in columns], axis=1)


def check_resampling(
    units: Units, sums: int, options: IntervalOptions, field: str = "interval"
) -> None:
    """Raise InvalidField at `field.resamples` when the bootstrap would take too long.

    `sums` is over how many columns a statistic sums the weights of units.
    """
    if options.method is IntervalMethod.T:
        return
    n = len(units.counts)
    drawing = n * (_DRAW if units.alike else _SPLIT)
    most = MAX_STEPS // (drawing + n * sums + _VALUE * sums)
    if options.resamples > most:
        asked = f"is {options.resamples} over {units.over}, with {sums} sums in each"
        rule = f"{asked}, which is too much work for one call; ask for at most {most}"
        raise InvalidField(f"{field}.resamples", f"{rule}, or use the method T")


def estimate(
    statistics: Statistics, units: Units, options: IntervalOptions
) -> tuple[tuple[Estimate, ...], tuple[float, ...]]:
    """Return each statistic with its interval, and the share of resamples that left it undefined.

    There is no interval below two units, nor where most resamples are undefined.
    """
    values = statistics(units.counts[None, :].astype(np.float64))[0]
    n = units.total
    if n < 2:
        return tuple(Estimate(_finite(value)) for value in values), (0.0,) * len(values)
    jackknife = options.method is IntervalMethod.T
    if jackknife:
        samples = _leave_one_out(statistics, units)
    else:
        samples = _resample(statistics, len(values), units, options)
    bca = options.method is IntervalMethod.BCA
    without = _leave_one_out(statistics, units) if bca else samples[:0]
    estimates, left_out = [], []
    for column, value in enumerate(values):
        checkpoint()
        known = np.isfinite(samples[:, column])
        missing = 1 - float(np.average(known, weights=units.counts if jackknife else None))
        left_out.append(missing)
        if not math.isfinite(value) or missing > 0.5:
            estimates.append(Estimate(_finite(value)))
            continue
        drawn = samples[known, column]
        if jackknife:
            ends = _jackknifed(float(value), drawn, units.counts[known], n, options)
        else:
            ends = _drawn(float(value), np.sort(drawn), without[:, column], units, options)
        interval = _interval(*ends, missing, units, options)
        estimates.append(Estimate(float(value), interval))
    return tuple(estimates), tuple(left_out)


def _drawn(
    value: float, defined: FloatArray, without: FloatArray, units: Units, options: IntervalOptions
) -> tuple[float, float, float]:
    """Return the ends of the interval of resampled values, which ascend, and their spread."""
    tail = (1 - options.confidence) / 2
    levels = expanded_levels(tail, units.total)
    if options.method is IntervalMethod.BCA:
        levels = bca_levels(defined, value, _acceleration(without, units.counts), tail)
    lower, upper = (percentile(defined, level) for level in levels)
    return lower, upper, float(defined.std(ddof=1))


def _jackknifed(
    value: float, without: FloatArray, counts: IntArray, n: int, options: IntervalOptions
) -> tuple[float, float, float]:
    """Return value -+ t * jackknife standard error, and that (Tukey 1958; Efron and Stein 1981)."""
    deviations = without - np.average(without, weights=counts)
    m = int(counts.sum())
    error = math.sqrt((m - 1) / m * float(counts @ deviations**2))
    reach = t_quantile((1 + options.confidence) / 2, n - 1) * error
    return value - reach, value + reach, error


def undefined_intervals(names: Sequence[str], estimates: Sequence[Estimate]) -> list[str]:
    """Return a warning for each value without an interval: why there is none."""
    return [
        f"{name} has no interval: most resamples leave it undefined, or there is too little to "
        "resample; collect more"
        for name, one in zip(names, estimates, strict=True)
        if one.value is not None and one.interval is None
    ]


def _resample(
    statistics: Statistics, width: int, units: Units, options: IntervalOptions
) -> FloatArray:
    """Return float64[resamples, width], the bootstrap distribution (Efron 1979)."""
    samples = np.empty((options.resamples, width))
    start = 0
    for weights in _weights(units, options):
        checkpoint()
        samples[start : start + len(weights)] = statistics(weights)
        start += len(weights)
    return samples


def _weights(units: Units, options: IntervalOptions) -> Iterator[FloatArray]:
    """Yield float64[rows, units]: how often each unit is in each resample."""
    n = len(units.counts)
    rows = max(1, _BLOCK // n)
    if units.alike:
        yield from resample_counts(n, options.resamples, options.seed, rows)
        return
    source = np.random.RandomState(np.random.PCG64(options.seed))
    shares = units.counts / units.total
    for start in range(0, options.resamples, rows):
        checkpoint()
        some = min(rows, options.resamples - start)
        yield source.multinomial(units.total, shares, size=some).astype(np.float64)


def _leave_one_out(statistics: Statistics, units: Units) -> FloatArray:
    """Return float64[units, width]: the statistics with one draw of each unit left out."""
    n = len(units.counts)
    rows = max(1, _BLOCK // n)
    parts = []
    for start in range(0, n, rows):
        checkpoint()
        some = np.arange(start, min(start + rows, n))
        weights = np.tile(units.counts.astype(np.float64), (len(some), 1))
        weights[np.arange(len(some)), some] -= 1
        parts.append(statistics(weights))
    return np.concatenate(parts)


def _acceleration(without: FloatArray, counts: IntArray) -> float:
    """Return that of the jackknife (Efron 1987); `without` is parallel to the units' counts."""
    usable = np.isfinite(without)
    kept, times = without[usable], counts[usable]
    spread, skew = 0.0, 0.0
    if len(kept):
        deviations = np.average(kept, weights=times) - kept
        spread, skew = float(times @ deviations**2), float(times @ deviations**3)
    return skew / (6 * spread**1.5) if spread > 0 else 0.0


def _interval(
    lower: float,
    upper: float,
    error: float,
    missing: float,
    units: Units,
    options: IntervalOptions,
) -> Interval:
    warnings = []
    if missing > MAX_LEFT_OUT:
        warnings.append(
            f"{missing:.0%} of the resamples leave the number undefined and were left out; the "
            "interval speaks of the others"
        )
    if lower == upper:
        warnings.append(_FLAT)
    signature = f"{options.signature}|over:{units.over}"
    return Interval(lower, upper, options.confidence, error, signature, tuple(warnings))


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
