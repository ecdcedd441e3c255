"""What a paired t-test can show, given how much the differences vary.

The spread of the differences at hand stands for that of any sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from judged_server.statistics.distributions import (
    noncentral_t_cdf,
    normal_quantile,
    root_between,
    t_quantile,
)

TARGET = 0.8
"""The probability with which a difference that counts as detectable is found."""
_LARGE_N = 100_000
_MOST_QUERIES = 2.0**53


@dataclass(frozen=True, slots=True)
class Power:
    """What n queries can show; None where the differences do not vary or nobody asked."""

    detectable_difference: float | None
    power: float | None
    queries_needed: int | None


def paired_t_power(n: int, spread: float, alpha: float, difference: float | None) -> Power:
    """Return the power of the two-sided paired t-test of n >= 2 differences.

    `spread` is their standard deviation, 0 when they do not vary; `difference` is a true mean
    difference, above 0, or None.
    """
    if spread <= 0:
        return Power(None, None, None)
    detectable = _detectable_noncentrality(n, alpha) * spread / math.sqrt(n)
    if difference is None:
        return Power(detectable, None, None)
    effect = difference / spread
    return Power(detectable, _power(n, effect, alpha), _queries_needed(effect, alpha))


def _power(n: int, effect: float, alpha: float) -> float:
    """Return the probability that |T| exceeds its critical value when the mean is `effect` sds."""
    noncentrality = effect * math.sqrt(n)
    critical = -t_quantile(alpha / 2, n - 1)
    below = noncentral_t_cdf(critical, n - 1, noncentrality)
    return min(1.0, 1.0 - below + noncentral_t_cdf(-critical, n - 1, noncentrality))


@lru_cache(maxsize=1024)
def _detectable_noncentrality(n: int, alpha: float) -> float:
    root = math.sqrt(n)

    def excess(noncentrality: float) -> float:
        return _power(n, noncentrality / root, alpha) - TARGET

    high = 4.0
    while excess(high) < 0:
        high *= 2
    return root_between(excess, 0.0, high)


def _queries_needed(effect: float, alpha: float) -> int | None:
    """Return the smallest n whose power reaches TARGET; None when that is beyond counting."""
    z = -normal_quantile(alpha / 2)
    # For a large n: the normal answer, and half the square of z for the estimated spread.
    needed = z + normal_quantile(TARGET)
    if effect * math.sqrt(_MOST_QUERIES) < needed:
        return None
    guess = (needed / effect) ** 2 + z * z / 2
    if guess > _LARGE_N:
        return math.ceil(guess)
    return _least(lambda n: _power(n, effect, alpha) >= TARGET, max(2, math.ceil(guess)))


def _least(enough: Callable[[int], bool], guess: int) -> int:
    """Return the least n >= 2 that is enough, looked for from guess in growing steps.

    No question is asked twice.
    """
    low, high, step = guess - 1, guess, 1
    if enough(guess):
        while low >= 2 and enough(low):
            low, high, step = low - 2 * step, low, step * 2
        low = max(low, 1)  # which can't be asked for, and falls short
    else:
        low, high = guess, guess + 1
        while not enough(high):
            low, high, step = high, high + 2 * step, step * 2
    while high - low > 1:  # low falls short, high does not
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return high
