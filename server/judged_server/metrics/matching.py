"""From verdicts to rankings: hits, grades as gains, and what missing verdicts could change.

    GREEDY_FIRST  by rank, a result takes the first expected text it matches that is still free.
    MAXIMUM       a maximum bipartite matching, and among those the one whose hits come earliest.
    ANY           no pairing: a result hits if it matches anything, an expected text is found if
                  anything matches it.

GREEDY_FIRST is computed for all groups at once. Seen from both sides it is one stable matching:
every result prefers the lower expected index, every expected text the better rank, and where all
agree on the order there is exactly one stable matching. So it makes no difference whether results
choose in rank order or expected texts choose in index order, and the expected texts choose, of
which there are few.

Where a judge gives grades, metrics that weigh them, ndcg first of all, take these as gains. The
judge stands for the assessors of a pool. What was retrieved are the documents that it graded, each
with the best grade over the expected texts, and an expected text that no result matches is a
document with the highest grade that was not retrieved. So the rankings are those that trec_eval
would make of qrels with these grades; results are not paired with expected texts, and two results
that say the same both keep their grades.

Missing verdicts leave groups open. MAXIMUM and ANY are monotone: one more match never loses a hit
within any top k. All missing verdicts set to "no match", then all to "match", therefore enclose
every completion, for every metric that never falls when hits are added or move up, as all do that
verdicts define.

GREEDY_FIRST is not monotone: a new match can make a result take the one expected text that a
later result needed. Nothing exceeds its upper extreme all the same: no matching has more hits in
any top k than the maximum one with all missing verdicts set to "match". Its lower extreme is the
smaller of the two greedy evaluations, and a completion in between can, rarely, fall below that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from judged.values.choices import Matching

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.metrics.input.judged_ids import JudgedIds
from judged_server.metrics.input.rankings import Rankings, ideal_of, offsets_of, take_groups
from judged_server.scheduling.fairness import checkpoint


@dataclass(frozen=True)
class JudgedResults:
    """The verdicts of n groups, each the full cross product of its results and expected texts.

    relevant    bool[sum(n_retrieved * n_expected)]: group after group, each retrieved-major.
    n_retrieved int64[n], n_expected int64[n].
    missing     bool, shaped as `relevant`: verdicts that do not exist; `relevant` means nothing
                there. None when there are none.
    duplicates  how many repeated results were dropped before judging.
    gains       float64, shaped as `relevant`: the judge's grades, in [0, max_grade]; they mean
                nothing where a verdict is missing. None for a judge that gives no grades.
    max_grade   the highest of its grades, 0 for a judge that gives none.
    judged_ids  the groups that are matched by document id; `n_expected` and verdicts leave them
                out. None where there are none.
    open_ended  bool[n]: groups in which each result was judged by itself, with one column of
                verdicts: all that are relevant are hits, and how many there are to find is not
                known. None when there are none.
    """

    relevant: BoolArray
    n_retrieved: IntArray
    n_expected: IntArray
    missing: BoolArray | None = None
    duplicates: int = 0
    gains: FloatArray | None = None
    max_grade: int = 0
    judged_ids: JudgedIds | None = None
    open_ended: BoolArray | None = None

    @cached_property
    def offsets(self) -> IntArray:
        """int64[n + 1]: where each group's verdicts begin."""
        return offsets_of(self.n_retrieved * self.n_expected)

    def take(self, groups: IntArray) -> JudgedResults:
        """Return the results of these groups (int64), in that order."""
        _, kept = take_groups(self.offsets, groups)
        return JudgedResults(
            self.relevant[kept],
            self.n_retrieved[groups],
            self.n_expected[groups],
            None if self.missing is None else self.missing[kept],
            gains=None if self.gains is None else self.gains[kept],
            max_grade=self.max_grade,
            open_ended=None if self.open_ended is None else self.open_ended[groups],
        )

    def is_open_ended(self, groups: IntArray) -> BoolArray:
        """Return for each of these groups whether its results were judged by themselves."""
        none = np.zeros(len(groups), np.bool_)
        return none if self.open_ended is None else self.open_ended[groups]

    def filled(self, relevant: bool) -> JudgedResults:
        """Return the same with every missing verdict set to `relevant`, and its grade likewise."""
        if self.missing is None:
            return self
        verdicts = self.relevant | self.missing if relevant else self.relevant & ~self.missing
        gains = self.gains
        if gains is not None:
            gains = np.where(self.missing, float(self.max_grade if relevant else 0), gains)
        return replace(self, relevant=verdicts, missing=None, gains=gains)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Some of the contexts of judged results, in their order. All arrays are int64[pairs].

    `result` and `expected` count from 0 within the group, `flat_result` and `flat_expected` over
    all groups.
    """

    group: IntArray
    result: IntArray
    expected: IntArray
    flat_result: IntArray
    flat_expected: IntArray


def pairs_where(results: JudgedResults, mask: BoolArray) -> Pairs:
    """Return the contexts where `mask` (bool, shaped as `results.relevant`) is set."""
    places = np.flatnonzero(mask)
    group = np.searchsorted(results.offsets, places, side="right") - 1
    result, expected = np.divmod(places - results.offsets[group], results.n_expected[group])
    flat_result = offsets_of(results.n_retrieved)[group] + result
    flat_expected = offsets_of(results.n_expected)[group] + expected
    return Pairs(group, result, expected, flat_result, flat_expected)


def match(results: JudgedResults, mode: Matching) -> Rankings:
    """Return the binary rankings of n groups under a mode; missing verdicts match nothing."""
    results = results.filled(relevant=False)
    pairs = pairs_where(results, results.relevant)
    starts, ideal_starts = offsets_of(results.n_retrieved), offsets_of(results.n_expected)
    hit, found_ranks = np.zeros(starts[-1], np.bool_), None
    if mode is Matching.ANY:
        hit[pairs.flat_result] = True
        found_ranks = np.zeros(ideal_starts[-1], np.int64)
        # Pairs come in rank order within a group, so the first of each expected text is the best.
        found, first = np.unique(pairs.flat_expected, return_index=True)
        found_ranks[found] = pairs.result[first] + 1
    else:
        hit[pairs.flat_result[_greedy_choice(pairs, len(hit))]] = True
        hit[pairs.flat_result[results.is_open_ended(pairs.group)]] = True
    if mode is Matching.MAXIMUM:
        # Where every result that matches something hits already, or there is but one text to match,
        # no matching has more or earlier hits. The few other groups are worth a Python loop.
        unmet = pairs.group[~hit[pairs.flat_result]]
        for group in np.unique(unmet[results.n_expected[unmet] > 1]).tolist():
            begin, end = results.offsets[group : group + 2]
            matrix = results.relevant[begin:end].reshape(-1, results.n_expected[group])
            hit[starts[group] : starts[group + 1]] = earliest_hits(matrix)
    ones = np.ones(ideal_starts[-1])
    return Rankings(starts, hit.astype(np.float64), ideal_starts, ones, found_ranks)


def _greedy_choice(pairs: Pairs, n_results: int) -> IntArray:
    """Return which of the `pairs` GREEDY_FIRST matches: int64 indices into them.

    The expected texts of all groups choose at once, the first of each, then the second.
    """
    taken = np.zeros(n_results, np.bool_)
    order = np.argsort(pairs.expected, kind="stable")
    turns = np.flatnonzero(np.diff(pairs.expected[order]))
    chosen = []
    for turn in np.split(order, turns + 1):
        checkpoint()
        free = turn[~taken[pairs.flat_result[turn]]]
        picks = free[np.diff(pairs.group[free], prepend=-1) > 0]
        taken[pairs.flat_result[picks]] = True
        chosen.append(picks)
    return np.concatenate(chosen)


def earliest_hits(matrix: BoolArray) -> BoolArray:
    """Return bool[results]: the results that a maximum matching with the earliest hits matches.

    `matrix` is bool[results, expected texts]. The sets of results that can be matched together
    form a matroid, so one assignment of the largest weight, where an earlier result weighs more,
    is maximum within the top k for every k at once.
    """
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - takes 0.3 s and 24 MB

    n_results = len(matrix)
    weights = np.where(matrix, np.arange(n_results, 0.0, -1.0)[:, None], 0.0)
    results, texts = linear_sum_assignment(weights, maximize=True)
    hit = np.zeros(n_results, np.bool_)
    hit[results] = matrix[results, texts]
    return hit


def grades_of(scores: FloatArray, max_grade: int) -> FloatArray:
    """Return the grades that scores stand for, shaped as they are: score times `max_grade`.

    Rounded to nine places, so that a third of three is one.
    """
    grades: FloatArray = np.round(scores * max_grade, 9)
    return grades


def graded(results: JudgedResults, binary: Rankings) -> Rankings:
    """Return the rankings by grades; `binary` are the same results by their matches.

    Missing verdicts count as grade 0.
    """
    best = _best_of_each(results)
    return _by_grade(results, best, best, results.n_expected - binary.found(None))


def _by_grade(
    results: JudgedResults, gains: FloatArray, known: FloatArray, unmatched: IntArray
) -> Rankings:
    """Return the rankings with these gains; there are `known` ones and unmatched texts to find.

    Where no text was expected, no text is unmatched.
    """
    n, top = len(results.n_retrieved), float(results.max_grade)
    groups, found = np.arange(n), known > 0
    unmatched = np.where(results.is_open_ended(groups), 0, unmatched)
    owner = np.repeat(groups, results.n_retrieved)[found]
    owners = np.concatenate([owner, np.repeat(groups, unmatched)])
    ideal = np.concatenate([known[found], np.full(int(unmatched.sum()), top)])
    offsets = offsets_of(results.n_retrieved)
    return Rankings(offsets, gains, *ideal_of(owners, ideal, n), top_grade=np.full(n, top))


def _best_of_each(results: JudgedResults) -> FloatArray:
    """Return float64[results]: the largest gain of each over the expected texts of its group."""
    widths = np.repeat(results.n_expected, results.n_retrieved)
    best, gains = np.zeros(len(widths)), results.filled(relevant=False).gains
    some = np.flatnonzero(widths)
    if len(some) and gains is not None:
        best[some] = np.maximum.reduceat(gains, offsets_of(widths)[some])
    return best


_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Unsettled:
    """The groups whose hits depend on missing verdicts.

    `groups` is int64, ascending. `extremes` are rankings of these groups alone, in that order; a
    metric's bounds are its smallest and its largest value over them. Those of a metric that weighs
    the judge's grades are over `graded`.
    """

    groups: IntArray
    extremes: tuple[Rankings, ...] = ()
    graded: tuple[Rankings, ...] = ()


def unsettled(results: JudgedResults, mode: Matching) -> Unsettled:
    """Return the groups in which filling in the missing verdicts could change a hit, or a grade.

    With grades that is every group that misses a verdict. Without, it is exact for MAXIMUM and ANY,
    and for GREEDY_FIRST where a group misses one verdict; every group that misses more counts.
    """
    if results.missing is None:
        return Unsettled(np.empty(0, np.int64))
    gaps = pairs_where(results, results.missing)
    greedy, by_grade = mode is Matching.GREEDY_FIRST, results.gains is not None
    groups = np.unique(gaps.group)
    worst, best = (results.take(groups).filled(relevant=yes) for yes in (False, True))
    low, high = match(worst, mode), match(best, mode)
    extremes = (low, high, match(best, Matching.MAXIMUM)) if greedy else (low, high)
    if by_grade:
        return Unsettled(groups, extremes, _grade_extremes(worst, best, low, extremes[-1]))
    changed = [low.query[low.gains != high.gains]]
    if low.found_ranks is not None:
        changed.append(low.ideal.query[low.found_ranks != high.found_ranks])
    if greedy:
        # One gap has two completions, and both were tried; more have others in between.
        sizes = np.bincount(gaps.group, minlength=len(results.n_expected))[groups]
        changed.append(np.flatnonzero(sizes > 1))
    rows = np.unique(np.concatenate(changed))
    return Unsettled(groups[rows], tuple(extreme.take(rows) for extreme in extremes))


def _grade_extremes(
    worst: JudgedResults, best: JudgedResults, low: Rankings, high: Rankings
) -> tuple[Rankings, ...]:
    """Return the rankings between whose values every outcome of missing grades lies.

    `worst` has the missing verdicts at grade 0, `best` at the top of the scale; `low` and `high`
    are these by their matches, `high` of a maximum matching. A missing grade far down can take from
    ndcg what one at the top gives: so the lowest gains meet the most that there could be to find,
    and the highest gains the least. Values may exceed 1 in the latter.
    """
    lowest, highest = _best_of_each(worst), _best_of_each(best)
    # Whatever is added, the matching has half as many pairs as a maximum one, or more.
    most = worst.n_expected - (low.found(None) + 1) // 2
    sure = _by_grade(best, highest, lowest, best.n_expected - high.found(None))
    nothing = np.flatnonzero(sure.n_relevant == 0)
    if len(nothing):  # then a single document decides: at its rank the value can be 1
        offsets = offsets_of(np.maximum(sure.n_relevant, 1))
        ideal = np.insert(sure.ideal_gains, sure.ideal_offsets[nothing], _TINY)
        sure = replace(sure, ideal_offsets=offsets, ideal_gains=ideal)
    return _by_grade(worst, lowest, highest, most), sure
