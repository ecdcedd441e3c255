"""Compares runs: every later run with the first, on the queries that both have.

Comparisons are ordered by metric, then by pair, and tests are corrected for their number. The
corrections are implemented here, since SciPy has no Holm's. `scipy.stats` also has the t-test and
Wilcoxon's, with the same numbers unless sizes are tied except for rounding. It takes 0.2 to 0.5 ms
per test where these take 0.02 ms, and a call has up to 1,000 of each; loading it takes half a
second.

The sign-flip test says how often random signs make as large a mean difference: if two runs do not
differ, each query's difference could as well have the other sign. The test assumes nothing else: no
normal distribution, no ranks (Fisher 1935; Smucker, Allan & Carterette 2007 recommend it for
retrieval). Its p-value depends only on differences and seed: signs are bits of PCG64's raw words,
whose stream NumPy promises to keep, and differences are first rounded to multiples of a power of
two that makes every sum exact, so that blocks, threads and the order of additions can't change it.

The power is that of the paired t-test, on the assumption that any sample has the same spread.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from judged.values.choices import Estimate, Interval, IntervalOptions
from judged.values.comparison import (
    CompareOptions,
    ComparisonPower,
    MovedQuery,
    RunComparison,
    TestResult,
)

from judged_server.domain import TIE_TOLERANCE, FloatArray, IntArray, need
from judged_server.scheduling.fairness import checkpoint
from judged_server.statistics.intervals import (
    check_draws,
    check_work,
    mean,
    mean_intervals,
    special,
)

FEWEST = 2
"""The fewest queries that have a spread."""
LARGEST_EXACT = 50
"""Up to this many differences the distribution of the signed ranks is exact."""
MAX_FLIPS = 2_000_000_000
"""The most signs that a call may draw: about ten seconds of one core."""
_COMPARISONS_A_PASS = 16  # comparisons whose sums take about as long as the drawing
_BLOCK_SIGNS = 1 << 18  # signs processed at once: 2 MiB, which fit the cache of a core
TARGET = 0.8
"""The power at which a difference counts as detectable."""
_LARGE_N = 100_000
_MOST_QUERIES = 2.0**53
_FINEST = 2.0**-44  # of a noncentrality


@dataclass(frozen=True, slots=True)
class RunValues:
    """One run: `values` is float64[metrics, queries], `query_ids` names the queries, each once."""

    name: str
    query_ids: Sequence[str]
    values: FloatArray


@dataclass(frozen=True, slots=True)
class Pair:
    """A run and the baseline, on the queries of both. Differences of rounding are 0."""

    places: IntArray
    query_ids: Sequence[str]
    left_out: int
    baseline: FloatArray
    run: FloatArray
    differences: FloatArray


def pair_up(baseline: RunValues, run: RunValues, places: dict[str, int], field: str) -> Pair:
    """Return the run paired with the baseline, whose queries are numbered by `places`.

    Raises InvalidField at `field` if they share fewer than FEWEST queries.
    """
    theirs = {query_id: place for place, query_id in enumerate(run.query_ids)}
    common = [query_id for query_id in baseline.query_ids if query_id in theirs]
    what = f"shares {len(common)} evaluated queries with the baseline, runs[0]"
    rule = f"{what}; a comparison needs at least {FEWEST}: compare runs on the same queries"
    need(len(common) >= FEWEST, field, rule)
    ours = np.array([places[query_id] for query_id in common])
    before = baseline.values[:, ours]
    after = run.values[:, [theirs[query_id] for query_id in common]]
    differences = after - before
    return Pair(
        places=ours,
        query_ids=common,
        left_out=len(places) + len(theirs) - 2 * len(common),
        baseline=before,
        run=after,
        differences=np.where(np.abs(differences) <= TIE_TOLERANCE, 0.0, differences),
    )


def compare(
    runs: Sequence[RunValues],
    options: CompareOptions,
    intervals: IntervalOptions,
    metrics: Sequence[str],
) -> list[RunComparison]:
    """Return how each later run differs from the first, by metric (row of the values), then by run.

    Values are within +-1e100. Raises InvalidField at `runs[i]` for a run that shares fewer than
    two queries with the first, and as `check_flips` and `check_work` do.
    """
    baseline = runs[0]
    places = {query_id: place for place, query_id in enumerate(baseline.query_ids)}
    pairs = [
        pair_up(baseline, run, places, f"runs[{i}]") for i, run in enumerate(runs[1:], start=1)
    ]
    check_work(sum(len(pair.places) for pair in pairs), len(metrics), intervals)
    check_flips(len(places), len(metrics) * len(pairs), options.permutations)
    found = [mean_intervals(pair.differences, intervals) for pair in pairs]
    # A query has the same signs in all sign-flip tests.
    spread = np.zeros((len(metrics), len(pairs), len(places)))
    for j, pair in enumerate(pairs):
        spread[:, j, pair.places] = pair.differences
    flips = sign_flip_p_values(
        spread.reshape(-1, len(places)), options.permutations, options.seed
    ).tolist()
    each = [(row, j) for row in range(len(metrics)) for j in range(len(pairs))]
    tests = [_tests(pairs[j], row, flip) for (row, j), flip in zip(each, flips, strict=True)]
    corrected: dict[str, Any] = {
        name: _corrected([made[name] for made in tests]) for name in tests[0]
    }
    return [
        RunComparison(
            metrics[row],
            baseline.name,
            runs[j + 1].name,
            **_numbers(pairs[j], row, options, intervals, found[j][row]),
            **{name: column[i] for name, column in corrected.items()},
        )
        for i, (row, j) in enumerate(each)
    ]


def _tests(pair: Pair, metric: int, flip: float) -> dict[str, PairedTest | None]:
    """Return every test by its name in a RunComparison, given the p-value of the sign-flip test.

    McNemar's test applies if all values of both runs are 0 or 1, the others always.
    """
    checkpoint()
    differences = pair.differences[metric]
    boolean = np.isin([pair.baseline[metric], pair.run[metric]], (0, 1)).all()
    return {
        "t_test": t_test(differences),
        "wilcoxon": wilcoxon(differences),
        "mcnemar": mcnemar(differences) if boolean else None,
        "permutation": PairedTest(float(differences.mean()), flip),
    }


def _corrected(tests: Sequence[PairedTest | None]) -> list[TestResult | None]:
    """Return the tests with their p-values corrected for the number of tests."""
    p_values = np.array([test.p_value for test in tests if test is not None])
    corrected = zip(holm(p_values).tolist(), benjamini_hochberg(p_values).tolist(), strict=True)
    return [
        None if test is None else TestResult(test.statistic, test.p_value, *next(corrected))
        for test in tests
    ]


def holm(p_values: FloatArray) -> FloatArray:
    """Return Holm's p-values, float64[m]: times the number not smaller, at most 1, made monotone.

    Rejecting if these are below alpha keeps the chance of any false claim below alpha (Holm 1979,
    "A Simple Sequentially Rejective Multiple Test Procedure").
    """
    order = np.argsort(p_values, kind="stable")
    steps = p_values[order] * np.arange(len(order), 0, -1)
    return _back_in_place(np.maximum.accumulate(steps), order)


def benjamini_hochberg(p_values: FloatArray) -> FloatArray:
    """Return the p-values times m / rank, float64[m], at most 1 and made monotone.

    Rejecting if these are below alpha keeps the expected share of false claims among all claims
    below alpha (Benjamini & Hochberg 1995, "Controlling the False Discovery Rate").
    """
    order = np.argsort(p_values, kind="stable")
    steps = p_values[order] * len(order) / np.arange(1, len(order) + 1)
    return _back_in_place(np.minimum.accumulate(steps[::-1])[::-1], order)


def _back_in_place(steps: FloatArray, order: IntArray) -> FloatArray:
    corrected = np.empty_like(steps)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected


def _numbers(
    pair: Pair,
    metric: int,
    options: CompareOptions,
    intervals: IntervalOptions,
    interval: Interval | None,
) -> dict[str, Any]:
    """Return the fields of a RunComparison for one metric of a pair, except the tests."""
    n, differences = len(pair.places), pair.differences[metric]
    spread = float(differences.std(ddof=1)) if varies(differences) else 0.0
    wins, losses = int(np.sum(differences > 0)), int(np.sum(differences < 0))
    before, after = (mean(each[metric]) or 0.0 for each in (pair.baseline, pair.run))
    return {
        "n": n,
        "baseline_mean": before,
        "run_mean": after,
        "difference": Estimate(after - before, interval),
        "effect_size": float(differences.mean()) / spread if spread else None,
        "wins": wins,
        "losses": losses,
        "ties": n - wins - losses,
        "moved": _moved(pair, metric, options.max_moved),
        "power": paired_t_power(n, spread, 1 - intervals.confidence, options.difference),
        "warnings": tuple(_warnings(pair, differences)),
    }


def _moved(pair: Pair, metric: int, most: int) -> tuple[MovedQuery, ...]:
    """Return the queries that changed, the largest change first, ties in the baseline's order."""
    differences = pair.differences[metric]
    order = np.argsort(-np.abs(differences), kind="stable")[:most].tolist()
    return tuple(
        MovedQuery(pair.query_ids[i], float(pair.baseline[metric, i]), float(pair.run[metric, i]))
        for i in order
        if differences[i] != 0
    )


def _warnings(pair: Pair, differences: FloatArray) -> list[str]:
    warnings = []
    if pair.left_out:
        queries = "1 query" if pair.left_out == 1 else f"{pair.left_out} queries"
        warnings.append(f"{queries} left out: with a value in one of the two runs only")
    if not differences.any():
        warnings.append("no query differs, so that there is nothing to test")
    elif not varies(differences):
        warnings.append(
            "all queries differ by the same amount: the t-test and the power are undefined, go by "
            "the permutation test"
        )
    return warnings


@dataclass(frozen=True, slots=True)
class PairedTest:
    """The result of one test. `statistic` is None if it is undefined for the data."""

    statistic: float | None
    p_value: float


NO_EVIDENCE = PairedTest(None, 1.0)
"""The result of a test that can't be computed from the data."""


def _two_sided(statistic: float, tail: float) -> PairedTest:
    return PairedTest(float(statistic), min(1.0, 2 * float(tail)))


def varies(differences: FloatArray) -> bool:
    """Return whether differences differ by more than rounding."""
    spread = float(differences.max() - differences.min())
    return spread > TIE_TOLERANCE * max(1.0, float(np.abs(differences).max()))


def t_test(differences: FloatArray) -> PairedTest:
    """Return the paired t-test (Student 1908); NO_EVIDENCE if the differences do not vary.

    The statistic is the mean over its standard error, with n - 1 degrees of freedom.
    """
    n = len(differences)
    if not varies(differences):
        return NO_EVIDENCE
    error = float(differences.std(ddof=1)) / math.sqrt(n)
    statistic = float(differences.mean()) / error
    return _two_sided(statistic, special().stdtr(n - 1, -abs(statistic)))


def wilcoxon(differences: FloatArray) -> PairedTest:
    """Return the signed-rank test (Wilcoxon 1945), with zero differences left out.

    The statistic is the smaller of the two rank sums. Its distribution is exact up to
    LARGEST_EXACT differences without ties, and otherwise normal with the corrections for ties and
    continuity. Sizes closer than 1e-9 are ties, since they may differ only by rounding.
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
        return _two_sided(statistic, float(counts[: int(statistic) + 1].sum()) / 2.0**n)
    variance = n * (n + 1) * (2 * n + 1) / 24 - float(np.sum(tied**3 - tied)) / 48
    distance = abs(positive - n * (n + 1) / 4) - 0.5
    return _two_sided(statistic, special().ndtr(-distance / math.sqrt(variance)))


def mcnemar(differences: FloatArray) -> PairedTest:
    """Return the exact test of paired booleans (McNemar 1947), given differences of -1, 0 and 1.

    The statistic is the smaller number of queries on which one of the two is better.
    """
    better, worse = int(np.sum(differences > 0)), int(np.sum(differences < 0))
    smaller, n = min(better, worse), better + worse
    if not n:
        return NO_EVIDENCE
    # The lower tail of the binomial: P(X <= s) = I_{1/2}(n - s, s + 1).
    return _two_sided(smaller, special().betainc(n - smaller, smaller + 1, 0.5))


def _ranks(sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ranks from 1, the mean rank for ties, and the size of each group of ties."""
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
    """Return the number of sets of ranks 1..n with each sum, int64[n (n + 1) / 2 + 1]."""
    counts = np.zeros(n * (n + 1) // 2 + 1, np.int64)
    counts[0] = 1
    for rank in range(1, n + 1):
        counts[rank:] += counts[:-rank].copy()
    return counts


def check_flips(n_queries: int, n_comparisons: int, permutations: int) -> None:
    """Raise InvalidField at `comparison.permutations` if the test would take too long."""
    passes = max(1, math.ceil(n_comparisons / _COMPARISONS_A_PASS))
    most = MAX_FLIPS // (max(1, n_queries) * passes)
    asked = f"for {n_queries} queries and {n_comparisons} comparisons"
    less, field = "compare fewer runs or metrics", "comparison.permutations"
    check_draws(permutations, most, asked, less, field)


def sign_flip_p_values(differences: FloatArray, permutations: int, seed: int) -> FloatArray:
    """Return the two-sided p-value of each mean, float64[c]; `differences` is float64[c, n].

    Exact, over all 2^k sign flips of k non-zero differences, if these are no more than
    `permutations`. Else (b + 1) / (m + 1), where b of m random flips are at least as far from 0;
    this is never 0 (Phipson & Smyth 2010). All comparisons use the same signs.
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
    """Return the number of random flips with which each sum is as far from 0 as without them."""
    whole, thresholds = _rounded(differences)
    n = differences.shape[1]
    words = -(-n // 64)
    source = np.random.PCG64(seed)
    # As many rows as fit the cache, with their signs and the sums of all comparisons.
    block = max(1, _BLOCK_SIGNS // max(n, len(whole) // 4))
    hits = np.zeros(len(whole))
    for start in range(0, permutations, block):
        checkpoint()
        rows = min(block, permutations - start)
        raw = source.random_raw(rows * words).astype("<u8", copy=False)
        bits = np.unpackbits(raw.view(np.uint8).reshape(rows, -1), axis=1, bitorder="little")
        # A set bit is a plus, a clear bit a minus.
        sums = bits[:, :n].astype(np.float64) @ whole.T * 2 - whole.sum(axis=1)
        hits += np.sum(np.abs(sums) >= thresholds, axis=0)
    return hits


def _rounded(differences: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the differences as whole numbers with exact sums, and the threshold of each sum.

    A sum of n rounded numbers may be off by n / 2, and so may the sum that it is compared with: a
    sum that is smaller by at most n counts as equal.
    """
    n = max(1, differences.shape[1])
    largest = np.abs(differences).max(axis=1, initial=0.0)
    exponents = np.frexp(np.where(largest > 0, largest, 1.0))[1]
    shift = 51 - math.ceil(math.log2(max(n, 2)))
    whole: FloatArray = np.rint(np.ldexp(differences, (shift - exponents)[:, None]))
    return whole, np.abs(whole.sum(axis=1)) - n


def paired_t_power(
    n: int, spread: float, alpha: float, difference: float | None
) -> ComparisonPower:
    """Return the power of the two-sided paired t-test of n >= 2 differences.

    `spread` is their standard deviation, 0 if they do not vary; `difference` is a true mean
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
    """Return the probability that |T| exceeds its critical value if the mean is `effect` sds."""
    noncentrality = effect * math.sqrt(n)
    critical = -special().stdtrit(n - 1, alpha / 2)
    # SciPy may return NaN for a probability below 1e-12.
    ends = special().nctdtr(n - 1, noncentrality, np.array([critical, -critical]))
    below, beyond = np.nan_to_num(ends, nan=0.0).tolist()
    return float(min(1.0, 1.0 - below + beyond))


@lru_cache(maxsize=1024)
def _detectable_noncentrality(n: int, alpha: float) -> float:
    root = math.sqrt(n)
    steps = range(1 << 56)
    return _FINEST * bisect_left(steps, TARGET, key=lambda i: _power(n, i * _FINEST / root, alpha))


def _queries_needed(effect: float, alpha: float) -> int | None:
    """Return the smallest n whose power reaches TARGET; None if it is above _MOST_QUERIES."""
    z = -float(special().ndtri(alpha / 2))
    # For large n: the normal approximation, plus half the square of z for the estimated spread.
    needed = z + float(special().ndtri(TARGET))
    if effect * math.sqrt(_MOST_QUERIES) < needed:
        return None
    guess = (needed / effect) ** 2 + z * z / 2
    if guess > _LARGE_N:
        return math.ceil(guess)
    likely = range(2, 2 * math.ceil(guess) + 50)
    return likely[bisect_left(likely, TARGET, key=lambda n: _power(n, effect, alpha))]
