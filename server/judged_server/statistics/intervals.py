"""Confidence intervals of means over queries, and percentile intervals of any other statistic.

A statistic is a function of how often each unit was drawn, so that the cost of a resample depends
on the number of units and not of items: units are queries, items or clusters. They are treated as
independent draws from all that could have been used, and the interval is for all of those. A
resample draws as many units as there are, with replacement. All statistics of a call use the same
resamples, so that their intervals are comparable.

The numbers depend only on the values and the seed. The draws are made from the raw words of PCG64,
whose stream NumPy promises to keep, by a rule that is defined here. The sums of means are exact:
values are first rounded to multiples of a power of two so small that it does not matter (below 1e-9
of the largest value for 100,000 queries, finer for fewer) and so large that no sum of n of them
needs more than the 53 bits of a double. So neither the block size, nor the number of threads, nor
the order of additions in a matrix product can change a bit.

More than `MAX_UNITS` units are dealt at random into that many groups, and the groups are drawn.
Groups of independent items are independent, so that the interval has the same meaning; the standard
error of 1,024 groups varies by about 2 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from judged.values.choices import Estimate, Interval, IntervalMethod, IntervalOptions
from numpy.typing import NDArray

from judged_server.domain import FloatArray, IntArray, need
from judged_server.scheduling.fairness import checkpoint

MAX_UNITS = 1_024
"""The most units that are drawn one by one; more are dealt into this many groups."""
MAX_LEFT_OUT = 0.05
"""The share of undefined resamples above which an interval carries a warning."""
FEW_QUERIES = 50
"""With fewer queries an interval carries a warning."""

MAX_DRAWS = 2_000_000_000
"""The most resamples times queries in a call: about ten seconds of one core."""
MAX_MEANS = 8_000_000
"""The most resamples times metrics in memory at once: 64 MB."""
MAX_STEPS = 200_000_000_000
"""Steps of the bootstrap of other statistics, a multiplication each: about ten seconds."""
BLOCK_DRAWS = 1 << 16
"""Draws processed at once: about 2 MiB, which fit the cache of a core."""

_METRICS_A_PASS = 16  # metrics whose sums take about as long as the drawing
_DRAW, _VALUE = 128, 256
"""Steps to draw a unit, and to process a sum."""
_EXACT_BITS = 52
_SKEWNESS_T, _SKEWNESS_BOOTSTRAP = 25, 5
_FLAT = "every resample gives the same value, so that the interval has no width; it says too much"

Statistics = Callable[[FloatArray], FloatArray]
"""From weights, float64[b, units], to values, float64[b, statistics]; NaN where undefined."""


@cache
def special() -> Any:  # noqa: ANN401 - SciPy has no types
    """Return scipy.special, loaded when first needed: loading costs 0.1 s and 10 MB."""
    from scipy import special  # noqa: PLC0415

    return special


@dataclass(frozen=True, slots=True)
class Units:
    """The units to draw: their number, and what they are."""

    n: int
    over: str


def ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Return above / below, NaN where below is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: FloatArray = np.where(below != 0, above / below, np.nan)
    return quotient


def deal(n: int, seed: int) -> tuple[IntArray, int]:
    """Return the unit of each of n things, and the number of units: the things, or groups."""
    if n <= MAX_UNITS:
        return np.arange(n, dtype=np.int64), n
    order = np.random.Generator(np.random.PCG64(seed)).permutation(n)
    return order % MAX_UNITS, MAX_UNITS


def numbered(clusters: IntArray | None, n: int) -> tuple[IntArray, int]:
    """Return each of n items' cluster, numbered from 0, and the count; None: each is its own."""
    if clusters is None:
        return np.arange(n), n
    names, place = np.unique(clusters, return_inverse=True)
    return place, len(names)


def units_of(clusters: IntArray | None, n: int, seed: int) -> tuple[IntArray, Units]:
    """Return the unit of each of n items, and the units: items, or clusters if given."""
    place, things = numbered(clusters, n)
    over = "items" if clusters is None else "clusters"
    unit_of, n_units = deal(things, seed)
    if n_units < things:
        over = f"{n_units} groups of {over}"
    return unit_of[place], Units(n_units, over)


def sum_by_unit(unit_of: IntArray, n_units: int, columns: Sequence[FloatArray]) -> FloatArray:
    """Return float64[units, columns]: each column summed over the items of a unit."""
    return np.stack([np.bincount(unit_of, column, n_units) for column in columns], axis=1)


def estimate_sums(
    columns: Sequence[FloatArray],
    clusters: IntArray | None,
    statistics: Statistics,
    options: IntervalOptions,
) -> tuple[Estimate, ...]:
    """Return estimates of statistics of the sums of columns over items, float64[b, columns]."""
    unit_of, units = units_of(clusters, len(columns[0]), options.seed)
    sums = sum_by_unit(unit_of, units.n, columns)
    return estimate(lambda weights: statistics(weights @ sums), units, options)


def check_work(
    n_queries: int,
    n_metrics: int,
    options: IntervalOptions,
    field: str = "options.interval",
    *,
    unit: str = "queries",
) -> None:
    """Raise InvalidField at `field.resamples` if the bootstrap would take too long.

    `n_queries` is the sum over all tables that need intervals; `unit` is the name of a query in
    messages, in the plural.
    """
    passes = max(1, math.ceil(n_metrics / _METRICS_A_PASS))
    most = min(MAX_DRAWS // max(1, n_queries * passes), MAX_MEANS // max(1, n_metrics))
    asked = f"for {n_queries} {unit} and {n_metrics} metrics"
    if options.method is not IntervalMethod.T:
        less, at = "ask for fewer metrics or slices", f"{field}.resamples"
        check_draws(options.resamples, most, asked, less, at, ", or use the method T")


def check_resampling(units: Units, sums: int, options: IntervalOptions) -> None:
    """Raise InvalidField at `interval.resamples` if the bootstrap would take too long.

    `sums` is the number of columns that a statistic sums over weighted units.
    """
    most = MAX_STEPS // (units.n * (_DRAW + sums) + _VALUE * sums)
    asked = f"over {units.over}, with {sums} sums in each"
    check_draws(options.resamples, most, asked, "send fewer items", "interval.resamples")


def check_draws(
    number: int, most: int, asked: str, less: str, field: str, or_else: str = ""
) -> None:
    """Raise InvalidField for more than `most` draws; `asked` describes them in the message."""
    what = f"ask for at most {most}" if most >= 100 else less
    rule = f"is {number} {asked}, which is too much work for one call; {what}{or_else}"
    need(number <= most, field, rule)


def mean(values: FloatArray) -> float | None:
    """Return the mean, None without values. The sum is exact, whatever the order of queries."""
    return math.fsum(values.tolist()) / len(values) if len(values) else None


def mean_intervals(
    values: FloatArray, options: IntervalOptions, unit: str = "queries"
) -> tuple[Interval | None, ...]:
    """Return the interval of each mean; `values` is float64[m, n], m metrics over n queries.

    `unit` is the name of a query in warnings, in the plural. All are None if n is below 2. Callers
    must `check_work` first.
    """
    m, n = values.shape
    if n < 2 or not m:
        return (None,) * len(values)
    means, method = exact_means(values), options.method
    samples = np.empty((0, m)) if method is IntervalMethod.T else _resampled(means, n, options)
    columns = zip(values, means(np.ones((1, n)))[0].tolist(), samples.T, strict=True)
    ends = [_mean_ends(own, middle, np.sort(drawn), options) for own, middle, drawn in columns]
    return tuple(
        Interval(
            low,
            high,
            options.confidence,
            error,
            options.signature,
            tuple(_mean_warnings(own, method, unit)),
        )
        for own, (low, high, error) in zip(values, ends, strict=True)
    )


def _mean_ends(
    values: FloatArray, middle: float, drawn: FloatArray, options: IntervalOptions
) -> tuple[float, float, float]:
    """Return both ends of the interval of one mean, and its standard error.

    `middle` is the mean, `drawn` are the resampled means, ascending. The method T gives
    mean -+ t * sd / sqrt(n), with n - 1 degrees of freedom (Student 1908).
    """
    checkpoint()
    n, tail = len(values), (1 - options.confidence) / 2
    if bool(np.all(values == values[0])):
        return float(values[0]), float(values[0]), 0.0
    if options.method is IntervalMethod.T:
        error = float(values.std(ddof=1)) / math.sqrt(n)
        reach = float(special().stdtrit(n - 1, 1 - tail)) * error
        return middle - reach, middle + reach, error
    levels = expanded_levels(tail, n)
    if options.method is IntervalMethod.BCA:
        levels = bca_levels(drawn, middle, values, tail)
    # A mean of resampled values is in their range; rounding must not move it out.
    low, high = np.clip(percentiles(drawn, levels), values.min(), values.max()).tolist()
    return low, high, float(drawn.std(ddof=1))


def exact_means(values: FloatArray) -> Statistics:
    """Return the statistic of m means, exact to the bit in any order of additions.

    `values` is float64[m, n], finite, n >= 1.
    """
    n = values.shape[1]
    # A power of two above all magnitudes of the row.
    scale = np.ldexp(1.0, np.frexp(np.abs(values).max(axis=1))[1])[:, None]
    unit = 2.0 ** (_EXACT_BITS - math.ceil(math.log2(max(n, 2))))
    whole = np.ascontiguousarray(np.rint(values / scale * unit).T)
    factor = scale[:, 0] / unit
    return lambda weights: weights @ whole / n * factor


def _mean_warnings(values: FloatArray, method: IntervalMethod, unit: str) -> Iterator[str]:
    """Yield why the interval may cover the truth less often than its confidence.

    The rule of skewness is that of Cochran (1977), "Sampling Techniques", section 2.15: n above
    25 times its square. It is for symmetric intervals; the bootstrap has its coverage with a fifth
    of that (benchmarks/coverage.py).
    """
    n = len(values)
    if n < FEW_QUERIES:
        yield f"{n} {unit} are few: below {FEW_QUERIES} it covers less often than it says"
    if bool(np.all(values == values[0])):
        yield f"all {n} values are equal, so that it has no width and says too much"
        return
    deviations = values / np.abs(values).max()
    deviations = deviations - deviations.mean()
    skewness = float(np.mean(deviations**3)) / float(np.mean(deviations**2)) ** 1.5
    times = _SKEWNESS_T if method is IntervalMethod.T else _SKEWNESS_BOOTSTRAP
    if n < (needed := times * skewness**2):
        yield (
            f"the values are skewed (skewness {skewness:.1f}): with fewer than {math.ceil(needed)} "
            f"{unit} it covers less often than it says"
        )


def estimate(
    statistics: Statistics, units: Units, options: IntervalOptions
) -> tuple[Estimate, ...]:
    """Return each statistic with its interval, by the method PERCENTILE.

    There is no interval for fewer than two units, or if most resamples are undefined.
    """
    n = units.n
    values = statistics(np.ones((1, n)))[0]
    if n < 2:
        return tuple(Estimate(_finite(value)) for value in values)
    samples = _resampled(statistics, n, options)
    estimates = []
    for value, column in zip(values, samples.T, strict=True):
        checkpoint()
        drawn, interval = np.sort(column[np.isfinite(column)]), None
        if math.isfinite(value) and 2 * len(drawn) >= len(column):
            missing = 1 - len(drawn) / len(column)
            interval = _interval(drawn, missing, units, options)
        estimates.append(Estimate(_finite(value), interval))
    return tuple(estimates)


def _resampled(statistics: Statistics, n: int, options: IntervalOptions) -> FloatArray:
    """Return float64[resamples, statistics]: the statistics of resamples of n units."""
    draws = resample_counts(n, options.resamples, options.seed, max(1, BLOCK_DRAWS // n))
    return np.concatenate([statistics(weights) for weights in draws])


def _interval(
    drawn: FloatArray, missing: float, units: Units, options: IntervalOptions
) -> Interval:
    """Return the interval from ascending values; `missing` is the share of undefined resamples."""
    lower, upper = percentiles(drawn, expanded_levels((1 - options.confidence) / 2, units.n))
    error, warnings = float(drawn.std(ddof=1)), []
    if missing > MAX_LEFT_OUT:
        warnings.append(
            f"{missing:.0%} of the resamples leave the number undefined and were left out; the "
            "interval is of the others"
        )
    if lower == upper:
        warnings.append(_FLAT)
    signature = f"{options.signature}|over:{units.over}"
    return Interval(lower, upper, options.confidence, error, signature, tuple(warnings))


def by_name(
    names: Sequence[str], estimates: Sequence[Estimate]
) -> tuple[dict[str, Estimate | None], list[str]]:
    """Return the known estimates by name, and warnings for those without an interval."""
    return {name: one.known for name, one in zip(names, estimates, strict=True)}, [
        f"{name} has no interval: most resamples leave it undefined, or there is too little to "
        "resample; collect more"
        for name, one in zip(names, estimates, strict=True)
        if one.value is not None and one.interval is None
    ]


def percentiles(samples: FloatArray, levels: Sequence[float]) -> tuple[float, ...]:
    """Return quantiles of values; equal values count as one, in the middle of their places.

    The mid-distribution quantile of Parzen (2004), "Quantile Probability and Statistical Data
    Modeling". Means of values that are 0 or 1 take few values, and a plain quantile jumps from one
    to the next: at 50 queries intervals then covered the truth 89 to 98 times in 100. If no value
    repeats, it equals np.quantile.
    """
    values, counts = np.unique(samples, return_counts=True)
    middles = np.cumsum(counts) - (counts + 1) / 2
    return tuple(np.interp(np.array(levels) * (len(samples) - 1), middles, values).tolist())


def expanded_levels(tail: float, n: int) -> tuple[float, float]:
    """Return the percentiles of the bootstrap distribution at the ends of the interval.

    Hesterberg (2015), "What Teachers Should Know About the Bootstrap", section 3.3: resamples
    have (n - 1) / n of the unbiased variance, so that the plain percentiles are too narrow. At
    these percentiles a normal distribution gives the t interval.
    """
    reach = float(special().stdtrit(n - 1, 1 - tail)) * math.sqrt(n / (n - 1))
    return float(special().ndtr(-reach)), float(special().ndtr(reach))


def bca_levels(
    samples: FloatArray, middle: float, values: FloatArray, tail: float
) -> tuple[float, float]:
    """Return the percentiles of a mean's resamples corrected for bias and acceleration.

    Efron (1987), "Better Bootstrap Confidence Intervals". The bias is from the share of resampled
    means below the mean, `middle`, with ties as one half. The acceleration is the skewness of the
    values / (6 sqrt(n)).
    """
    share = float(np.mean(samples < middle) + np.mean(samples <= middle)) / 2
    if not 0 < share < 1:
        return tail, 1 - tail
    bias = float(special().ndtri(share))
    deviations = values - values.mean()
    # The ratio does not depend on the scale, and in this one powers do not underflow.
    deviations = deviations / float(np.abs(deviations).max())
    acceleration = float(np.sum(deviations**3)) / (6 * float(deviations @ deviations) ** 1.5)

    def level(quantile: float) -> float:
        shifted = bias + quantile
        room = 1 - acceleration * shifted
        if room <= 0:  # the transformation is not monotone beyond this: use the end
            return 1.0 if shifted > 0 else 0.0
        return float(special().ndtr(bias + shifted / room))

    quantile = float(special().ndtri(tail))
    return level(quantile), level(-quantile)


def resample_counts(n: int, resamples: int, seed: int, rows: int) -> Iterator[FloatArray]:
    """Yield float64[rows or fewer, n]: how often each of n things is in each resample.

    The counts do not depend on the number of rows in a block, or on the resamples that follow.
    Lemire (2019), "Fast Random Integer Generation in an Interval": x * n has the draw in its upper
    half; words whose lower half is in the uneven rest are skipped, so that all draws are exactly
    equally likely.
    """
    bits = 16 if n <= 1 << 16 else 32
    wide: Any = np.uint32 if bits == 16 else np.uint64
    word = np.dtype(f"<u{bits // 8}")
    rest = (2**bits) % n
    source = np.random.PCG64(seed)
    draws: NDArray[Any] = np.empty(0, word)
    for start in range(0, resamples, rows):
        checkpoint()
        some = min(rows, resamples - start)
        while (lacking := some * n - len(draws)) > 0:
            raw = source.random_raw(lacking * bits // 64 + 16).astype("<u8", copy=False)
            product: NDArray[Any] = raw.view(word).astype(wide)
            product *= wide(n)
            drawn = (product >> wide(bits)).astype(word)
            if rest:
                drawn = drawn[product.astype(word) >= rest]  # the lower half
            draws = np.concatenate([draws, drawn])
        places = draws[: some * n].reshape(some, n) + np.arange(0, some * n, n)[:, None]
        draws = draws[some * n :]
        counts = np.bincount(places.ravel(), minlength=some * n)
        yield counts.reshape(some, n).astype(np.float64)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
