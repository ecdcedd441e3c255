from __future__ import annotations

import numpy as np
import pytest
from judged.values.intervals import IntervalOptions
from judged_server.statistics.quality import LabelledScores, _wins, judge_quality

FEW = IntervalOptions(resamples=100)


def quality(scores, labels, min_score=0.5, clusters=None, options=FEW):
    items = LabelledScores(
        np.array(scores, float),
        np.array(labels, bool),
        None if clusters is None else np.array(clusters),
    )
    return judge_quality(items, min_score, options)


def test_the_confusion_counts_verdicts_at_the_threshold():
    found = quality([0.9, 0.5, 0.5 - 1e-10, 0.2, 0.7], [1, 0, 1, 1, 1])
    assert (found.true_positives, found.false_positives) == (3, 1)
    assert (found.true_negatives, found.false_negatives) == (0, 1)
    assert found.n == 5
    assert found.precision.value == 0.75


def test_labels_of_one_kind_leave_what_needs_both_undefined():
    found = quality([0.9, 0.1], [1, 1])
    assert found.balanced_accuracy is None
    assert found.auc is None
    assert found.recall.value == 0.5
    assert any("no label is irrelevant" in warning for warning in found.warnings)


@pytest.mark.parametrize("decimals", [0, 2, 15])
def test_wins_are_those_of_all_pairs(decimals):
    rng = np.random.default_rng(2)
    items = LabelledScores(np.round(rng.random(200), decimals), rng.random(200) < 0.5)
    unit_of = rng.integers(0, 7, 200)
    expected = np.zeros((7, 7))
    for i in np.flatnonzero(items.labels):
        for j in np.flatnonzero(~items.labels):
            won = np.sign(items.scores[i] - items.scores[j])
            expected[unit_of[i], unit_of[j]] += (won + 1) / 2
    assert np.array_equal(_wins(items, unit_of, 7), expected)
