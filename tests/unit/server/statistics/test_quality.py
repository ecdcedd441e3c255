"""How well scores follow labels, and thresholds chosen on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.calibration import ThresholdCriterion as Criterion
from judged.values.choices import IntervalOptions
from judged_server.domain import TIE_TOLERANCE
from judged_server.statistics.quality import (
    LabelledScores,
    balanced_accuracy,
    best_threshold,
    choose_thresholds,
    cohen_kappa,
    confusion_columns,
    judge_quality,
    precision,
    recall,
)

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


def items(scores, labels, clusters=None):
    return LabelledScores(np.array(scores, float), np.array(labels, bool), clusters)


def test_the_bar_is_the_middle_between_the_two_scores_it_parts():
    separable = items([0.1, 0.2, 0.6, 0.9], [0, 0, 1, 1])
    for criterion in Criterion:
        assert best_threshold(separable, criterion, 0.9) == pytest.approx(0.4)


def test_of_equally_good_plateaus_the_widest_is_taken_and_its_middle():
    # Thresholds in (.2, .3] and in (.4, .8] misjudge one of six items each.
    wide = items([0.1, 0.2, 0.3, 0.4, 0.8, 0.9], [0, 0, 1, 0, 1, 1])
    assert best_threshold(wide, Criterion.BALANCED_ACCURACY, 0.9) == pytest.approx(0.6)


@pytest.mark.parametrize(("gap", "above"), [(2.5, True), (1.5, False)])
def test_a_bar_above_the_highest_score_needs_room_below_one(gap, above):
    highest = 1 - gap * TIE_TOLERANCE
    # Calling all relevant is as good as calling nothing relevant; the latter's thresholds are more.
    threshold = best_threshold(items([0.0, highest], [1, 0]), Criterion.BALANCED_ACCURACY, 0.9)
    assert (threshold > highest) == above


def value_at(found, threshold, criterion, floor):
    counts = np.array(
        [[c.sum() for c in confusion_columns(found.relevant(threshold), found.labels)]]
    )
    if criterion is Criterion.BALANCED_ACCURACY:
        return balanced_accuracy(counts)[0]
    if criterion is Criterion.KAPPA:
        return cohen_kappa(counts)[0]
    return recall(counts)[0] if precision(counts)[0] >= floor - 1e-12 else np.nan


PAIRS = st.lists(
    st.tuples(st.sampled_from([i / 8 for i in range(9)]), st.booleans()), min_size=1, max_size=25
)


@given(PAIRS, st.sampled_from(Criterion), st.sampled_from([0.5, 0.75, 1.0]))
def test_no_bar_is_better_than_the_best(pairs, criterion, floor):
    scores, labels = zip(*pairs, strict=True)
    found = items(scores, labels)
    threshold = best_threshold(found, criterion, floor)
    tried = [value_at(found, b, criterion, floor) for b in np.linspace(0, 1, 33)]
    if threshold is None:
        assert np.isnan(tried).all()
    else:
        assert value_at(found, threshold, criterion, floor) == pytest.approx(np.nanmax(tried))


def test_values_of_random_scores_are_flattered_by_fitting_and_not_by_cross_validation():
    rng = np.random.default_rng(1)
    random = items(rng.random(60), rng.random(60) < 0.5)
    thresholds, _ = choose_thresholds(random, 0.9, 5, FEW)
    balanced = thresholds[0]
    assert balanced.fitted > 0.55
    assert balanced.cross_validated.value < balanced.fitted
    assert balanced.cross_validated.interval.lower < 0.5 < balanced.cross_validated.interval.upper


def test_folds_keep_clusters_whole():
    # Each cluster has one score of its own; with items of a cluster in two folds its label leaks.
    rng = np.random.default_rng(4)
    scores, labels = np.repeat(rng.random(80), 5), np.repeat(rng.random(80) < 0.5, 5)
    clusters = np.repeat(np.arange(80), 5)
    thresholds, _ = choose_thresholds(items(scores, labels, clusters), 0.9, 5, FEW)
    assert thresholds[0].cross_validated.interval.signature.endswith("over:clusters")
