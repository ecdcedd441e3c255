"""Tukey's honest significant differences of every pair of runs.

One criterion, the studentized range, holds for all pairs at once, and no other correction is needed
(Tukey 1953; Carterette 2012, "Multiple Testing in Statistical Analysis of Systems-Based Information
Retrieval Experiments"; Sakai 2014).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.polynomial import Chebyshev

from judged_server.domain import TIE_TOLERANCE, FloatArray
from judged_server.scheduling.checkpoint import checkpoint
from judged_server.statistics.distributions import root_between
from judged_server.statistics.intervals import Interval

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_SPAN = 9.0
"""Standard deviations beyond which a normal tail, 1e-19, is left out of an integral."""
_WIDEST = 18.0
"""The range of up to 1,000 standard normals is above this with a probability below 1e-30."""
_DEGREE = 160
"""Of the polynomial that the range's tail is tabulated from; its error is below 1e-12."""
_STEP = 1 / 256
"""Of tables between whose entries cubics run; their error is below 1e-11."""
_PAIRS = 1 << 12  # of means, whose integrals are worked on at once
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


def studentized_range_sf(q: FloatArray, k: int, df: float) -> FloatArray:
    """Return P(Q > q) of the range of k means over their estimated scale, float64 like q, to 1e-9.

    `k` is 2 to 1,000, `df` a whole number >= 1 or infinite, `q` at least 0. Lund & Lund, Applied
    Statistics 32 (1983), algorithm 190, have the double integral; here the inner one, which
    depends on k alone, is made once and kept as a table. Raises ValueError for another df: below 2
    the density of S has no slope at 0 that a polynomial could follow, but for df = 1.
    """
    if not (df >= 1 and (math.isinf(df) or df == int(df))):
        raise ValueError(f"df is {df}; it must be a whole number from 1, or infinite")
    q = np.minimum(q, 1e300)
    if math.isinf(df):
        return np.where(q < _WIDEST, np.clip(_range_tail(k)(q), 0.0, 1.0), 0.0)
    flat = q.ravel()
    parts = [_scaled_sf(flat[i : i + _PAIRS], k, df) for i in range(0, len(flat), _PAIRS)]
    return np.concatenate([*parts, np.empty(0)]).reshape(q.shape)


def _scaled_sf(q: FloatArray, k: int, df: float) -> FloatArray:
    """Return P(Q > q) for a finite df; q is float64[pairs]."""
    tail = _range_tail(k)
    reach = 1.5 * _SPAN / math.sqrt(2 * df)  # S is within it of 1, but for less than 1e-15
    low, high = max(0.0, 1 - reach), 1 + reach
    # Beyond s = _WIDEST / q the range has no tail, and few nodes would fall on what is before.
    with np.errstate(divide="ignore", over="ignore"):
        end = np.clip(_WIDEST / q, low, high)[..., None]
    total = np.zeros(q.shape)
    parts = np.linspace(0.0, 1.0, 4)
    for first, last in pairwise(parts):
        half = (end - low) * (last - first) / 2
        s = low + (end - low) * first + half * (_NODES + 1)
        climb = np.clip(tail(q[..., None] * s), 0.0, 1.0)
        total += ((half * _density(s, df)) * climb) @ _WEIGHTS
    return np.clip(total, 0.0, 1.0)


@lru_cache(maxsize=128)
def studentized_range_quantile(p: float, k: int, df: float) -> float:
    """Return the q with P(Q <= q) = p, to 1e-8; 0 at p = 0 and inf at p = 1."""
    if p <= 0.0 or p >= 1.0:
        return 0.0 if p <= 0.0 else math.inf
    high = 16.0
    while float(studentized_range_sf(np.array([high]), k, df)[0]) > 1 - p and high < 1e12:
        high *= 4

    def short(q: float) -> float:
        return (1 - p) - float(studentized_range_sf(np.array([q]), k, df)[0])

    return root_between(short, 0.0, high)


@dataclass(frozen=True, slots=True)
class _Table:
    """A smooth function on a grid of _STEP, cubics between; beyond the ends it keeps its value.

    `cubics` is float64[4, cells]: the powers of the place in a cell, from 0 to 1.
    """

    low: float
    cubics: FloatArray

    @classmethod
    def of(cls, low: float, values: FloatArray, slopes: FloatArray) -> _Table:
        """Return the table of values and slopes at low, low + _STEP, ... (Hermite's cubics)."""
        here, there = values[:-1], values[1:]
        out, into = slopes[:-1] * _STEP, slopes[1:] * _STEP
        rise = there - here
        return cls(low, np.stack([here, out, 3 * rise - 2 * out - into, out + into - 2 * rise]))

    def __call__(self, x: FloatArray) -> FloatArray:
        cells = self.cubics.shape[1]
        place = np.clip((x - self.low) / _STEP, 0.0, cells)
        cell = np.minimum(place.astype(np.int64), cells - 1)
        place -= cell
        powers = [column.take(cell) for column in self.cubics]
        value: FloatArray = powers[3]
        for power in powers[2::-1]:
            value *= place
            value += power
        return value


@lru_cache(maxsize=128)
def _range_tail(k: int) -> _Table:
    """Return P(R > w), R the range of k standard normals, for w in [0, _WIDEST].

    P(R <= w) is k times the integral over z, the largest, of phi(z) (Phi(z) - Phi(z - w))^(k-1);
    the trapezoid rule is as good as exact for it.
    """
    from scipy import special  # noqa: PLC0415 - loaded when first needed

    step = 1 / 16
    largest = np.arange(-_SPAN, _SPAN + step, step)
    below = special.ndtr(largest)
    weights = k * step * np.exp(-0.5 * largest * largest - _LOG_SQRT_2PI)

    def tail(widths: FloatArray) -> FloatArray:
        between = below[:, None] - special.ndtr(largest[:, None] - widths[None, :])
        probability: FloatArray = 1.0 - weights @ between ** (k - 1)
        return probability

    polynomial = Chebyshev.interpolate(tail, _DEGREE, domain=[0.0, _WIDEST])
    grid = np.arange(0.0, _WIDEST + _STEP / 2, _STEP)
    return _Table.of(0.0, polynomial(grid), polynomial.deriv()(grid))


def _density(s: FloatArray, df: float) -> FloatArray:
    """Return the density of S at s > 0, likewise shaped."""
    half = df / 2
    logs = np.log(s)
    # df log s + df (1 - s^2) / 2: two large terms that cancel, so taken around s = 1.
    around = df * (logs - (s - 1) * (s + 1) / 2)
    norm = math.log(2) + 0.5 * math.log(half) - _LOG_SQRT_2PI - _stirling_error(half)
    density: FloatArray = np.exp(norm + around - logs)
    return density


def _stirling_error(n: float) -> float:
    """Return log G(n + 1) minus Stirling's formula for it, n > 0."""
    if n <= 15:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - _LOG_SQRT_2PI
    square = n * n
    series = 1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square
    return (1 / 12 - (1 / 360 - series / square) / square) / n


@dataclass(frozen=True, slots=True)
class TukeyPair:
    """Two runs by their places. The interval is None, and p 1, when the residuals do not vary."""

    first: int
    second: int
    difference: float
    interval: Interval | None
    p_value: float


def tukey_pairs(values: FloatArray, confidence: float) -> tuple[TukeyPair, ...]:
    """Return all pairs of k >= 3 runs in order; `values` is float64[k, n], n >= 2 shared queries.

    The mean square of the residuals has (k - 1)(n - 1) degrees of freedom.
    """
    checkpoint()
    k, n = values.shape
    means = values.mean(axis=1)
    residuals = values - means[:, None] - values.mean(axis=0) + means.mean()
    df = (k - 1) * (n - 1)
    error = math.sqrt(float(np.sum(residuals**2)) / df / n)  # of a mean, but for the queries
    first, second = np.triu_indices(k, 1)
    differences = means[second] - means[first]
    pairs = list(zip(first.tolist(), second.tolist(), differences.tolist(), strict=True))
    if float(np.abs(residuals).max()) <= TIE_TOLERANCE * max(1.0, float(np.abs(values).max())):
        return tuple(TukeyPair(*pair, None, 1.0) for pair in pairs)
    p_values = studentized_range_sf(np.abs(differences) / error, k, df)
    reach = studentized_range_quantile(confidence, k, df) * error
    signature = f"tukey_hsd|runs:{k}|queries:{n}|confidence:{confidence:.12g}|v1"
    spread = math.sqrt(2) * error
    found = []
    for (i, j, middle), p_value in zip(pairs, p_values.tolist(), strict=True):
        interval = Interval(middle - reach, middle + reach, confidence, spread, signature)
        found.append(TukeyPair(i, j, middle, interval, p_value))
    return tuple(found)
