"""Gains from a judge's grades: rankings for the metrics that weigh them, ndcg first of all.

The judge stands for the assessors of a pool. What was retrieved are the documents that it graded,
each with the best grade over the expected texts, and an expected text that no result matches is a
document with the highest grade that was not retrieved. So the rankings are those that trec_eval
would make of qrels with these grades; results are not paired with expected texts, and two results
that say the same both keep their grades.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from judged_server.domain import FloatArray, IntArray
from judged_server.metrics.input.rankings import Rankings, descending, offsets_of
from judged_server.metrics.matching import JudgedResults, pairs_where


def grades_of(scores: FloatArray, max_grade: int) -> FloatArray:
    """Return the grades that scores stand for, shaped as they are: score times `max_grade`.

    Rounded to nine places, so that a third of three is one.
    """
    grades: FloatArray = np.round(scores * max_grade, 9)
    return grades


def graded(results: JudgedResults, binary: Rankings) -> Rankings:
    """Return the rankings by grades; `binary` are the same results by their matches.

    Missing verdicts count as grade 0. Raises ValueError where the results have no grades.
    """
    best = _best_of_each(results)
    unmatched = _to_find(results, results.n_expected - binary.found(None))
    return _rankings(results, best, best, unmatched)


def extremes(
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
    most = _to_find(worst, worst.n_expected - (low.found(None) + 1) // 2)
    least = _to_find(best, best.n_expected - high.found(None))
    sure = _rankings(best, highest, lowest, least)
    nothing = np.flatnonzero(sure.n_relevant == 0)
    if len(nothing):  # then a single document decides: at its rank the value can be 1
        offsets = offsets_of(np.maximum(sure.n_relevant, 1))
        ideal = np.insert(sure.ideal_gains, sure.ideal_offsets[nothing], _TINY)
        sure = replace(sure, ideal_offsets=offsets, ideal_gains=ideal)
    return _rankings(worst, lowest, highest, most), sure


_TINY = 1e-9


def _to_find(results: JudgedResults, unmatched: IntArray) -> IntArray:
    """Return how many expected texts no result matches; none where no text was expected."""
    return unmatched if results.open_ended is None else np.where(results.open_ended, 0, unmatched)


def _rankings(
    results: JudgedResults, gains: FloatArray, known: FloatArray, unmatched: IntArray
) -> Rankings:
    """Return the rankings with these gains; there are `known` ones and unmatched texts to find."""
    n, top = len(results.n_retrieved), float(results.max_grade)
    found = known > 0
    owner = np.repeat(np.arange(n), results.n_retrieved)[found]
    owners = np.concatenate([owner, np.repeat(np.arange(n), unmatched)])
    ideal = np.concatenate([known[found], np.full(int(unmatched.sum()), top)])
    offsets = offsets_of(np.bincount(owners, minlength=n))
    together = ideal[np.argsort(owners, kind="stable")]
    return Rankings(
        offsets_of(results.n_retrieved),
        gains,
        offsets,
        descending(offsets, together),
        top_grade=np.full(n, top),
    )


def open_groups(results: JudgedResults) -> IntArray:
    """Return the groups, ascending, that a missing verdict leaves without a grade: int64."""
    if results.missing is None:
        return np.empty(0, np.int64)
    return np.unique(pairs_where(results, results.missing).group)


def _best_of_each(results: JudgedResults) -> FloatArray:
    """Return float64[results]: the largest gain of each over the expected texts of its group."""
    if results.gains is None:
        raise ValueError("the judge gives no grades")
    widths = np.repeat(results.n_expected, results.n_retrieved)
    best = np.zeros(len(widths))
    some = np.flatnonzero(widths)
    if len(some):
        gains = results.gains
        known = gains if results.missing is None else np.where(results.missing, 0.0, gains)
        best[some] = np.maximum.reduceat(known, offsets_of(widths)[some])
    return best
