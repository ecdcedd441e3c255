from __future__ import annotations

import numpy as np
import pytest
from judged.values.intervals import Estimate, IntervalMethod, IntervalOptions
from judged_server.errors import InvalidField
from judged_server.statistics.resampling import (
    MAX_UNITS,
    Units,
    check_resampling,
    deal,
    estimate,
    sum_by_unit,
    undefined_intervals,
    units_of,
)
from scipy import stats

from tests.conformance.mid_distribution import mid_quantiles

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
    assert estimate(lambda weights: weights, one, IntervalOptions()) == ((Estimate(1.0),), (0.0,))
    nothing = estimate(lambda weights: weights * np.nan, one, IntervalOptions())
    assert nothing == ((Estimate(None),), (0.0,))


def test_a_constant_has_an_interval_without_width_and_says_so():
    found = estimate(lambda weights: np.ones((len(weights), 1)), ONES, IntervalOptions())[0][0]
    assert (found.interval.lower, found.interval.upper) == (1.0, 1.0)
    assert "no width" in found.interval.warnings[0]


def test_many_things_are_dealt_into_even_groups():
    unit_of, n = deal(5_000, seed=0)
    assert n == MAX_UNITS
    assert set(np.bincount(unit_of).tolist()) == {4, 5}


@pytest.mark.parametrize(
    ("clusters", "n", "over"),
    [
        (None, 5, "items"),
        (None, 5_000, f"{MAX_UNITS} groups of items"),
        (np.arange(5_000), 5_000, f"{MAX_UNITS} groups of clusters"),
    ],
)
def test_units_are_called_what_they_are(clusters, n, over):
    unit_of, units = units_of(clusters, n, seed=0)
    assert units.over == over
    assert len(unit_of) == n


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
    """A change here changes every interval under the same seed: raise v2 in the signatures."""
    seen = []

    def first(drawn):
        seen.append(drawn[0].tolist())
        return drawn[:, :1]

    estimate(first, Units(np.array(counts), "items"), IntervalOptions(resamples=100, seed=3))
    assert seen[1] == weights


def scripted(*answers):
    """Return a statistic that gives these columns: of the data, the resamples, all but one."""
    left = [np.asarray(answer, np.float64).reshape(len(answer), -1) for answer in answers]
    return lambda weights: left.pop(0)


def bca(value, draws, without, counts, confidence):
    """Return the interval as Efron (1987) defines it, ties of the value counted half."""
    draws, without, counts = (np.asarray(one, np.float64) for one in (draws, without, counts))
    bias = stats.norm.ppf((draws < value).mean() + (draws == value).mean() / 2)
    away = (without * counts).sum() / counts.sum() - without
    skew, spread = (counts * away**3).sum(), (counts * away**2).sum()
    acceleration = skew / (6 * spread**1.5) if spread else 0.0
    levels = []
    for quantile in stats.norm.ppf([(1 - confidence) / 2, (1 + confidence) / 2]):
        shifted = bias + quantile
        levels.append(stats.norm.cdf(bias + shifted / (1 - acceleration * shifted)))
    return mid_quantiles(draws, levels)


def interval_of(value, draws, without, *, counts=None, confidence=0.95):
    units = Units(np.asarray(counts or [1] * len(without), np.int64), "items")
    options = IntervalOptions(IntervalMethod.BCA, resamples=len(draws), confidence=confidence)
    found = estimate(scripted([value], draws, without), units, options)[0][0].interval
    return [found.lower, found.upper]


RNG = np.random.default_rng(8)
DRAWS = np.round(RNG.exponential(size=999), 2)


@pytest.mark.parametrize("value", [0.31, 0.7, 2.0])
@pytest.mark.parametrize("counts", [[1, 1, 1, 1], [40, 5, 3, 1]])
@pytest.mark.parametrize("without", [[0.5, 0.6, 0.5, 0.9], [0.9, 0.2, 0.3, 0.3], [1.0] * 4])
def test_bca_follows_its_definition(value, counts, without):
    expected = bca(value, DRAWS, without, counts, 0.9)
    found = interval_of(value, DRAWS, without, counts=counts, confidence=0.9)
    assert found == pytest.approx(expected)


def test_bca_leaves_out_what_is_undefined_without_an_item():
    expected = bca(0.6, DRAWS, [0.5, 0.7, 0.5], [2, 1, 4], 0.95)
    assert interval_of(0.6, DRAWS, [0.5, np.nan, 0.7, 0.5], counts=[2, 9, 1, 4]) == pytest.approx(
        expected
    )
    nothing = bca(0.6, DRAWS, [1.0], [1], 0.95)
    assert interval_of(0.6, DRAWS, [np.nan] * 3) == pytest.approx(nothing)


@pytest.mark.parametrize("value", [-1.0, 100.0])
def test_bca_is_the_plain_interval_where_all_resamples_lie_on_one_side(value):
    expected = mid_quantiles(DRAWS, [0.025, 0.975])
    assert interval_of(value, DRAWS, [0.5, 0.6, 0.7]) == pytest.approx(expected)


def test_bca_reaches_the_last_resample_where_the_transformation_turns_round():
    draws = np.sort(DRAWS + np.arange(999) * 1e-6)
    value, without = draws[-1], [1.0] * 40 + [0.0]  # the bias and the acceleration are large
    assert interval_of(value, draws, without, confidence=0.999)[1] == draws[-1]
    mirrored = interval_of(-value, -draws, [-one for one in without], confidence=0.999)
    assert mirrored[0] == -draws[-1]


def test_the_jackknife_follows_its_definition():
    counts, without = np.array([3, 1, 2]), np.array([0.4, 0.9, 0.5])
    options = IntervalOptions(IntervalMethod.T, confidence=0.9)
    (found,), left_out = estimate(scripted([0.6], without), Units(counts, "items"), options)
    each = np.repeat(without, counts)
    error = np.sqrt(5 / 6 * ((each - each.mean()) ** 2).sum())
    reach = stats.t.ppf(0.95, 5) * error
    assert found.value == 0.6
    assert found.interval.standard_error == pytest.approx(error)
    assert [found.interval.lower, found.interval.upper] == pytest.approx([0.6 - reach, 0.6 + reach])
    assert left_out == (0.0,)


def test_the_jackknife_gives_each_statistic_its_own_interval_or_none():
    nan = np.nan
    values = [[nan, 2.0, 3.0]]
    without = [[1.0, 1.0, nan], [1.5, nan, nan], [1.0, nan, nan], [2.0, 2.0, 5.0]]
    units = Units(np.ones(4, np.int64), "items")
    found, left_out = estimate(scripted(values, without), units, IntervalOptions(IntervalMethod.T))
    assert left_out == (0.0, 0.5, 0.75)
    assert found[0] == Estimate(None)
    assert found[2] == Estimate(3.0)
    # One draw each of two that are defined: sqrt(1/2 * (0.5**2 + 0.5**2)).
    assert found[1].interval.standard_error == pytest.approx(0.5)
    (warning,) = found[1].interval.warnings
    assert warning == (
        "50% of the resamples leave the number undefined and were left out; the interval speaks "
        "of the others"
    )


@pytest.mark.parametrize("method", [IntervalMethod.PERCENTILE, IntervalMethod.BCA])
def test_the_bootstrap_gives_each_statistic_its_own_interval_or_none(method):
    draws = np.tile(np.arange(100.0)[:, None], 3)
    draws[:50, 1] = np.nan
    draws[:51, 2] = np.nan
    without = [[1.0, 2.0, 3.0], [1.5, 2.5, 3.0], [1.0, 2.0, 3.5]]
    units = Units(np.ones(3, np.int64), "items")
    answers = [[[np.nan, 70.0, 70.0]], draws, without]
    found, left_out = estimate(scripted(*answers), units, IntervalOptions(method, resamples=100))
    assert left_out == pytest.approx((0.0, 0.5, 0.51))
    assert (found[0], found[2]) == (Estimate(None), Estimate(70.0))
    assert found[1].interval.standard_error == pytest.approx(np.arange(50.0, 100.0).std(ddof=1))
    assert 50 <= found[1].interval.lower < 70 < found[1].interval.upper <= 99


def test_a_value_without_an_interval_is_named_and_an_undefined_one_is_not():
    (with_one,), _ = estimate(mean, ONES, IntervalOptions(resamples=100))
    found = [with_one, Estimate(1.0), Estimate(None)]
    (warning,) = undefined_intervals(["a", "b", "c"], found)
    assert warning == (
        "b has no interval: most resamples leave it undefined, or there is too little to "
        "resample; collect more"
    )
