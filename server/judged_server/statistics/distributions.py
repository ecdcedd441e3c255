"""Probabilities and quantiles of the normal, the beta and Student's t.

Every function takes and returns plain floats and is right at the ends: a probability is in [0, 1]
and never NaN, a quantile of 0 or 1 is the end of the support, and an infinite number of degrees of
freedom is the normal limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

_STANDARD_NORMAL = NormalDist()
LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
"""Minus the logarithm of the normal density at 0."""
_TINY = 1e-300
_LARGE_DF = 1e5
"""Above this Hill's transformation of t to normal is exact to rounding, and the beta is not."""


def normal_cdf(x: float) -> float:
    """Return P(Z <= x) of a standard normal Z, with full relative precision in the lower tail."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def normal_quantile(p: float) -> float:
    """Return the x with P(Z <= x) = p; -inf at p = 0 and inf at p = 1."""
    if p <= 0.0 or p >= 1.0:
        return -math.inf if p <= 0.0 else math.inf
    return _STANDARD_NORMAL.inv_cdf(p)


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return P(X <= x) of a beta variable X with shapes a, b > 0: the incomplete beta I_x(a, b).

    By the continued fraction of the Handbook of Mathematical Functions, 26.5.8, to about 1e-12,
    relatively, for shapes up to 1e9.
    """
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    return _incomplete_beta(x, 1.0 - x, a, b)


def beta_quantile(p: float, a: float, b: float) -> float:
    """Return the x with P(X <= x) = p of a beta variable with shapes a, b > 0."""
    if p <= 0.0 or p >= 1.0:
        return 0.0 if p <= 0.0 else 1.0
    return _expit(_beta_quantile_logit(p, a, b))


def t_cdf(x: float, df: float) -> float:
    """Return P(T <= x) of Student's t with df > 0 degrees of freedom, inf being the normal.

    The lower tail keeps its relative precision: ask for t_cdf(-x) rather than 1 - t_cdf(x).
    """
    if math.isinf(df) or math.isinf(x):
        return normal_cdf(x)
    if x > 0:
        return 1.0 - t_cdf(-x, df)
    if df >= _LARGE_DF:
        return normal_cdf(-_normal_of_t(-x, df))
    square = x * x
    if math.isinf(square):
        return 0.0
    return 0.5 * _incomplete_beta(df / (df + square), square / (df + square), df / 2, 0.5)


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """Return the x with P(T <= x) = p of Student's t with df > 0 degrees of freedom.

    Kept, since all intervals of a call ask for the same few.
    """
    if p <= 0.0 or p >= 1.0 or math.isinf(df):
        return normal_quantile(p)
    if p > 0.5:
        return -t_quantile(1.0 - p, df)
    if df >= _LARGE_DF:
        z = -normal_quantile(p)
        return -root_between(lambda t: _normal_of_t(t, df) - z, z, 2 * z)
    # Of the two beta variables that T^2 makes, the one whose quantile is not near its upper end.
    if p < 0.25:
        return -math.sqrt(df) * math.exp(-0.5 * _beta_quantile_logit(2 * p, df / 2, 0.5))
    if p == 0.5:
        return 0.0
    return -math.sqrt(df) * math.exp(0.5 * _beta_quantile_logit(1 - 2 * p, 0.5, df / 2))


def root_between(f: Callable[[float], float], low: float, high: float) -> float:
    """Return where a monotone f changes its sign between two numbers, to the last few bits.

    By Chandrupatla's method (Advances in Engineering Software 28, 1997), which is never much
    slower than halving. An end is returned when f has one sign only.
    """
    a, b = low, high
    fa, fb = f(a), f(b)
    if (fa > 0) == (fb > 0):
        return low if abs(fa) <= abs(fb) else high
    t = 0.5
    for _ in range(200):
        x = a + t * (b - a)
        fx = f(x)
        if (fx > 0) == (fa > 0):
            c, fc = a, fa
        else:
            c, fc = b, fb
            b, fb = a, fa
        a, fa = x, fx
        best, f_best = (a, fa) if abs(fa) < abs(fb) else (b, fb)
        limit = (4e-16 * abs(best) + _TINY) / abs(b - a)
        if f_best == 0.0 or limit > 0.5:
            break
        t = 0.5
        if math.isfinite(fa) and math.isfinite(fb) and math.isfinite(fc) and fa != fc != fb:
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            if phi * phi < xi and (1 - phi) ** 2 < 1 - xi:  # the inverse quadratic is safe
                t = fa / (fb - fa) * fc / (fb - fc)
                t += (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        t = min(max(t, limit), 1 - limit)
    return best


def stirling_error(n: float) -> float:
    """Return log G(n + 1) minus Stirling's formula for it, n > 0."""
    if n <= 15:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - LOG_SQRT_2PI
    square = n * n
    series = 1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square
    return (1 / 12 - (1 / 360 - series / square) / square) / n


def _normal_of_t(t: float, df: float) -> float:
    """Return the normal deviate with the upper tail of t >= 0 (Hill, CACM 13, 1970, algorithm 395).

    The error falls with a high power of df.
    """
    a = df - 0.5
    b = 48 * a * a
    w = math.sqrt(a * math.log1p(t / df * t))
    square = w * w
    correction = (((4 * square + 33) * square + 240) * square + 855) * w
    correction /= 10 * b * (b + 0.8 * square * square + 100)
    return w + (square + 3) * w / b - correction


def _incomplete_beta(x: float, y: float, a: float, b: float) -> float:
    """Return I_x(a, b), given y = 1 - x as well, so that neither loses digits."""
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _beta_fraction(y, x, b, a)
    return _beta_fraction(x, y, a, b)


def _beta_fraction(x: float, y: float, a: float, b: float) -> float:
    """Return I_x(a, b) for an x below about the mean, by Lentz's evaluation of the fraction."""
    if x <= 0.0:
        return 0.0
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    value = d
    for m in range(1, 1_000_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1.0 + even * d
        c = 1.0 + even / c
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = c if abs(c) > _TINY else _TINY
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1.0 + odd * d
        c = 1.0 + odd / c
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = c if abs(c) > _TINY else _TINY
        step = d * c
        value *= step
        if abs(step - 1.0) < 1e-15:
            break
    log_front = _log_binomial_density(a, b, x, y) + math.log(b / (a + b))
    return min(math.exp(log_front) * value, 1.0)


def _beta_quantile_logit(p: float, a: float, b: float) -> float:
    """Return log(x / (1 - x)) of the beta quantile at 0 < p < 1."""
    log_p, log_rest = math.log(p), math.log1p(-p)

    def excess(u: float) -> float:
        x, y = _expit(u), _expit(-u)
        if p <= 0.5:
            below = _incomplete_beta(x, y, a, b)
            return (math.log(below) if below > 0 else -math.inf) - log_p
        above = _incomplete_beta(y, x, b, a)
        return log_rest - (math.log(above) if above > 0 else -math.inf)

    return root_between(excess, -690.0, 690.0)


def _log_binomial_density(a: float, b: float, x: float, y: float) -> float:
    """Return log of G(n+1)/(G(a+1) G(b+1)) x^a y^b, n = a + b, without losing digits for large n.

    By the saddle-point form of Loader, Fast and Accurate Computation of Binomial Probabilities
    (2000).
    """
    n = a + b
    errors = stirling_error(n) - stirling_error(a) - stirling_error(b)
    deviance = _deviance(a, n * x) + _deviance(b, n * y)
    return errors - deviance - LOG_SQRT_2PI - 0.5 * (math.log(a) + math.log(b / n))


def _deviance(x: float, mean: float) -> float:
    """Return x log(x / mean) + mean - x for x, mean > 0, without cancellation near x = mean."""
    if abs(x - mean) > 0.1 * (x + mean):
        return x * (math.log(x) - math.log(mean)) + mean - x
    v = (x - mean) / (x + mean)
    total = (x - mean) * v
    term = 2 * x * v
    for j in range(3, 2000, 2):
        term *= v * v
        following = total + term / j
        if following == total:
            break
        total = following
    return total


def _expit(u: float) -> float:
    return 1.0 / (1.0 + math.exp(-u)) if u >= 0 else math.exp(u) / (1.0 + math.exp(u))
