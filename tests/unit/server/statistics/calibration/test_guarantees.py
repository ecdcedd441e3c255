"""What labels of clusters count as, and that the bounds keep what they promise of new items."""

from __future__ import annotations

import numpy as np
import pytest
from judged_server.statistics.calibration.cascade import cascade_bounds
from judged_server.statistics.quality import LabelledScores

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


def test_what_nothing_vouches_for_is_offered_under_its_name() -> None:
    rng = np.random.default_rng(5)
    items = drawn(rng, 6, 0.5)
    found, warnings = cascade_bounds(items, items.scores, ERROR, CONFIDENCE)
    assert (found.accept, found.reject) == (None, None)
    assert found.uncertified_accept is not None
    settled = items.scores >= found.uncertified_accept
    assert np.mean(~items.labels[settled]) <= ERROR
    assert any("clusters more would do" in warning for warning in warnings)


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
