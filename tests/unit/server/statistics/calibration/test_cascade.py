from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.statistics.calibration.cascade import (
    _added_squares,
    _apart,
    cascade_bounds,
    walks_begin,
)
from judged_server.statistics.quality import LabelledScores

GRID = [0.0, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0]


def bounds(*given, **options):
    return bounds_and_warnings(*given, **options)[0]


def warnings_of(*given, **options):
    return bounds_and_warnings(*given, **options)[1]


def bounds_and_warnings(
    scores, labels, max_error=0.05, confidence=0.95, clusters=None, everything=None
):
    scores = np.array(scores, float)
    items = LabelledScores(scores, np.array(labels, bool), clusters)
    return cascade_bounds(
        items, scores if everything is None else everything, max_error, confidence
    )


def halves(n):
    """Return n irrelevant items below .5 and n relevant ones above, without an error."""
    scores = np.concatenate([np.linspace(0, 0.4, n), np.linspace(0.6, 1, n)])
    return scores, np.arange(2 * n) >= n


def test_58_labels_without_an_error_are_too_few_and_59_are_enough():
    assert bounds(*halves(58)).accept is None  # the walk begins at 59 labels, one of them wrong
    assert bounds(*halves(59)).accept == pytest.approx(0.6)
    few = bounds(np.linspace(0, 1, 58), np.ones(58))
    assert (few.accept, few.reject, few.escalated) == (None, None, 1.0)
    assert "at least 59" in warnings_of(np.linspace(0, 1, 58), np.ones(58))[0]
    assert bounds(np.linspace(0, 1, 59), np.ones(59)).accept == 0.0


def test_a_judge_that_never_errs_hands_nothing_on():
    found = bounds(*halves(500))
    assert found.escalated == 0.0
    assert found.reject < found.accept
    assert warnings_of(*halves(500)) == ()
    assert found.reject > 0.35
    assert found.accept < 0.65


def test_what_lies_between_is_handed_on_and_counted_over_all_scores():
    rng = np.random.default_rng(0)
    scores = rng.random(4_000)
    labels = rng.random(4_000) < np.clip(2 * scores - 0.5, 0, 1)
    everything = np.array([0.0, 0.5, 0.5, 1.0])
    found = bounds(scores, labels, everything=everything)
    assert found.reject < 0.5 < found.accept
    assert found.escalated == 0.5


def test_a_judge_turned_round_is_safe_nowhere():
    scores, labels = halves(500)
    found = bounds(scores, ~labels)
    assert (found.accept, found.reject, found.escalated) == (None, None, 1.0)


def test_reject_mirrors_accept():
    rng = np.random.default_rng(1)
    scores = rng.random(2_000)
    labels = rng.random(2_000) < 0.3 + 0.7 * scores
    found = bounds(scores, labels, 0.1)
    turned = bounds(1 - scores, ~labels, 0.1)
    assert found.accept == pytest.approx(1 - turned.reject)
    assert found.escalated == turned.escalated


def test_copies_of_an_item_in_a_cluster_do_not_count_twice():
    scores, labels = np.linspace(0.5, 1, 40), np.ones(40)
    clusters = np.repeat(np.arange(40), 5)
    assert bounds(np.repeat(scores, 5), np.repeat(labels, 5)).accept is not None
    assert bounds(np.repeat(scores, 5), np.repeat(labels, 5), clusters=clusters).accept is None


def test_a_cluster_counts_once_whatever_its_size():
    scores, clusters = np.repeat(np.linspace(0.5, 1, 59), 5), np.repeat(np.arange(59), 5)
    assert bounds(scores, np.ones(5 * 59), clusters=clusters).accept == 0.5


def test_walks_are_as_many_as_there_are_labels_for():
    # At a risk of .05 / 4 and an error of .05 a walk takes 86 labels, the fourth 8 times as many.
    for n_labels, n_walks in ((58, 0), (59, 1), (600, 3), (8 * 86 - 1, 3), (8 * 86, 4)):
        begins, risk = walks_begin(np.arange(1.0, n_labels + 1), 0.05, 0.05)
        assert len(begins) == n_walks
        assert risk == 0.05 / max(n_walks, 1)


def test_added_squares_sum_to_the_squared_sizes():
    assert np.cumsum(_added_squares(np.array([3, 1, 3, 3, 1]))).tolist() == [1, 2, 5, 10, 13]


def test_one_bad_label_at_the_top_does_not_end_it_all():
    scores, labels = np.linspace(0, 1, 2_000), np.ones(2_000, bool)
    labels[-1] = False
    assert bounds(scores, labels).accept == 0.0


def test_of_many_scores_the_highest_and_the_lowest_are_tried(monkeypatch):
    monkeypatch.setattr("judged_server.statistics.calibration.cascade.MAX_STEPS", 2)
    scores = np.append(np.full(60, 0.9), np.linspace(0.8, 0.1, 40))
    assert bounds(scores, np.arange(100) < 60).accept == 0.9


@given(
    st.lists(st.tuples(st.sampled_from(GRID), st.booleans()), min_size=1, max_size=30),
    st.sets(st.sampled_from(GRID), min_size=1),
    st.sets(st.sampled_from(GRID), min_size=1),
)
def test_bounds_that_would_cross_leave_the_fewest_labels_wrong_or_between(pairs, accepts, rejects):
    scores, labels = (np.array(column) for column in zip(*pairs, strict=True))
    found = _apart(
        LabelledScores(scores, labels, None),
        np.array(sorted(accepts, reverse=True)),
        np.array(sorted(rejects)),
    )

    def settled(accept, reject):
        return np.count_nonzero(labels & (scores >= accept) | ~labels & (scores <= reject))

    beside = {a: max((r for r in rejects if r < a), default=None) for a in accepts}
    if max(rejects) < min(accepts):
        assert found == (min(accepts), max(rejects))
    elif all(reject is None for reject in beside.values()):
        assert found == (min(accepts), None)
    else:
        pairs = [(a, r) for a, r in beside.items() if r is not None]
        assert found == max(pairs, key=lambda pair: (settled(*pair), pair))


def test_a_score_is_not_both_accepted_and_rejected():
    found = bounds([0.5] * 200, [0, 1] * 100, max_error=0.65)
    assert (found.accept, found.reject, found.escalated) == (0.5, None, 0.0)


@pytest.mark.parametrize("max_error", [5e-324, 1e-300, 1e-17])
def test_an_error_that_no_number_of_labels_can_bound_is_no_fault(max_error):
    found = bounds([0.1, 0.9] * 50, [0, 1] * 50, max_error=max_error)
    assert (found.accept, found.reject) == (None, None)


@pytest.mark.parametrize("confidence", [5e-324, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("max_error", [5e-324, 2.3e-308, 1e-17, 0.5, 1 - 2**-53])
def test_extreme_errors_and_confidences_give_bounds_or_a_warning(max_error, confidence):
    scores, labels = halves(50)
    found, warnings = bounds_and_warnings(scores, labels, max_error, confidence)
    assert 0 <= found.escalated <= 1
    assert all(len(warning) < 200 for warning in warnings)


def test_labels_of_clusters_say_what_they_count_as():
    labels = [0, 1] * 30
    clusters = np.repeat(np.arange(6), 10)
    found = warnings_of([0.1, 0.9] * 30, labels, clusters=clusters)
    assert any("60 labels of 6 clusters count as 6.0" in one for one in found)
    assert not any("clusters" in one for one in warnings_of([0.1, 0.9] * 20, [0, 1] * 20))
