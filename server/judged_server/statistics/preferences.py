"""Ranks systems by paired comparisons of their results for the same queries.

The model is that of Bradley and Terry (1952, Biometrika 39) with the ties of Davidson (1970, JASA
65): of systems with strengths a and b, the first is preferred with odds e^(a-b) : 1, and a tie is
as likely as nu times the geometric mean of both outcomes. A weak normal prior keeps the strengths
finite if a system wins everything. Intervals resample queries, since the comparisons of one query
are dependent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from judged.values.agreement import PositionBias, RankedSystem, SystemRanking
from judged.values.choices import Estimate, Interval, IntervalOptions

from judged_server.domain import FloatArray, IntArray, check_limit
from judged_server.statistics.intervals import check_draws, resample_counts, special

PRIOR_SD = 3.0
"""Of the strengths, in natural log-odds: 20 to 1 is within one of it, so the prior is weak."""
FEW_QUERIES = 20
MAX_CELLS = 5_000_000
"""The most queries times pairs of systems: the size of three tables with 8 bytes per entry."""
MAX_WORK = 30_000_000_000
"""The most products of floats in a call: about ten seconds of one core."""
_USUAL_STEPS = 6
_BLOCK = 256
_TOLERANCE, _MAX_STEPS, _LONGEST_STEP = 1e-10, 100, 2.0


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Paired comparisons, in columns of equal length.

    `query`, `first` and `second` are int64: the indices of the query and of two different systems.
    `preference` is float64 in [0, 1]: 1 prefers the first, 0 the second, .5 is a tie; a value
    between is partly a preference and partly a tie.
    """

    query: IntArray
    first: IntArray
    second: IntArray
    preference: FloatArray
    n_queries: int
    names: Sequence[str]

    @property
    def n_systems(self) -> int:
        """The number of systems."""
        return len(self.names)


def check_work(data: Comparisons, options: IntervalOptions, field: str) -> None:
    """Raise InvalidField if the intervals would take too long, or the counts too much memory."""
    pairs = data.n_systems * (data.n_systems - 1) // 2
    cells = data.n_queries * pairs
    check_limit(cells, MAX_CELLS, "queries times pairs of systems", "query_ids")
    work = 3 * pairs * data.n_queries + _USUAL_STEPS * pairs * data.n_systems**2
    most = int(MAX_WORK // work)
    asked = f"for {data.n_queries} queries of {data.n_systems} systems"
    check_draws(options.resamples, most, asked, "compare fewer systems", field)


def rank_systems(data: Comparisons, options: IntervalOptions) -> SystemRanking:
    """Return the ranking of systems by their comparisons, at least one."""
    pairs = np.array(list(combinations(range(data.n_systems), 2)), np.int64).reshape(-1, 2)
    outcomes = _outcomes(data, pairs)
    totals = outcomes.sum(axis=1, keepdims=True)
    fit = _fit(totals, pairs, data.n_systems, np.zeros((1, data.n_systems + 1)))[0]
    intervals: list[Interval | None] = [None] * data.n_systems
    if data.n_queries > 1:
        intervals = list(_intervals(outcomes, pairs, fit, options))
    won, tied, lost = (
        _of_systems(totals[:, 0], pairs, data.n_systems, k).tolist() for k in range(3)
    )
    rows = zip(data.names, fit.tolist(), intervals, won, tied, lost, strict=False)
    systems = [
        RankedSystem(name, Estimate(strength, interval), *outcome)
        for name, strength, interval, *outcome in rows
    ]
    systems.sort(key=lambda system: -(system.strength.value or 0.0))
    warnings = []
    if _parts(totals[:, 0], pairs, data.n_systems) > 1:
        warnings.append(
            "some systems are not compared with each other, not even by way of others: their "
            "strengths can't be compared"
        )
    if data.n_queries < FEW_QUERIES:
        warnings.append(f"{data.n_queries} queries are few: intervals may be too narrow")
    tie, bias = float(np.exp(fit[-1])), position_bias(data)
    signature = f"davidson|prior_sd:{PRIOR_SD:g}|v1"
    return SystemRanking(systems, tie, bias, data.n_queries, warnings, signature)


def position_bias(data: Comparisons) -> PositionBias:
    """Return how much the outcome depends on which of two answers is shown first."""
    waiting: dict[tuple[int, int, int], float] = {}
    both = []
    columns = (data.query, data.first, data.second, data.preference)
    for query, one, other, preference in zip(*map(np.ndarray.tolist, columns), strict=True):
        back = waiting.pop((query, other, one), None)
        if back is None:
            waiting[query, one, other] = preference
        else:
            both.append((preference, back))
    n = len(both)
    outcomes = np.array(both).reshape(n, 2)
    here, there = np.sign(outcomes - 0.5).T
    same = int(np.sum(here == -there))
    first, second = (int(np.sum((here == side) & (there == side))) for side in (1, -1))
    mean = float(outcomes.sum()) / (2 * n) if n else None
    return PositionBias(n, same, first, second, n - same - first - second, mean)


def _outcomes(data: Comparisons, pairs: IntArray) -> FloatArray:
    """Return float64[3, queries, pairs]: wins of the pair's first system, ties, its losses."""
    number = np.zeros((data.n_systems, data.n_systems), np.int64)
    number[pairs[:, 0], pairs[:, 1]] = number[pairs[:, 1], pairs[:, 0]] = np.arange(len(pairs))
    turned = data.first > data.second
    preference = np.where(turned, 1 - data.preference, data.preference)
    place = data.query * len(pairs) + number[data.first, data.second]
    shares = (
        np.maximum(2 * preference - 1, 0),
        1 - np.abs(2 * preference - 1),
        np.maximum(1 - 2 * preference, 0),
    )
    size = data.n_queries * len(pairs)
    return np.stack(
        [np.bincount(place, share, size).reshape(data.n_queries, -1) for share in shares]
    )


def _fit(outcomes: FloatArray, pairs: IntArray, n: int, start: FloatArray) -> FloatArray:
    """Return float64[r, n + 1]: strengths, and the log of nu, at the mode, by Newton's method.

    `outcomes` is float64[3, r, pairs], the outcomes of r data sets; `start`, float64[r or 1,
    n + 1], is the starting point. The log-posterior is strictly concave.
    """
    won, tied, lost = outcomes
    total = won + tied + lost
    design = np.zeros((len(pairs), n))
    design[np.arange(len(pairs)), pairs[:, 0]] = 0.5
    design[np.arange(len(pairs)), pairs[:, 1]] = -0.5
    products = (design[:, :, None] * design[:, None, :]).reshape(len(pairs), n * n)
    at = np.repeat(start, len(won), axis=0) if len(start) < len(won) else start.copy()
    precision = PRIOR_SD**-2
    hessian = np.empty((len(won), n + 1, n + 1))
    for _ in range(_MAX_STEPS):
        half = at[:, :n] @ design.T
        odds = np.stack([half, np.broadcast_to(at[:, n:], half.shape), -half])
        p_won, p_tied, p_lost = special().softmax(odds, axis=0)
        lean = p_won - p_lost
        gradient = np.concatenate(
            [
                (won - lost - total * lean) @ design,
                (tied - total * p_tied).sum(axis=1, keepdims=True),
            ],
            axis=1,
        )
        gradient -= precision * at
        hessian[:, :n, :n] = ((total * (p_won + p_lost - lean**2)) @ products).reshape(-1, n, n)
        hessian[:, :n, n] = hessian[:, n, :n] = -(total * lean * p_tied) @ design
        hessian[:, n, n] = (total * p_tied * (1 - p_tied)).sum(axis=1)
        hessian[:, np.arange(n + 1), np.arange(n + 1)] += precision
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        longest = np.abs(step).max(axis=1, keepdims=True)
        at += step * np.minimum(1.0, _LONGEST_STEP / np.maximum(longest, _LONGEST_STEP))
        if longest.max() < _TOLERANCE:
            break
    return at


def _intervals(
    outcomes: FloatArray, pairs: IntArray, fit: FloatArray, options: IntervalOptions
) -> Sequence[Interval]:
    """Return the percentile interval of each strength over resampled queries."""
    n_queries, n = outcomes.shape[1], len(fit) - 1
    drawn = [
        _fit(np.stack([counts @ outcome for outcome in outcomes]), pairs, n, fit[None])[:, :n]
        for counts in resample_counts(n_queries, options.resamples, options.seed, _BLOCK)
    ]
    strengths = np.concatenate(drawn)
    tail = (1 - options.confidence) / 2
    lower, upper = np.quantile(strengths, [tail, 1 - tail], axis=0)
    columns = np.stack([lower, upper, strengths.std(axis=0, ddof=1)], axis=1).tolist()
    return [
        Interval(low, high, options.confidence, error, options.signature)
        for low, high, error in columns
    ]


def _of_systems(totals: FloatArray, pairs: IntArray, n: int, outcome: int) -> FloatArray:
    """Return float64[n]: the count of an outcome (0 won, 1 tied, 2 lost) for each system."""
    own = np.bincount(pairs[:, 0], totals[outcome], n).astype(np.float64)
    both: FloatArray = own + np.bincount(pairs[:, 1], totals[2 - outcome], n)
    return both


def _parts(totals: FloatArray, pairs: IntArray, n: int) -> int:
    """Return the number of sets of systems that no comparison connects."""
    group = np.arange(n)
    for one, other in pairs[totals.sum(axis=0) > 0].tolist():
        group[group == group[other]] = group[one]
    return len(np.unique(group))
