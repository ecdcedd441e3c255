"""What the model is told of an item: numbers drawn from the query, all alternatives and the answer.

Features of alternatives are taken together in ways that do not hang on their order: the largest,
the mean, or those of the alternative that fits best. No feature hangs on the other items of a
batch, to the last bit.
"""

from __future__ import annotations

import numpy as np

from judged_server.domain import BoolArray, FloatArray
from judged_server.judges.equivalence.alternatives import Alternatives
from judged_server.judges.equivalence.answers import Answers, surface
from judged_server.judges.equivalence.rows import Items, find
from judged_server.judges.equivalence.words import Reading

VERSION = 1
"""Enters the signature; a model is for the features of one version."""

_STEPS = 4096.0
_MOST = (
    *("equal", "contained", "reverse_contained", "compact_contained", "acronym", "recall"),
    *("fresh_recall", "letter_recall", "soft_recall", "best_alike", "precision", "harmonic"),
    *("last_hit", "first_hit"),
)
_BEST = (
    *("recall", "fresh_recall", "soft_recall", "precision", "last_hit", "words", "fresh", "missed"),
    *("capital_missed", "begins", "begins_share", "spread", "distance", "num", "num_missing"),
    *("year", "month", "negations", "num_conflict", "year_conflict", "month_conflict", "contained"),
)
_LEAST = ("num_conflict", "distance", "begins")
_MEAN = ("recall", "contained", "words")


def features(reading: Reading, items: Items) -> dict[str, FloatArray]:
    """Return the features of every item by name, always in the same order: float64[n] each."""
    answers = Answers(reading, items)
    alternatives = Alternatives(reading, items, answers)
    columns, best = alternatives.columns, alternatives.best
    first = np.searchsorted(items.pair_item, np.arange(len(items)))
    n_pairs = np.diff(np.append(first, len(items.pair_item))).astype(np.float64)
    result = {f"most_{name}": np.maximum.reduceat(columns[name], first) for name in _MOST}
    result |= {f"best_{name}": columns[name][best] for name in _BEST}
    result |= {f"least_{name}": np.minimum.reduceat(columns[name], first) for name in _LEAST}
    for name in _MEAN:
        # Whole numbers, whose sums are exact in any order.
        steps = np.round(columns[name] * _STEPS)
        sums = np.bincount(items.pair_item, weights=steps, minlength=len(items))
        result[f"mean_{name}"] = sums / _STEPS / n_pairs
    result["n_alternatives"] = np.minimum(n_pairs, 30)
    unmatched = answers.n_novel - alternatives.n_fresh_hit[best]
    result["n_unmatched"] = np.minimum(unmatched, 30)
    result["n_unmatched_short"] = np.minimum(unmatched, 6)
    return {
        **result,
        **answers.features(),
        **_around_best(reading, answers, alternatives, len(items)),
        **surface(reading, items),
    }


def _around_best(
    reading: Reading, answers: Answers, alternatives: Alternatives, n: int
) -> dict[str, FloatArray]:
    """Return where the words of the best alternative stand in the answer, and what beside them.

    "Luke Skywalker" has half of "Anakin Skywalker", with another name where the other half was.
    """
    best = alternatives.best
    is_best = np.zeros(len(alternatives.n_words), np.bool_)
    is_best[best] = True
    chosen = is_best[alternatives.words.row] & alternatives.content
    words = answers.words
    wanted = np.sort(alternatives.keys[chosen])
    matched = find(words.row * answers.n_stems + words.stem, wanted)[0]
    other = answers.novel & ~matched
    together = words.row[1:] == words.row[:-1]
    beside = np.zeros(len(words.row), np.bool_)
    beside[1:] |= together & matched[:-1] & other[1:]
    beside[:-1] |= together & matched[1:] & other[:-1]
    n_beside = np.minimum(answers.count(beside), 6)
    n_capital = np.minimum(answers.count(beside & reading.capital[words.word]), 6)
    longest = _longest_runs(matched, words.row, together, n)
    n_other = answers.count(~answers.in_query & ~matched & answers.is_number)
    columns = alternatives.columns
    partial = columns["missed"][best] > 0
    missed = columns["num_missed"][best]
    dated = columns["month_hit"][best] > 0
    return {
        "beside": n_beside,
        "beside_capital": n_capital,
        "beside_partial": np.where(partial, n_beside, 0.0),
        "beside_capital_partial": np.where(partial, n_capital, 0.0),
        "longest_run": np.minimum(longest, 8),
        "run_share": np.minimum(longest / np.maximum(alternatives.n_words[best], 1), 1),
        "num_replaced": np.minimum(np.minimum(missed, n_other), 3),
        "date_replaced": (dated & (missed > 0) & (n_other > 0)).astype(np.float64),
        "n_num_other": np.minimum(n_other, 6),
    }


def _longest_runs(matched: BoolArray, row: np.ndarray, together: BoolArray, n: int) -> FloatArray:
    """Return, by item, how many of the matched words stand in one row at most."""
    begins = matched.copy()
    begins[1:] &= ~(together & matched[:-1])
    run = np.cumsum(begins)
    lengths = np.bincount(run[matched], minlength=1).astype(np.float64)
    longest = np.zeros(n)
    np.maximum.at(longest, row[matched], lengths[run[matched]])
    return longest
