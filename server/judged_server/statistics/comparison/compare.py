"""Runs in, comparisons out: every later run against the first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from judged.values.intervals import Interval, IntervalOptions

from judged_server.domain import FloatArray
from judged_server.errors import InvalidField
from judged_server.scheduling.checkpoint import checkpoint
from judged_server.statistics.comparison.corrected_tests import CorrectedTest, corrected_tests
from judged_server.statistics.comparison.paired_tests import varies
from judged_server.statistics.comparison.pairing import Pair, RunValues, pair_up
from judged_server.statistics.comparison.power import Power, paired_t_power
from judged_server.statistics.comparison.sign_flips import check_flips
from judged_server.statistics.intervals import MAX_MEANS, check_work, mean_intervals

LARGEST_VALUE = 1e100
"""Values beyond this are refused: their squares could overflow."""


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """How runs are compared. `difference` is a true mean difference to tell the power for."""

    permutations: int = 100_000
    seed: int = 0
    max_moved: int = 10
    difference: float | None = None

    @property
    def signature(self) -> str:
        """How the tests are made, in one stable line."""
        return f"permutations:{self.permutations}|seed:{self.seed}|v1"


@dataclass(frozen=True, slots=True)
class Moved:
    """A query whose value differs between two runs."""

    query_id: str
    baseline: float
    run: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of two runs, named by their places, on the n queries that they share."""

    metric: int
    run: int
    n: int
    baseline_mean: float
    run_mean: float
    interval: Interval | None
    effect_size: float | None
    tests: dict[str, CorrectedTest]
    wins: int
    losses: int
    ties: int
    moved: tuple[Moved, ...]
    power: Power
    warnings: tuple[str, ...]


def compare(
    runs: Sequence[RunValues],
    options: CompareOptions,
    intervals: IntervalOptions,
    field: str = "runs",
) -> list[Comparison]:
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
    found = _intervals(shared, intervals)
    comparisons = [
        comparison
        for j, pair in enumerate(shared, start=1)
        for comparison in _comparisons(pair, j, options, intervals, found[j - 1])
    ]
    comparisons.sort(key=lambda made: (made.metric, made.run))
    tests = corrected_tests(shared, len(places), options.permutations, options.seed)
    return [
        replace(made, tests={name: column[i] for name, column in tests.items() if i in column})
        for i, made in enumerate(comparisons)
    ]


def _intervals(
    shared: Sequence[Pair], options: IntervalOptions
) -> list[tuple[Interval | None, ...]]:
    """Return the intervals of each pair's differences, one a metric.

    Resamples hang on the number of queries and the seed alone. So pairs with as many queries are
    taken together, and drawn for once.
    """
    found: list[tuple[Interval | None, ...]] = [()] * len(shared)
    n_metrics = len(shared[0].differences)
    pairs = max(1, MAX_MEANS // (max(1, n_metrics) * options.resamples))
    alike: dict[int, list[int]] = {}
    for j, pair in enumerate(shared):
        alike.setdefault(len(pair.places), []).append(j)
    for group in alike.values():
        for begin in range(0, len(group), pairs):
            some = group[begin : begin + pairs]
            rows = np.concatenate([shared[j].differences for j in some])
            made = mean_intervals(rows, options)
            for place, j in enumerate(some):
                found[j] = made[place * n_metrics : (place + 1) * n_metrics]
    return found


def _comparisons(
    pair: Pair,
    run: int,
    options: CompareOptions,
    intervals: IntervalOptions,
    found: Sequence[Interval | None],
) -> list[Comparison]:
    """Return a comparison a metric, without the tests."""
    n = len(pair.places)
    made = []
    rows = zip(pair.baseline, pair.run, pair.differences, found, strict=True)
    for metric, (before, after, differences, interval) in enumerate(rows):
        checkpoint()
        spread = float(differences.std(ddof=1)) if varies(differences) else 0.0
        wins, losses = int(np.sum(differences > 0)), int(np.sum(differences < 0))
        made.append(
            Comparison(
                metric=metric,
                run=run,
                n=n,
                baseline_mean=math.fsum(before.tolist()) / n,
                run_mean=math.fsum(after.tolist()) / n,
                interval=interval,
                effect_size=float(differences.mean()) / spread if spread else None,
                tests={},
                wins=wins,
                losses=losses,
                ties=n - wins - losses,
                moved=_moved(pair, metric, options.max_moved),
                power=paired_t_power(n, spread, 1 - intervals.confidence, options.difference),
                warnings=tuple(_warnings(pair, differences)),
            )
        )
    return made


def _moved(pair: Pair, metric: int, most: int) -> tuple[Moved, ...]:
    """Return the queries that changed, the largest change first, ties in the baseline's order."""
    differences = pair.differences[metric]
    order = np.argsort(-np.abs(differences), kind="stable")[:most].tolist()
    return tuple(
        Moved(pair.query_ids[i], float(pair.baseline[metric, i]), float(pair.run[metric, i]))
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
