from __future__ import annotations

import numpy as np
import pytest
from judged.values.intervals import Estimate, IntervalMethod, IntervalOptions
from judged_server.statistics.intervals import (
    Units,
    estimate,
    estimate_sums,
)
from scipy import stats

from tests.conformance.mid_distribution import mid_quantiles


def test_like_units_counted_together_have_the_interval_of_single_ones():
    together = Units(np.array([60, 40]), "items")

    def share(weights):
        return (weights[:, :1]) / weights.sum(axis=1, keepdims=True)

    found = estimate(share, together, IntervalOptions(IntervalMethod.T))[0].interval
    assert found.standard_error == pytest.approx(np.sqrt(0.6 * 0.4 / 99))


def test_clustered_items_have_wider_intervals():
    labels = np.repeat(np.random.default_rng(0).random(50) < 0.5, 8).astype(float)
    errors = []
    for clusters in (None, np.repeat(np.arange(50), 8)):
        share = lambda sums: (sums[:, 0] / sums[:, 1])[:, None]  # noqa: E731
        (found,) = estimate_sums([labels, np.ones(400)], clusters, share, IntervalOptions())
        errors.append(found.interval.standard_error)
    assert errors[1] == pytest.approx(errors[0] * np.sqrt(8), rel=0.1)


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
    found = estimate(scripted([value], draws, without), units, options)[0].interval
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


def test_the_jackknife_follows_its_definition():
    counts, without = np.array([3, 1, 2]), np.array([0.4, 0.9, 0.5])
    options = IntervalOptions(IntervalMethod.T, confidence=0.9)
    (found,) = estimate(scripted([0.6], without), Units(counts, "items"), options)
    each = np.repeat(without, counts)
    error = np.sqrt(5 / 6 * ((each - each.mean()) ** 2).sum())
    reach = stats.t.ppf(0.95, 5) * error
    assert found.value == 0.6
    assert found.interval.standard_error == pytest.approx(error)
    assert [found.interval.lower, found.interval.upper] == pytest.approx([0.6 - reach, 0.6 + reach])


def test_the_jackknife_gives_each_statistic_its_own_interval_or_none():
    nan = np.nan
    values = [[nan, 2.0, 3.0]]
    without = [[1.0, 1.0, nan], [1.5, nan, nan], [1.0, nan, nan], [2.0, 2.0, 5.0]]
    units = Units(np.ones(4, np.int64), "items")
    found = estimate(scripted(values, without), units, IntervalOptions(IntervalMethod.T))
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
    found = estimate(scripted(*answers), units, IntervalOptions(method, resamples=100))
    assert (found[0], found[2]) == (Estimate(None), Estimate(70.0))
    assert found[1].interval.standard_error == pytest.approx(np.arange(50.0, 100.0).std(ddof=1))
    assert 50 <= found[1].interval.lower < 70 < found[1].interval.upper <= 99
