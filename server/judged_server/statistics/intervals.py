"""Means over queries, and their confidence intervals.

Queries are taken as a sample of the queries that could have been asked, each drawn like the
others and independent of them. The interval speaks of the mean over all those.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from judged.values.intervals import Interval, IntervalMethod, IntervalOptions

from judged_server.domain import FloatArray
from judged_server.errors import InvalidField
from judged_server.scheduling.checkpoint import checkpoint
from judged_server.statistics.bootstrap import resample_means
from judged_server.statistics.distributions import normal_cdf, normal_quantile, t_quantile

MAX_DRAWS = 2_000_000_000
"""Resamples times queries that a call may ask for: some ten seconds of one core."""
MAX_MEANS = 8_000_000
"""Resamples times metrics that are held at once: 64 MB."""
FEW_QUERIES = 50
"""Below as many queries an interval carries a warning."""

_SKEWNESS_T = 25
_SKEWNESS_BOOTSTRAP = 5
_METRICS_A_PASS = 16  # metrics whose sums take about as long as the drawing


def mean(values: FloatArray) -> float | None:
    """Return the mean, None of nothing. The sum is exact, so no order of the queries changes it."""
    return math.fsum(values.tolist()) / len(values) if len(values) else None


def check_work(
    n_queries: int,
    n_metrics: int,
    options: IntervalOptions,
    field: str = "options.interval",
    *,
    unit: str = "queries",
) -> None:
    """Raise InvalidField at `field.resamples` when the bootstrap would take too long.

    `n_queries` is the sum over all tables that the call wants intervals for; `unit` is what they
    are called, in the plural.
    """
    if options.method is IntervalMethod.T:
        return
    passes = max(1, math.ceil(n_metrics / _METRICS_A_PASS))
    most = min(MAX_DRAWS // max(1, n_queries * passes), MAX_MEANS // max(1, n_metrics))
    if options.resamples > most:
        asked = f"is {options.resamples} for {n_queries} {unit} and {n_metrics} metrics"
        what = f"ask for at most {most}" if most >= 100 else "ask for fewer metrics or slices"
        rule = f"{asked}, which is too much work for one call; {what}, or use the method T"
        raise InvalidField(f"{field}.resamples", rule)


def mean_intervals(
    values: FloatArray,
    options: IntervalOptions,
    field: str = "options.interval",
    *,
    unit: str = "queries",
) -> tuple[Interval | None, ...]:
    """Return the interval of each mean; `values` is float64[m, n], m metrics over n queries.

    `unit` is what the n are called in warnings, in the plural. None for all when n is below 2.
    Raises what `check_work` raises.
    """
    n = values.shape[1]
    check_work(n, len(values), options, field, unit=unit)
    if n < 2:
        return (None,) * len(values)
    if options.method is IntervalMethod.T:
        return _t_intervals(values, options, unit)
    return _bootstrap_intervals(values, options, unit)


def _t_intervals(values: FloatArray, options: IntervalOptions, unit: str) -> tuple[Interval, ...]:
    """Return mean -+ t * sd / sqrt(n), with n - 1 degrees of freedom (Student 1908)."""
    n = values.shape[1]
    means = values.mean(axis=1)
    errors = values.std(axis=1, ddof=1) / math.sqrt(n)
    reach = t_quantile((1 + options.confidence) / 2, n - 1) * errors
    return _intervals(values, means - reach, means + reach, errors, options, unit)


def _bootstrap_intervals(
    values: FloatArray, options: IntervalOptions, unit: str
) -> tuple[Interval, ...]:
    resampled = resample_means(values, options.resamples, options.seed)
    means = np.sort(resampled.means, axis=1)
    n = values.shape[1]
    tail = (1 - options.confidence) / 2
    lower, upper = [], []
    for row, estimate, own in zip(means, resampled.estimates, values, strict=True):
        checkpoint()
        if options.method is IntervalMethod.BCA:
            levels = bca_levels(row, float(estimate), _acceleration(own), tail)
        else:
            levels = expanded_levels(tail, n)
        lower.append(percentile(row, levels[0]))
        upper.append(percentile(row, levels[1]))
    # A mean of resampled values lies among them; rounding must not carry it out.
    smallest, largest = values.min(axis=1), values.max(axis=1)
    return _intervals(
        values,
        np.clip(lower, smallest, largest),
        np.clip(upper, smallest, largest),
        means.std(axis=1, ddof=1),
        options,
        unit,
    )


def percentile(ascending: FloatArray, level: float) -> float:
    """Return a quantile of values in order; equal ones are one, in the middle of their places.

    The mid-distribution quantile of Parzen (2004), "Quantile Probability and Statistical Data
    Modeling". Means of values that are 0 or 1 take few values, and a plain quantile jumps from one
    to the next: at 50 queries intervals then held the truth from 89 to 98 times in 100. Where no
    value comes twice it is np.quantile's, without its 50 microseconds.
    """
    place = level * (len(ascending) - 1)
    value = ascending[int(place)]
    first, last = _ties(ascending, value)
    middle = (first + last) / 2
    if place < middle and first > 0:
        beside = ascending[first - 1]
    elif place > middle and last + 1 < len(ascending):
        beside = ascending[last + 1]
    else:
        return float(value)
    away = sum(_ties(ascending, beside)) / 2 - middle
    return float(value + (beside - value) * ((place - middle) / away))


def _ties(ascending: FloatArray, value: float) -> tuple[int, int]:
    """Return the first and the last place of a value."""
    first, end = (int(ascending.searchsorted(value, side)) for side in ("left", "right"))
    return first, end - 1


def expanded_levels(tail: float, n: int) -> tuple[float, float]:
    """Return the percentiles of the bootstrap distribution that the interval reaches.

    Hesterberg (2015), "What Teachers Should Know About the Bootstrap", section 3.3: resamples
    vary as a sample of variance (n - 1) / n of the unbiased one, so that the plain percentiles
    are too narrow. These are those at which a normal distribution gives the t interval.
    """
    reach = t_quantile(1 - tail, n - 1) * math.sqrt(n / (n - 1))
    return normal_cdf(-reach), normal_cdf(reach)


def _acceleration(values: FloatArray) -> float:
    """Return that of the jackknife, which for a mean is the skewness of values over 6 sqrt(n)."""
    deviations = values - values.mean()
    # The ratio does not depend on the unit, and in this one no power of it vanishes.
    largest = float(np.abs(deviations).max(initial=0.0))
    if largest > 0:
        deviations = deviations / largest
    spread = float(np.sum(deviations**2))
    return float(np.sum(deviations**3)) / (6 * spread**1.5) if spread > 0 else 0.0


def bca_levels(
    resampled: FloatArray, estimate: float, acceleration: float, tail: float
) -> tuple[float, float]:
    """Return the percentiles corrected for bias and acceleration; `resampled` ascends.

    Efron (1987), "Better Bootstrap Confidence Intervals". The bias is the share of what was
    resampled below the estimate, of ties one half.
    """
    below, up_to = (
        np.searchsorted(resampled, estimate, "left"),
        np.searchsorted(resampled, estimate, "right"),
    )
    share = float(below + up_to) / (2 * len(resampled))
    if not 0 < share < 1:
        return tail, 1 - tail
    bias = normal_quantile(share)

    def level(quantile: float) -> float:
        shifted = bias + quantile
        room = 1 - acceleration * shifted
        if room <= 0:  # the transformation turns round here: nothing lies beyond
            return 1.0 if shifted > 0 else 0.0
        return normal_cdf(bias + shifted / room)

    return level(normal_quantile(tail)), level(normal_quantile(1 - tail))


def _intervals(
    values: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    errors: FloatArray,
    options: IntervalOptions,
    unit: str,
) -> tuple[Interval, ...]:
    """Return the intervals; those of equal values have no width."""
    made = []
    for own, low, high, error in zip(values, lower, upper, errors, strict=True):
        equal = bool(np.all(own == own[0]))
        made.append(
            Interval(
                float(own[0] if equal else low),
                float(own[0] if equal else high),
                options.confidence,
                0.0 if equal else float(error),
                options.signature,
                tuple(_warnings(own, options.method, unit, equal=equal)),
            )
        )
    return tuple(made)


def _warnings(
    values: FloatArray, method: IntervalMethod, unit: str, *, equal: bool
) -> Iterator[str]:
    """Yield why the interval may cover the truth less often than it says.

    The rule of skewness is that of Cochran (1977), "Sampling Techniques", section 2.15: n above
    25 times its square. It is made for intervals that are as long to the left as to the right; the
    bootstrap keeps its promise with a fifth of that (benchmarks/coverage.py).
    """
    n = len(values)
    if n < FEW_QUERIES:
        yield f"{n} {unit} are few: below {FEW_QUERIES} it covers less often than it says"
    if equal:
        yield f"all {n} values are equal, so that it has no width and says too much"
        return
    deviations = values / np.abs(values).max()
    deviations = deviations - deviations.mean()
    skewness = float(np.mean(deviations**3)) / float(np.mean(deviations**2)) ** 1.5
    times = _SKEWNESS_T if method is IntervalMethod.T else _SKEWNESS_BOOTSTRAP
    if n < times * skewness**2:
        needed = math.ceil(times * skewness**2)
        yield (
            f"the values are skewed (skewness {skewness:.1f}): with fewer than {needed} {unit} it "
            "covers less often than it says"
        )
