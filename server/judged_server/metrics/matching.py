"""Builds rankings from verdicts: hits, grades as gains, and the effect of missing verdicts.

    GREEDY_FIRST  by rank, a result takes the first expected text it matches that is still free.
    MAXIMUM       a maximum bipartite matching, and among those the one whose hits come earliest.
    ANY           no pairing: a result hits if it matches anything, an expected text is found if
                  anything matches it.

GREEDY_FIRST is computed for all groups at once. It is a stable matching: every result prefers the
lower expected index, every expected text the better rank, and since these orders are common to all,
there is exactly one stable matching. So results may choose in rank order or expected texts in index
order, with the same outcome. Here the expected texts choose, since they are few.

If a judge gives grades, graded metrics such as ndcg take these as gains. The judge acts as the
assessors of a pool. The results are the documents that it graded, each with the best grade over the
expected texts, and an expected text that no result matches is a document with the highest grade
that was not retrieved. The rankings are therefore those that trec_eval makes from qrels with these
grades: results are not paired with expected texts, and two results with the same content both keep
their grades.

Missing verdicts leave groups open. MAXIMUM and ANY are monotone: one more match never loses a hit
within any top k. So the values with all missing verdicts set to "no match" and all set to "match"
bound every completion, for every metric that does not fall if hits are added or move up. All
metrics that are defined for verdicts are of this kind.

GREEDY_FIRST is not monotone: a new match can make a result take the only expected text that a later
result needs. Its upper extreme holds all the same: no matching has more hits in any top k than the
maximum one with all missing verdicts set to "match". Its lower extreme is the smaller of the two
greedy evaluations; rarely, a completion in between is lower.
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
    missing     bool, shaped as `relevant`: verdicts that do not exist; `relevant` is undefined
                there. None if no verdict is missing.
    duplicates  the number of repeated results dropped before judging.
    gains       float64, shaped as `relevant`: the judge's grades, in [0, max_grade]; undefined
                where a verdict is missing. None for a judge without grades.
    max_grade   the highest grade of the judge, 0 for a judge without grades.
    judged_ids  the groups that are matched by document id; `n_expected` and verdicts exclude them.
                None if there are no such groups.
    open_ended  bool[n]: groups in which each result was judged by itself, with one column of
                verdicts: all relevant results are hits, and the number of relevant items is
                unknown. None if there are no such groups.
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
        """Return a mask of the given groups whose results were judged by themselves."""
        no_groups = np.zeros(len(groups), np.bool_)
        return no_groups if self.open_ended is None else self.open_ended[groups]

    def filled(self, relevant: bool) -> JudgedResults:
        """Return a copy with missing verdicts set to `relevant`, and their grades accordingly."""
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
        # If every result that matches something is a hit already, or if there is only one expected
        # text, no matching has more or earlier hits. The other groups are few: a loop will do.
        unmet = pairs.group[~hit[pairs.flat_result]]
        for group in np.unique(unmet[results.n_expected[unmet] > 1]).tolist():
            begin, end = results.offsets[group : group + 2]
            matrix = results.relevant[begin:end].reshape(-1, results.n_expected[group])
            hit[starts[group] : starts[group + 1]] = earliest_hits(matrix)
    ones = np.ones(ideal_starts[-1])
    return Rankings(starts, hit.astype(np.float64), ideal_starts, ones, found_ranks)


def _greedy_choice(pairs: Pairs, n_results: int) -> IntArray:
    """Return int64 indices of the `pairs` that GREEDY_FIRST matches.

    The expected texts of all groups choose at once: the first of each group, then the second.
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
    """Return bool[results]: the results in a maximum matching with the earliest hits.

    `matrix` is bool[results, expected texts]. Results are added in rank order by augmenting paths;
    a matched result stays matched. The sets of results that can be matched together form a matroid,
    so the outcome is maximum within the top k for every k at once. It takes at most results *
    expected steps on bit sets. SciPy's linear_sum_assignment has no such bound: 3,000 results of
    300 texts took it 1.7 s, where this takes 0.01 s.
    """
    packed = np.packbits(matrix, axis=1, bitorder="little")
    rows = [int.from_bytes(row.tobytes(), "little") for row in packed]
    holder = [-1] * matrix.shape[1]  # the result of each expected text
    free = reachable = (1 << matrix.shape[1]) - 1
    for start in range(len(rows)):
        path, texts, untried = [start], list[int](), reachable
        while path:
            wanted = rows[path[-1]] & untried
            wanted = wanted & free or wanted
            if not wanted:
                path.pop()
                del texts[-1:]
                continue
            lowest = wanted & -wanted
            untried &= ~lowest
            texts.append(lowest.bit_length() - 1)
            if free & lowest:
                free &= ~lowest
                for result, text in zip(path, texts, strict=True):
                    holder[text] = result
                break
            path.append(holder[texts[-1]])
        else:
            reachable = untried  # no path leads from these texts to a free one, now or later
    return np.isin(np.arange(len(rows)), holder)


def grades_of(scores: FloatArray, max_grade: int) -> FloatArray:
    """Return the grades of scores, in the same shape: score times `max_grade`.

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
    """Return the rankings with these gains; items to find are the `known` gains above 0.

    Each unmatched text is an item of the top grade as well, except in open-ended groups.
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

    `groups` is int64, ascending. `extremes` are rankings of these groups only, in that order; a
    metric's bounds are its smallest and its largest value over them. For graded metrics, `graded`
    is used instead.
    """

    groups: IntArray
    extremes: tuple[Rankings, ...] = ()
    graded: tuple[Rankings, ...] = ()


def unsettled(results: JudgedResults, mode: Matching) -> Unsettled:
    """Return the groups in which the missing verdicts could change a hit, or a grade.

    With grades these are all groups that miss a verdict. Without grades the answer is exact for
    MAXIMUM and ANY, and for GREEDY_FIRST in groups that miss one verdict; for GREEDY_FIRST every
    group that misses more is included.
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
        # One gap has two completions, both evaluated above; several gaps have more than two.
        sizes = np.bincount(gaps.group, minlength=len(results.n_expected))[groups]
        changed.append(np.flatnonzero(sizes > 1))
    rows = np.unique(np.concatenate(changed))
    return Unsettled(groups[rows], tuple(extreme.take(rows) for extreme in extremes))


def _grade_extremes(
    worst: JudgedResults, best: JudgedResults, low: Rankings, high: Rankings
) -> tuple[Rankings, ...]:
    """Return rankings whose values bound every outcome of missing grades.

    `worst` has the missing verdicts at grade 0, `best` at the top of the scale; `low` and `high`
    are their matches, `high` by a maximum matching. A high grade at a low rank can reduce ndcg, so
    the lowest gains are combined with the most items to find, and the highest gains with the
    fewest. The latter values may exceed 1.
    """
    lowest, highest = _best_of_each(worst), _best_of_each(best)
    # In every completion, a greedy matching has at least half as many pairs as a maximum one.
    most = worst.n_expected - (low.found(None) + 1) // 2
    sure = _by_grade(best, highest, lowest, best.n_expected - high.found(None))
    without_gain = np.flatnonzero(sure.n_relevant == 0)
    if len(without_gain):  # a single document can make the value 1, at its rank
        offsets = offsets_of(np.maximum(sure.n_relevant, 1))
        ideal = np.insert(sure.ideal_gains, sure.ideal_offsets[without_gain], _TINY)
        sure = replace(sure, ideal_offsets=offsets, ideal_gains=ideal)
    return _by_grade(worst, lowest, highest, most), sure
