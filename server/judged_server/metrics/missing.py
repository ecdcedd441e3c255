"""What missing verdicts could change.

MAXIMUM and ANY are monotone: one more match never loses a hit within any top k. All missing
verdicts set to "no match", then all to "match", therefore enclose every completion, for every
metric that never falls when hits are added or move up, as all do that verdicts define.

GREEDY_FIRST is not monotone: a new match can make a result take the one expected text that a
later result needed. Nothing exceeds its upper extreme all the same: no matching has more hits in
any top k than the maximum one with all missing verdicts set to "match". Its lower extreme is the
smaller of the two greedy evaluations, and a completion in between can, rarely, fall below that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from judged_server.domain import BoolArray, IntArray
from judged_server.metrics.grades import extremes as grade_extremes
from judged_server.metrics.grades import open_groups
from judged_server.metrics.input.rankings import Rankings
from judged_server.metrics.matching import JudgedResults, greedy_choice, match, pairs_where
from judged_server.metrics.options import MatchingMode

_NOBODY = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Unsettled:
    """The groups whose hits depend on missing verdicts.

    `groups` is int64, ascending. `extremes` are rankings of these groups alone, in that order; a
    metric's bounds are its smallest and its largest value over them. Those of a metric that weighs
    the judge's grades are over `graded`.
    """

    groups: IntArray
    extremes: tuple[Rankings, ...]
    graded: tuple[Rankings, ...] = ()


def unsettled(results: JudgedResults, mode: MatchingMode) -> Unsettled:
    """Return the groups in which filling in the missing verdicts could change a hit, or a grade.

    With grades that is every group that misses a verdict. Without, it is exact for MAXIMUM and ANY,
    and for GREEDY_FIRST where a group misses one verdict. Where it misses more, a group in which
    only the pairing could change counts as unsettled too.
    """
    if results.missing is None:
        return Unsettled(np.empty(0, np.int64), ())
    if results.gains is not None:
        return _ungraded(results, mode)
    gaps = pairs_where(results, results.missing).group
    if mode is MatchingMode.GREEDY_FIRST:
        groups = _open_to_change(results, results.missing)
    else:
        groups = np.unique(gaps)
    rest = results.take(groups)
    best = rest.filled(relevant=True)
    low, high = match(rest, mode), match(best, mode)
    changes = _hits_differ(low, high)
    extremes = [low, high]
    if mode is MatchingMode.GREEDY_FIRST:
        # One gap has two completions, and both were tried; more have others in between.
        changes |= np.bincount(gaps, minlength=len(results.n_expected))[groups] > 1
        extremes.append(match(best, MatchingMode.MAXIMUM))
    rows = np.flatnonzero(changes)
    return Unsettled(groups[rows], tuple(extreme.take(rows) for extreme in extremes))


def _ungraded(results: JudgedResults, mode: MatchingMode) -> Unsettled:
    groups = open_groups(results)
    worst, best = (results.take(groups).filled(relevant=yes) for yes in (False, True))
    low, high = match(worst, mode), match(best, mode)
    extremes = [low, high]
    if mode is MatchingMode.GREEDY_FIRST:
        extremes.append(match(best, MatchingMode.MAXIMUM))
    return Unsettled(groups, tuple(extremes), grade_extremes(worst, best, low, extremes[-1]))


def _open_to_change(results: JudgedResults, missing: BoolArray) -> IntArray:
    """Return the groups, ascending, with a missing verdict that GREEDY_FIRST would act on.

    It acts on a pair when the result would rather have this expected text than what it got, and
    the expected text would rather have this result: the pair that blocks a stable matching.
    Without one the matching is the same whatever the missing verdicts are.
    """
    known = results.filled(relevant=False)
    pairs = pairs_where(known, known.relevant)
    chosen = greedy_choice(pairs, known)
    partner = np.full(int(results.n_retrieved.sum()), _NOBODY)
    partner[pairs.flat_result[chosen]] = pairs.expected[chosen]
    holder = np.full(int(results.n_expected.sum()), _NOBODY)
    holder[pairs.flat_expected[chosen]] = pairs.result[chosen]
    gaps = pairs_where(results, missing)
    blocking = (gaps.expected < partner[gaps.flat_result]) & (
        gaps.result < holder[gaps.flat_expected]
    )
    # A result that was judged by itself takes nothing from another.
    return np.unique(gaps.group[blocking | results.is_open_ended(gaps.group)])


def _hits_differ(low: Rankings, high: Rankings) -> BoolArray:
    """Return bool[n]: queries whose hits, or ranks of finding, are not the same in both."""
    queries = np.arange(low.n_queries)
    differ = np.zeros(low.n_queries, np.bool_)
    differ[np.repeat(queries, low.n_retrieved)[low.gains != high.gains]] = True
    if low.found_ranks is not None and high.found_ranks is not None:
        differ[np.repeat(queries, low.n_relevant)[low.found_ranks != high.found_ranks]] = True
    return differ
