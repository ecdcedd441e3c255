"""Runs in, comparisons out: every later run against the first, on the queries that both have.

Comparisons are numbered by metric, then by pair, and tests are corrected for how many there are.
The corrections are of our own: SciPy has no Holm's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from judged.values.comparison import CompareOptions, MovedQuery, RunComparison, TestResult
from judged.values.intervals import Estimate, Interval, IntervalOptions

from judged_server.domain import TIE_TOLERANCE, FloatArray, IntArray
from judged_server.errors import InvalidField
from judged_server.scheduling.checkpoint import checkpoint
from judged_server.statistics.intervals import check_work, mean_intervals
from judged_server.statistics.paired_tests import (
    PairedTest,
    check_flips,
    mcnemar,
    paired_t_power,
    sign_flip_p_values,
    t_test,
    varies,
    wilcoxon,
)

FEWEST = 2
"""Queries without which nothing has a spread."""


@dataclass(frozen=True, slots=True)
class RunValues:
    """One run: `values` is float64[metrics, queries], `query_ids` names the queries, each once."""

    name: str
    query_ids: Sequence[str]
    values: FloatArray


@dataclass(frozen=True, slots=True)
class Pair:
    """A run beside the baseline, on the queries of both. Differences of rounding are 0."""

    places: IntArray
    query_ids: Sequence[str]
    left_out: int
    baseline: FloatArray
    run: FloatArray
    differences: FloatArray


def pair_up(baseline: RunValues, run: RunValues, places: dict[str, int], field: str) -> Pair:
    """Return the run beside the baseline, whose queries are numbered by `places`.

    Raises InvalidField at `field` when they share fewer than FEWEST queries.
    """
    theirs = {query_id: place for place, query_id in enumerate(run.query_ids)}
    common = [query_id for query_id in baseline.query_ids if query_id in theirs]
    if len(common) < FEWEST:
        first = f"{field.partition('[')[0]}[0]"
        what = f"shares {len(common)} evaluated queries with the baseline, {first}"
        rule = f"{what}; a comparison needs at least {FEWEST}: compare runs on the same queries"
        raise InvalidField(field, rule)
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


def _tests(
    shared: Sequence[Pair], n_queries: int, options: CompareOptions
) -> dict[str, list[TestResult | None]]:
    """Return every test by its name in a RunComparison, in the order of the comparisons.

    `n_queries` is the number of the baseline's queries. McNemar's test applies where all values of
    both runs are 0 or 1, the others everywhere. A query has the same signs in all sign-flip tests.
    """
    n_metrics = len(shared[0].differences)
    spread = np.zeros((n_metrics, len(shared), n_queries))
    for j, pair in enumerate(shared):
        spread[:, j, pair.places] = pair.differences
    flips = sign_flip_p_values(
        spread.reshape(-1, n_queries), options.permutations, options.seed
    ).tolist()
    columns: dict[str, list[PairedTest | None]] = {
        name: [] for name in ("t_test", "wilcoxon", "mcnemar", "permutation")
    }
    for metric in range(n_metrics):
        for pair in shared:
            checkpoint()
            differences = pair.differences[metric]
            boolean = np.isin([pair.baseline[metric], pair.run[metric]], (0, 1)).all()
            p_value = flips[len(columns["permutation"])]
            columns["t_test"].append(t_test(differences))
            columns["wilcoxon"].append(wilcoxon(differences))
            columns["mcnemar"].append(mcnemar(differences) if boolean else None)
            columns["permutation"].append(PairedTest(float(differences.mean()), p_value))
    return {name: _corrected(column) for name, column in columns.items()}


def _corrected(tests: Sequence[PairedTest | None]) -> list[TestResult | None]:
    """Return the tests with their p-values corrected for how many there are."""
    p_values = np.array([test.p_value for test in tests if test is not None])
    corrected = zip(holm(p_values).tolist(), benjamini_hochberg(p_values).tolist(), strict=True)
    return [
        None if test is None else TestResult(test.statistic, test.p_value, *next(corrected))
        for test in tests
    ]


def holm(p_values: FloatArray) -> FloatArray:
    """Return the p-values times how many are not smaller, float64[m], at most 1 and in one order.

    Rejecting where these are below alpha keeps the chance of even one false claim below alpha
    (Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure").
    """
    m = len(p_values)
    order = np.argsort(p_values, kind="stable")
    steps = np.maximum.accumulate(p_values[order] * np.arange(m, 0, -1))
    return _back_in_place(steps, order)


def benjamini_hochberg(p_values: FloatArray) -> FloatArray:
    """Return the p-values times m over their rank, float64[m], at most 1 and in one order.

    Rejecting where these are below alpha keeps the expected share of false ones among the claims
    below alpha (Benjamini & Hochberg 1995, "Controlling the False Discovery Rate").
    """
    m = len(p_values)
    order = np.argsort(p_values, kind="stable")
    steps = p_values[order] * m / np.arange(1, m + 1)
    return _back_in_place(np.minimum.accumulate(steps[::-1])[::-1], order)


def _back_in_place(steps: FloatArray, order: IntArray) -> FloatArray:
    corrected = np.empty_like(steps)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected


LARGEST_VALUE = 1e100
"""Values beyond this are refused: their squares could overflow."""


def compare(
    runs: Sequence[RunValues],
    options: CompareOptions,
    intervals: IntervalOptions,
    metrics: Sequence[str],
    field: str = "runs",
) -> list[RunComparison]:
    """Return how each later run differs from the first, by metric (row of the values), then by run.

    Raises InvalidField at `field[i]` for a run that shares fewer than two queries with the first
    or has a value beyond LARGEST_VALUE, and what `check_flips` and `check_work` raise.
    """
    for i, run in enumerate(runs):
        if run.values.size and float(np.abs(run.values).max()) > LARGEST_VALUE:
            raise InvalidField(f"{field}[{i}]", "has a value beyond +-1e100; rescale the values")
    baseline = runs[0]
    places = {query_id: place for place, query_id in enumerate(baseline.query_ids)}
    shared = [
        pair_up(baseline, run, places, f"{field}[{i}]") for i, run in enumerate(runs[1:], start=1)
    ]
    n_metrics = len(baseline.values)
    check_work(sum(len(pair.places) for pair in shared), n_metrics, intervals)
    check_flips(len(places), n_metrics * len(shared), options.permutations)
    found = [mean_intervals(pair.differences, intervals) for pair in shared]
    tests = _tests(shared, len(places), options)
    comparisons: list[RunComparison] = []
    for row, metric in enumerate(metrics):
        for pair, run, made in zip(shared, runs[1:], found, strict=True):
            of_pair: dict[str, Any] = {n: column[len(comparisons)] for n, column in tests.items()}
            numbers = _numbers(pair, row, options, intervals, made[row])
            comparisons.append(RunComparison(metric, baseline.name, run.name, **numbers, **of_pair))
    return comparisons


def _numbers(
    pair: Pair,
    metric: int,
    options: CompareOptions,
    intervals: IntervalOptions,
    interval: Interval | None,
) -> dict[str, Any]:
    """Return what there is to say of one metric of a pair beside the tests, by field."""
    n, differences = len(pair.places), pair.differences[metric]
    spread = float(differences.std(ddof=1)) if varies(differences) else 0.0
    wins, losses = int(np.sum(differences > 0)), int(np.sum(differences < 0))
    before = math.fsum(pair.baseline[metric].tolist()) / n
    after = math.fsum(pair.run[metric].tolist()) / n
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
