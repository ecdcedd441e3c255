"""Bounds of a cascade: what labels vouch for, alone and in clusters."""

from __future__ import annotations

import numpy as np
import pytest
from judged_server.statistics.calibration.cascade import cascade_bounds
from judged_server.statistics.quality import LabelledScores


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


def test_a_score_is_not_both_accepted_and_rejected():
    found = bounds([0.5] * 200, [0, 1] * 100, max_error=0.65)
    assert (found.accept, found.reject, found.escalated) == (None, 0.5, 0.0)


ERROR, CONFIDENCE = 0.1, 0.9


def drawn(
    rng: np.random.Generator, n_clusters: int, shared: float, size: int = 5
) -> LabelledScores:
    """Return items whose errors are shared within a cluster with a probability.

    An item with score s is relevant with probability s: its draw, or its cluster's, says so.
    """
    scores = rng.beta(0.5, 0.5, n_clusters * size)
    cluster = np.repeat(np.arange(n_clusters), size)
    luck = np.where(
        np.repeat(rng.random(n_clusters) < shared, size),
        np.repeat(rng.random(n_clusters), size),
        rng.random(n_clusters * size),
    )
    return LabelledScores(scores, luck < scores, cluster)


def counted(items: LabelledScores) -> float:
    return cascade_bounds(items, items.scores, ERROR, CONFIDENCE)[0].labels_counted


def test_labels_count_for_less_the_more_their_errors_go_together() -> None:
    rng = np.random.default_rng(2)
    loose, tied = drawn(rng, 200, 0.0), drawn(rng, 200, 1.0)
    assert 600 < counted(loose) <= 1000
    assert 200 <= counted(tied) < 450
    found, _ = cascade_bounds(tied, tied.scores, ERROR, CONFIDENCE)
    assert found.design_effect == pytest.approx(1000 / found.labels_counted)


@pytest.mark.parametrize("n_errors", [0, 4])
def test_without_errors_enough_to_tell_a_cluster_counts_as_one_label(n_errors: int) -> None:
    labels = np.arange(100) >= n_errors
    sure = LabelledScores(np.full(100, 0.99), labels, np.arange(100) // 5)
    assert counted(sure) == pytest.approx(20)


def test_the_promise_is_kept_over_clusters() -> None:
    """Of an item with score s, "relevant" is wrong with probability 1 - s: the truth is known."""
    rng = np.random.default_rng(6)
    population = drawn(rng, 4000, 0.6)
    broken, draws = 0, 150
    for _ in range(draws):
        items = drawn(rng, 40, 0.6)
        found, _ = cascade_bounds(items, items.scores[:5], ERROR, CONFIDENCE)
        if found.accept is not None:
            settled = population.scores >= found.accept
            broken += float(np.mean(1 - population.scores[settled])) > ERROR
    # Three standard errors of the share of draws beside what was promised.
    most = draws * (1 - CONFIDENCE) + 3 * np.sqrt(draws * CONFIDENCE * (1 - CONFIDENCE))
    assert broken <= most
