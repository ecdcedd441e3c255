"""Probabilities and quantiles of the normal, the beta, Student's t and the noncentral t.

Every function takes and returns plain floats and is right at the ends: a probability is in [0, 1]
and never NaN, a quantile of 0 or 1 is the end of the support, and an infinite number of degrees of
freedom is the normal limit.

All but the normal are SciPy's. It is loaded when first needed: `scipy.special` takes a server 0.1 s
and 10 MB. What is kept of our own in place of `scipy.stats`, and why, is said where it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

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
