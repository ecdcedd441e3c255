"""Tests of "there is no difference" over the differences of n queries.

Differences are taken as they come: `compare` has made those of rounding exactly 0.

`scipy.stats` has the first two as well, and gives the same numbers where no sizes are tied but for
rounding. It takes 0.2 to 0.5 ms a test where these take 0.02, and a call has up to 1,000 of each;
to load it takes half a second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from judged_server.domain import TIE_TOLERANCE, FloatArray, IntArray
from judged_server.statistics.distributions import beta_cdf, normal_cdf, t_cdf

LARGEST_EXACT = 50
"""Up to as many differences the distribution of the signed ranks is counted out."""


@dataclass(frozen=True, slots=True)
class PairedTest:
    """The result of one test. `statistic` is None where the data leave it undefined."""

    statistic: float | None
    p_value: float


NO_EVIDENCE = PairedTest(None, 1.0)
"""What a test says of data that it can't be made on."""


def varies(differences: FloatArray) -> bool:
    """Return whether differences differ by more than rounding."""
    spread = float(differences.max() - differences.min())
    return spread > TIE_TOLERANCE * max(1.0, float(np.abs(differences).max()))


def t_test(differences: FloatArray) -> PairedTest:
    """Return the paired t-test (Student 1908); NO_EVIDENCE when the differences do not vary.

    The statistic is the mean over its standard error, with n - 1 degrees of freedom.
    """
    n = len(differences)
    if not varies(differences):
        return NO_EVIDENCE
    error = float(differences.std(ddof=1)) / math.sqrt(n)
    statistic = float(differences.mean()) / error
    return PairedTest(statistic, min(1.0, 2 * t_cdf(-abs(statistic), n - 1)))


def wilcoxon(differences: FloatArray) -> PairedTest:
    """Return the signed-rank test (Wilcoxon 1945), zero differences left out.

    The statistic is the smaller of the two rank sums. Its distribution is exact up to
    LARGEST_EXACT differences without ties, and else normal with the corrections for ties and for
    continuity. Sizes closer than 1e-9 are ties, since rounding alone sets them apart.
    """
    differences = differences[differences != 0]
    n = len(differences)
    if not n:
        return NO_EVIDENCE
    ranks, tied = _ranks(np.abs(differences))
    positive = float(ranks[differences > 0].sum())
    statistic = min(positive, n * (n + 1) / 2 - positive)
    if n <= LARGEST_EXACT and not len(tied):
        counts = _signed_rank_counts(n)
        tail = float(counts[: int(statistic) + 1].sum()) / 2.0**n
        return PairedTest(statistic, min(1.0, 2 * tail))
    variance = n * (n + 1) * (2 * n + 1) / 24 - float(np.sum(tied**3 - tied)) / 48
    distance = abs(positive - n * (n + 1) / 4) - 0.5
    return PairedTest(statistic, min(1.0, 2 * normal_cdf(-distance / math.sqrt(variance))))


def mcnemar(differences: FloatArray) -> PairedTest:
    """Return the exact test of paired booleans (McNemar 1947), given differences of -1, 0 and 1.

    The statistic is the smaller number of queries on which one of the two is better.
    """
    better, worse = int(np.sum(differences > 0)), int(np.sum(differences < 0))
    smaller, n = min(better, worse), better + worse
    if not n:
        return NO_EVIDENCE
    # The lower tail of the binomial: P(X <= s) = I_{1/2}(n - s, s + 1).
    return PairedTest(float(smaller), min(1.0, 2 * beta_cdf(0.5, n - smaller, smaller + 1)))


def _ranks(sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ranks from 1, ties sharing their mean, and how many each group of ties has."""
    order = np.argsort(sizes, kind="stable")
    ascending = sizes[order]
    close = np.diff(ascending) <= TIE_TOLERANCE * np.maximum(1.0, ascending[1:])
    begins = np.flatnonzero(np.append(True, ~close))
    lengths = np.diff(np.append(begins, len(sizes)))
    ranks = np.empty(len(sizes))
    ranks[order] = np.repeat(begins + (lengths + 1) / 2, lengths)
    return ranks, lengths[lengths > 1].astype(np.float64)


@lru_cache(maxsize=LARGEST_EXACT)
def _signed_rank_counts(n: int) -> IntArray:
    """Return in how many ways ranks 1..n sum up to each number, int64[n (n + 1) / 2 + 1]."""
    counts = np.zeros(n * (n + 1) // 2 + 1, np.int64)
    counts[0] = 1
    for rank in range(1, n + 1):
        counts[rank:] += counts[:-rank].copy()
    return counts
