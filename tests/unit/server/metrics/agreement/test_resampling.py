from __future__ import annotations

import numpy as np
import pytest
from judged_server.errors import InvalidField
from judged_server.metrics.agreement.resampling import (
    MAX_UNITS,
    Units,
    check_resampling,
    deal,
    estimate,
    sum_by_unit,
    units_of,
)
from judged_server.metrics.statistics.intervals import IntervalMethod, IntervalOptions

VALUES = np.random.default_rng(5).exponential(size=200)
ONES = Units(np.ones(200, np.int64), "items")


def mean(weights):
    return ((weights @ VALUES) / weights.sum(axis=1))[:, None]


@pytest.mark.parametrize("method", IntervalMethod)
def test_the_interval_of_a_mean_is_near_the_normal_one(method):
    (found,), (left_out,) = estimate(mean, ONES, IntervalOptions(method))
    error = VALUES.std(ddof=1) / np.sqrt(200)
    assert found.value == pytest.approx(VALUES.mean())
    assert found.interval.standard_error == pytest.approx(error, rel=0.03)
    assert found.interval.lower == pytest.approx(VALUES.mean() - 1.97 * error, abs=0.5 * error)
    assert found.interval.upper == pytest.approx(VALUES.mean() + 1.97 * error, abs=0.5 * error)
    assert left_out == 0
    assert found.interval.signature.endswith("|over:items")


def test_bca_moves_with_the_skewness():
    plain = estimate(mean, ONES, IntervalOptions())[0][0].interval
    bca = estimate(mean, ONES, IntervalOptions(IntervalMethod.BCA))[0][0].interval
    assert bca.lower > plain.lower
    assert bca.upper > plain.upper


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    first = estimate(mean, ONES, IntervalOptions(seed=1))
    assert first == estimate(mean, ONES, IntervalOptions(seed=1))
    assert first != estimate(mean, ONES, IntervalOptions(seed=2))


def test_like_units_counted_together_have_the_interval_of_single_ones():
    together = Units(np.array([60, 40]), "items")

    def share(weights):
        return (weights[:, :1]) / weights.sum(axis=1, keepdims=True)

    found = estimate(share, together, IntervalOptions(IntervalMethod.T))[0][0].interval
    assert found.standard_error == pytest.approx(np.sqrt(0.6 * 0.4 / 99))


def undefined_where_first_is_missing(weights):
    return np.where(weights[:, :1] > 0, 1.0 + weights[:, 1:2], np.nan)


def test_undefined_resamples_are_left_out_with_a_warning():
    units = Units(np.array([1, 9]), "items")
    (found,), (left_out,) = estimate(undefined_where_first_is_missing, units, IntervalOptions())
    assert left_out == pytest.approx(0.9**10, abs=0.02)
    assert "35% of the resamples" in found.interval.warnings[0]


def test_there_is_no_interval_where_most_resamples_are_undefined():
    def defined_once(weights):
        return np.where((weights == 1).all(axis=1, keepdims=True), 1.0, np.nan)

    (found,), _ = estimate(defined_once, Units(np.ones(5, np.int64), "items"), IntervalOptions())
    assert (found.value, found.interval) == (1.0, None)


def test_one_unit_has_no_interval():
    one = Units(np.ones(1, np.int64), "clusters")
    assert estimate(lambda weights: weights, one, IntervalOptions())[0][0].interval is None


def test_a_constant_has_an_interval_without_width_and_says_so():
    found = estimate(lambda weights: np.ones((len(weights), 1)), ONES, IntervalOptions())[0][0]
    assert (found.interval.lower, found.interval.upper) == (1.0, 1.0)
    assert "no width" in found.interval.warnings[0]


def test_many_things_are_dealt_into_even_groups():
    unit_of, n = deal(5_000, seed=0)
    assert n == MAX_UNITS
    assert set(np.bincount(unit_of).tolist()) == {4, 5}


def test_clusters_are_units_whole():
    unit_of, units = units_of(np.array([7, 3, 7, 3, 9]), 5, seed=0)
    assert (units.total, units.over) == (3, "clusters")
    assert unit_of[0] == unit_of[2] != unit_of[1] == unit_of[3]
    assert sum_by_unit(unit_of, 3, [np.arange(5.0)]).tolist() == [[4.0], [2.0], [4.0]]


def test_clustered_items_have_wider_intervals():
    labels = np.repeat(np.random.default_rng(0).random(50) < 0.5, 8).astype(float)
    errors = []
    for clusters in (None, np.repeat(np.arange(50), 8)):
        unit_of, units = units_of(clusters, 400, seed=0)
        sums = sum_by_unit(unit_of, len(units.counts), [labels, np.ones(400)])
        drawn = lambda w, s=sums: ((w @ s)[:, 0] / (w @ s)[:, 1])[:, None]  # noqa: E731
        errors.append(estimate(drawn, units, IntervalOptions())[0][0].interval.standard_error)
    assert errors[1] == pytest.approx(errors[0] * np.sqrt(8), rel=0.1)


def test_too_much_work_is_refused_with_what_would_do():
    units = Units(np.ones(1_000, np.int64), "systems")
    check_resampling(units, 5_000, IntervalOptions(resamples=10_000))
    with pytest.raises(InvalidField, match=r"over systems.* at most [0-9]+") as refused:
        check_resampling(units, 5_000, IntervalOptions(resamples=100_000))
    assert refused.value.field == "interval.resamples"
    most = int(refused.value.rule.split("at most ")[1].split(",")[0])
    check_resampling(units, 5_000, IntervalOptions(resamples=most))
    with pytest.raises(InvalidField):
        check_resampling(units, 5_000, IntervalOptions(resamples=most + 1))
    check_resampling(units, 5_000, IntervalOptions(IntervalMethod.T, resamples=100_000))


@pytest.mark.parametrize(
    ("counts", "weights"),
    [([1, 1, 1, 1], [2, 0, 0, 2]), ([40, 10], [44, 6])],
)
def test_the_draws_are_pinned(counts, weights):
    """A change here changes every interval under the same seed: raise v1 in the signatures."""
    seen = []

    def first(drawn):
        seen.append(drawn[0].tolist())
        return drawn[:, :1]

    estimate(first, Units(np.array(counts), "items"), IntervalOptions(resamples=100, seed=3))
    assert seen[1] == weights
