"""Means over queries, their confidence intervals, and the distributions these rest on.

Probabilities and quantiles of the normal, the beta, Student's t and the noncentral t.

Every function takes and returns plain floats and is right at the ends: a probability is in [0, 1]
and never NaN, a quantile of 0 or 1 is the end of the support, and an infinite number of degrees of
freedom is the normal limit.

All but the normal are SciPy's. It is loaded when first needed: `scipy.special` takes a server 0.1 s
and 10 MB. What is kept of our own in place of `scipy.stats`, and why, is said where it is.

Means over queries, and their confidence intervals.

Queries are taken as a sample of the queries that could have been asked, each drawn like the
others and independent of them. The interval speaks of the mean over all those.

Means of resampled queries: the bootstrap distribution that intervals are read from.

What is made of the distribution is up to `intervals`; statistics that are no means take the counts
of the draws alone.

A resample draws n of n queries with replacement, all alike and none depending on another. The
same resamples serve all metrics, so that their intervals belong together and one pass is enough.

The numbers hang on nothing but the values and the seed. The draws come out of the raw words of
PCG64, whose stream NumPy promises to keep, by a rule that is written here. The sums are exact:
values are first rounded to multiples of a power of two so small that it does not matter (below
1e-9 of the largest value for 100,000 queries, finer for fewer) and so large that no sum of n of
them needs more than the 53 bits of a double. Neither the block size, nor the number of threads,
nor the order in which a matrix product adds can then change a bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from judged.values.intervals import Interval, IntervalMethod, IntervalOptions
from numpy.typing import NDArray

from judged_server.domain import FloatArray
from judged_server.errors import InvalidField
from judged_server.scheduling.checkpoint import checkpoint

_STANDARD_NORMAL = NormalDist()


def normal_cdf(x: float) -> float:
    """Return P(Z <= x) of a standard normal Z, with full relative precision in the lower tail."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def normal_quantile(p: float) -> float:
    """Return the x with P(Z <= x) = p; -inf at p = 0 and inf at p = 1."""
    if p <= 0.0 or p >= 1.0:
        return -math.inf if p <= 0.0 else math.inf
    return _STANDARD_NORMAL.inv_cdf(p)


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return P(X <= x) of a beta variable X with shapes a, b > 0: the incomplete beta I_x(a, b)."""
    from scipy import special  # noqa: PLC0415 - loaded when first needed

    return float(special.betainc(a, b, min(max(x, 0.0), 1.0)))


def t_cdf(x: float, df: float) -> float:
    """Return P(T <= x) of Student's t with df > 0 degrees of freedom, inf being the normal.

    The lower tail keeps its relative precision: ask for t_cdf(-x) rather than 1 - t_cdf(x). The
    tails are an incomplete beta (Handbook of Mathematical Functions, 26.7.1), of whichever of T^2
    and 1 / T^2 is not near the end of its range. `scipy.special.stdtr` takes one for all, and is
    2e-9 off at x = 1e-8 (1.17).
    """
    from scipy import special  # noqa: PLC0415 - loaded when first needed

    if math.isinf(df) or math.isinf(x):
        return normal_cdf(x)
    if x > 0:
        return 1.0 - t_cdf(-x, df)
    square = x * x
    if square < df:
        return 0.5 * float(special.betaincc(0.5, df / 2, square / (df + square)))
    return 0.5 * float(special.betainc(df / 2, 0.5, df / (df + square)))


def t_quantile(p: float, df: float) -> float:
    """Return the x with P(T <= x) = p of Student's t with df > 0 degrees of freedom."""
    from scipy import special  # noqa: PLC0415 - loaded when first needed

    if p <= 0.0 or p >= 1.0 or math.isinf(df):
        return normal_quantile(p)
    return float(special.stdtrit(df, p))


def noncentral_t_cdf(x: float, df: float, nc: float) -> float:
    """Return P(T <= x) of the noncentral t with df >= 1 and noncentrality nc >= 0, to 1e-9.

    To 1e-8 for one degree of freedom and a noncentrality in the thousands. Where the probability is
    below 1e-12 SciPy may have no answer, and 0 is returned.
    """
    from scipy import special  # noqa: PLC0415 - loaded when first needed

    below = float(special.nctdtr(df, nc, x))
    return 0.0 if math.isnan(below) else below


def root_between(f: Callable[[float], float], low: float, high: float) -> float:
    """Return where a rising f reaches 0 between two numbers, to the last bit, by halving.

    `scipy.optimize` has quicker methods, and takes another 0.1 s and 29 MB to load.
    """
    while low < (middle := (low + high) / 2) < high:
        if f(middle) < 0:
            low = middle
        else:
            high = middle
    return high


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


BLOCK_DRAWS = 1 << 16
"""Draws worked on at once: about 2 MiB, which stay in the cache of a core."""

_ROWS_FROM = 256  # queries from which a resample is worth a call of its own
_EXACT_BITS = 52


@dataclass(frozen=True, slots=True)
class Resampled:
    """The bootstrap distribution of m means.

    `means` is float64[m, resamples]. `estimates` is float64[m]: the means of the values as they
    are, rounded in the same way, so that a resample that repeats them is equal to the last bit.
    """

    means: FloatArray
    estimates: FloatArray


def resample_means(values: FloatArray, resamples: int, seed: int) -> Resampled:
    """Return the means of resampled queries; `values` is float64[m, n], finite, n >= 1.

    Efron (1979), "Bootstrap Methods: Another Look at the Jackknife".
    """
    m, n = values.shape
    # A power of two that no magnitude of the row exceeds.
    scale = np.ldexp(1.0, np.frexp(np.abs(values).max(axis=1))[1])[:, None]
    unit = 2.0 ** (_EXACT_BITS - math.ceil(math.log2(max(n, 2))))
    whole = np.rint(values / scale * unit)
    sums = np.empty((resamples, m))
    columns = np.ascontiguousarray(whole.T)
    start = 0
    for counts in resample_counts(n, resamples, seed, max(1, BLOCK_DRAWS // n)):
        np.matmul(counts, columns, out=sums[start : start + len(counts)])
        start += len(counts)
    factor = scale / unit
    return Resampled(sums.T / n * factor, whole.sum(axis=1) / n * factor[:, 0])


def resample_counts(n: int, resamples: int, seed: int, rows: int) -> Iterator[FloatArray]:
    """Yield float64[rows or fewer, n]: how often each of n things is in each resample.

    Neither the number of rows in a block nor how many resamples follow changes a count.
    """
    draws = _Draws(n, seed)
    for start in range(0, resamples, rows):
        checkpoint()
        some = min(rows, resamples - start)
        yield _counts(draws.take(some * n), some, n)


def _counts(draws: NDArray[Any], rows: int, n: int) -> FloatArray:
    """Return float64[rows, n]: how often each query is in each resample."""
    if n >= _ROWS_FROM:
        counts = np.empty((rows, n))
        for row, drawn in enumerate(draws.reshape(rows, n)):
            counts[row] = np.bincount(drawn, minlength=n)
        return counts
    places = draws.reshape(rows, n) + np.arange(0, rows * n, n)[:, None]
    return np.bincount(places.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


class _Draws:
    """An endless row of draws from 0..n-1, the same however it is cut.

    Lemire (2019), "Fast Random Integer Generation in an Interval": x * n has the draw in its upper
    half; words whose lower half falls into the uneven rest are passed over, so that every draw is
    exactly as likely as any other.
    """

    def __init__(self, n: int, seed: int) -> None:
        narrow = n <= 1 << 16
        self._n = n
        self._bits = 16 if narrow else 32
        self._word = np.dtype("<u2" if narrow else "<u4")
        self._wide: Any = np.uint32 if narrow else np.uint64
        self._rest = self._wide((2**self._bits) % n)
        self._source = np.random.PCG64(seed)
        self._left: NDArray[Any] = np.empty(0, self._word)

    def take(self, count: int) -> NDArray[Any]:
        """Return the next `count` draws, unsigned integers."""
        parts, have = [self._left], len(self._left)
        per_word = 64 // self._bits
        while have < count:
            raw = self._source.random_raw((count - have) // per_word + 16)
            parts.append(self._draw(raw.astype("<u8", copy=False).view(self._word)))
            have += len(parts[-1])
        draws: NDArray[Any] = np.concatenate(parts)
        self._left = draws[count:]
        return draws[:count]

    def _draw(self, words: NDArray[Any]) -> NDArray[Any]:
        product = words.astype(self._wide)
        product *= self._wide(self._n)
        drawn: NDArray[Any] = (product >> self._wide(self._bits)).astype(self._word)
        if self._rest:
            low = product.astype(self._word)  # keeps the lower half
            drawn = drawn[low >= self._rest.astype(self._word)]
        return drawn
