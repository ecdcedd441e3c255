"""Tests of two runs on the same queries, and what such tests can show.

Differences are taken as they come: `comparison` has made those of rounding exactly 0. `scipy.stats`
has the t-test and Wilcoxon's as well, and gives the same numbers where no sizes are tied but for
rounding. It takes 0.2 to 0.5 ms a test where these take 0.02, and a call has up to 1,000 of each;
to load it takes half a second.

The sign-flip test says how often random signs make as large a mean difference: if two runs do not
differ, each query's difference could as well have had the other sign. The test asks for nothing
else: no normal distribution, no ranks (Fisher 1935; Smucker, Allan & Carterette 2007 recommend it
for retrieval).

The p-value depends on nothing but differences and seed: signs are bits of PCG64's raw words, whose
stream NumPy promises to keep, and differences are first rounded to multiples of a power of two that
makes every sum exact, so that blocks, threads and the order of additions can't change it.

The power is that of the paired t-test. The spread of the differences at hand stands for that of any
sample.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from judged.values.comparison import ComparisonPower

from judged_server.domain import TIE_TOLERANCE, FloatArray, IntArray
from judged_server.errors import InvalidField
from judged_server.scheduling.checkpoint import checkpoint
from judged_server.statistics.intervals import (
    beta_cdf,
    noncentral_t_cdf,
    normal_cdf,
    normal_quantile,
    root_between,
    t_cdf,
    t_quantile,
)

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


MAX_FLIPS = 2_000_000_000
"""Signs that a call may draw: some ten seconds of one core."""
_COMPARISONS_A_PASS = 16  # comparisons whose sums take about as long as the drawing
_BLOCK_SIGNS = 1 << 18  # signs worked on at once: 2 MiB, which stay in the cache of a core


def check_flips(
    n_queries: int,
    n_comparisons: int,
    permutations: int,
    field: str = "comparison.permutations",
) -> None:
    """Raise InvalidField at `field` when the test would take too long."""
    passes = max(1, math.ceil(n_comparisons / _COMPARISONS_A_PASS))
    most = MAX_FLIPS // (max(1, n_queries) * passes)
    if permutations > most:
        asked = f"is {permutations} for {n_queries} queries and {n_comparisons} comparisons"
        what = f"ask for at most {most}" if most >= 100 else "compare fewer runs or metrics"
        raise InvalidField(field, f"{asked}, which is too much work for one call; {what}")


def sign_flip_p_values(differences: FloatArray, permutations: int, seed: int) -> FloatArray:
    """Return the two-sided p-value of each mean, float64[c]; `differences` is float64[c, n].

    Exact, over all 2^k sign flips of k non-zero differences, when these are no more than
    `permutations`. Else (b + 1) / (m + 1) with b of m random flips at least as far from 0, which
    is never 0 (Phipson & Smyth 2010). All comparisons share their signs.
    """
    p_values = np.ones(len(differences))
    drawn = []
    for i, row in enumerate(differences):
        checkpoint()
        moved = row[row != 0]
        if len(moved) < permutations.bit_length():  # that is, 2^k <= permutations
            p_values[i] = _exact(moved)
        else:
            drawn.append(i)
    if drawn:
        hits = _hits(differences[drawn], permutations, seed)
        p_values[drawn] = (hits + 1) / (permutations + 1)
    return p_values


def _exact(differences: FloatArray) -> float:
    """Return the share of all sign flips whose sum is as far from 0 as that of the differences."""
    whole, thresholds = _rounded(differences[None, :])
    sums = np.zeros(1)
    for value in whole[0, 1:]:  # by symmetry the first may keep its sign
        sums = np.concatenate([sums + value, sums - value])
    if len(differences):
        sums += whole[0, 0]
    return float(np.mean(np.abs(sums) >= thresholds[0]))


def _hits(differences: FloatArray, permutations: int, seed: int) -> FloatArray:
    """Return in how many of the random flips each sum is as far from 0 as without them."""
    whole, thresholds = _rounded(differences)
    columns = np.ascontiguousarray(whole.T)
    totals = whole.sum(axis=1)
    n = len(columns)
    words = -(-n // 64)
    source = np.random.PCG64(seed)
    # As many rows as keep signs, and sums of all comparisons, in the cache.
    block = max(1, _BLOCK_SIGNS // max(n, len(whole) // 4))
    signs = np.empty((block, n))
    sums = np.empty((block, len(whole)))
    hits = np.zeros(len(whole))
    for start in range(0, permutations, block):
        checkpoint()
        rows = min(block, permutations - start)
        raw = source.random_raw(rows * words).astype("<u8", copy=False)
        bits = np.unpackbits(raw.view(np.uint8).reshape(rows, -1), axis=1, bitorder="little")
        signs[:rows] = bits[:, :n]
        some = np.matmul(signs[:rows], columns, out=sums[:rows])
        some *= 2  # a bit is a plus, none a minus
        some -= totals
        np.abs(some, out=some)
        hits += np.sum(some >= thresholds, axis=0)
    return hits


def _rounded(differences: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the differences as whole numbers with exact sums, and what a sum must reach.

    A sum of n numbers that were rounded may be n halves off, and so may the one it is held
    against: as much short of it still counts as equal.
    """
    n = max(1, differences.shape[1])
    largest = np.abs(differences).max(axis=1, initial=0.0)
    exponents = np.frexp(np.where(largest > 0, largest, 1.0))[1]
    shift = 51 - math.ceil(math.log2(max(n, 2)))
    whole: FloatArray = np.rint(np.ldexp(differences, (shift - exponents)[:, None]))
    return whole, np.abs(whole.sum(axis=1)) - n


TARGET = 0.8
"""The probability with which a difference that counts as detectable is found."""
_LARGE_N = 100_000
_MOST_QUERIES = 2.0**53


def paired_t_power(
    n: int, spread: float, alpha: float, difference: float | None
) -> ComparisonPower:
    """Return the power of the two-sided paired t-test of n >= 2 differences.

    `spread` is their standard deviation, 0 when they do not vary; `difference` is a true mean
    difference, above 0, or None.
    """
    if spread <= 0:
        return ComparisonPower()
    detectable = _detectable_noncentrality(n, alpha) * spread / math.sqrt(n)
    if difference is None:
        return ComparisonPower(detectable)
    effect = difference / spread
    return ComparisonPower(detectable, _power(n, effect, alpha), _queries_needed(effect, alpha))


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
    likely = range(2, 2 * math.ceil(guess) + 50)
    return likely[bisect_left(likely, TARGET, key=lambda n: _power(n, effect, alpha))]
