from __future__ import annotations

import math

import numpy as np
import pytest
from judged.values.choices import IntervalOptions
from judged_server.statistics.calibration.reliability import (
    MIN_LABELS,
    Platt,
    fit,
    reliability,
)
from judged_server.statistics.quality import LabelledScores, cluster_folds
from sklearn.linear_model import LogisticRegression

OPTIONS = IntervalOptions(resamples=200)


def drawn(n: int, slope: float, intercept: float, per_cluster: int = 4) -> LabelledScores:
    """Return items whose labels follow a calibration exactly."""
    rng = np.random.default_rng(n)
    scores = rng.uniform(0.02, 0.98, n)
    labels = rng.uniform(size=n) < Platt(slope, intercept).probabilities(scores)
    return LabelledScores(scores, labels, np.arange(n) // per_cluster)


def test_a_fit_is_that_of_scikit_learn_on_platts_targets() -> None:
    items = drawn(300, 1.4, 0.3)
    n_yes = int(items.labels.sum())
    n_no = len(items.labels) - n_yes
    target = np.where(items.labels, (n_yes + 1) / (n_yes + 2), 1 / (n_no + 2))
    x = np.log(items.scores / (1 - items.scores))[:, None]
    oracle = LogisticRegression(C=1e12, tol=1e-10, max_iter=1000).fit(
        np.concatenate([x, x]), [1] * 300 + [0] * 300, np.concatenate([target, 1 - target])
    )
    found = fit(items.scores, items.labels)
    assert found.slope == pytest.approx(oracle.coef_[0, 0], abs=1e-4)
    assert found.intercept == pytest.approx(oracle.intercept_[0], abs=1e-4)


class TestTowardsTheShippedCalibration:
    """Labels that do not contradict it leave the fit near, those that do are followed."""

    def test_the_fit_is_the_most_likely_one_under_the_priors(self) -> None:
        items, shipped = drawn(300, 1.0, 0.1), Platt(1.1, 0.2)
        found = fit(items.scores, items.labels, shipped)
        x = np.log(items.scores / (1 - items.scores))

        def loss(slope: float, intercept: float) -> float:
            a = slope / shipped.slope
            b = intercept - a * shipped.intercept
            z = slope * x + intercept
            fits = np.sum(np.logaddexp(0, z) - items.labels * z)
            return float(fits + (a - 1) ** 2 / (2 * 0.3**2) + b**2 / (2 * 0.15**2))

        best = loss(found.slope, found.intercept)
        for da, db in ((0.02, 0), (-0.02, 0), (0, 0.02), (0, -0.02)):
            assert loss(found.slope + da, found.intercept + db) > best

    def test_labels_that_contradict_it_are_followed(self) -> None:
        items = drawn(400, 0.8, 2.0)
        found, plain = fit(items.scores, items.labels, Platt()), fit(items.scores, items.labels)
        assert found.intercept == pytest.approx(plain.intercept, abs=0.25)
        assert found.intercept > 1.5


@pytest.mark.parametrize("labels", ["all", "none", "reversed", "one score"])
def test_there_is_no_fit_where_scores_do_not_rise_with_labels(labels: str) -> None:
    items = drawn(400, 1.0, 0.0)
    given = {
        "all": np.ones(400, np.bool_),
        "none": np.zeros(400, np.bool_),
        "reversed": items.scores < 0.5,
        "one score": items.labels,
    }[labels]
    scores = np.full(400, 0.5) if labels == "one score" else items.scores
    assert fit(scores, given) is None


def test_separable_labels_have_a_finite_fit() -> None:
    scores = np.repeat([0.0, 0.01, 0.99, 1.0], 60)
    found = fit(scores, scores > 0.5)
    probabilities = found.probabilities(np.array([0.0, 0.5, 1.0]))
    assert probabilities[0] < 0.05 < probabilities[1] < 0.95 < probabilities[2] < 1


def test_a_calibration_mends_scores_that_say_too_much() -> None:
    found = reliability(drawn(800, 0.4, 0.0), None, 5, OPTIONS)
    assert found.fitted
    assert found.warnings == ()
    assert (found.n_labels, found.n_clusters) == (800, 200)
    raw = reliability(drawn(MIN_LABELS - 1, 0.4, 0.0), None, 5, OPTIONS)
    assert found.calibration_error.value < 0.06 < raw.calibration_error.value
    assert 0.1 < found.brier.value < 0.26
    assert sum(each.n for each in found.bins) == 800
    for each in found.bins:
        assert each.lower <= each.relevant <= each.upper


class TestFewLabels:
    """They move the judge's own threshold as far as they clearly say so."""

    def test_those_that_agree_leave_it(self) -> None:
        for n in range(40, 60):
            items = drawn(n, 4.0, 4.0 * math.log(3 / 7), per_cluster=1)  # half at 0.7
            found = reliability(items, None, 5, OPTIONS, min_score=0.7)
            assert found.fitted
            assert Platt.of(found.calibrator).threshold == pytest.approx(0.7, abs=0.1)

    def test_those_that_contradict_it_are_followed(self) -> None:
        for n in range(50, 70):
            items = drawn(n, 4.0, 4.0 * math.log(7 / 3), per_cluster=1)  # half at 0.3
            found = reliability(items, None, 5, OPTIONS, min_score=0.9)
            assert found.fitted
            assert Platt.of(found.calibrator).threshold == pytest.approx(0.3, abs=0.2)
            assert found.accuracy.value > np.mean((items.scores >= 0.9) == items.labels) + 0.1

    @pytest.mark.parametrize("per_cluster", [1, 5, 60])
    def test_of_few_queries_make_a_fit_too(self, per_cluster: int) -> None:
        found = reliability(drawn(60, 1.0, 0.0, per_cluster), None, 5, OPTIONS)
        assert found.fitted
        assert found.n_clusters == 60 // per_cluster


def test_no_label_judges_what_it_taught() -> None:
    """With two folds the probabilities of one half follow the labels of the other alone."""
    items = drawn(400, 1.0, 0.0, per_cluster=8)
    first, second = cluster_folds(items, 2, OPTIONS.seed)
    made = [fit(items.scores[half], items.labels[half], Platt()) for half in (first, second)]
    expected = np.where(
        first, made[1].probabilities(items.scores), made[0].probabilities(items.scores)
    )
    found = reliability(items, None, 2, OPTIONS)
    assert found.brier.value == pytest.approx(np.mean((expected - items.labels) ** 2))
    assert items.clusters is not None
    assert all(len(set(first[items.clusters == c])) == 1 for c in range(50))
    assert (first ^ second).all()
