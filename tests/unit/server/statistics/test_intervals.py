"""Intervals of means and of other statistics: draws, formulas, oracles, and degenerate data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged.values.choices import Estimate, IntervalMethod, IntervalOptions
from judged_server.statistics.intervals import (
    Units,
    estimate,
    estimate_sums,
    exact_means,
    mean_intervals,
    percentiles,
    resample_counts,
)
from scipy import stats

from tests.conformance.mid_distribution import mid_quantiles

SKEWED = np.random.default_rng(12).beta(0.6, 2.0, (4, 60))
PERCENTILE, BCA, T = IntervalMethod


def one(values, **options):
    (interval,) = mean_intervals(np.array([values], np.float64), IntervalOptions(**options))
    return interval


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.9999])
def test_t_is_that_of_scipy(confidence):
    for values in SKEWED:
        found = one(values, method=T, confidence=confidence)
        error = stats.sem(values)
        low, high = stats.t.interval(confidence, 59, values.mean(), error)
        assert found.lower == pytest.approx(low, abs=1e-12)
        assert found.upper == pytest.approx(high, abs=1e-12)
        assert found.standard_error == pytest.approx(error, abs=1e-15)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.9999])
def test_bca_is_that_of_scipy_over_the_same_resamples(confidence):
    """SciPy's own formula on our resampled means."""
    for values in SKEWED:
        (counts,) = resample_counts(60, 10_000, 0, 10_000)
        means = exact_means(values[None])(counts)[:, 0]
        theirs = stats.bootstrap(
            (values,),
            np.mean,
            confidence_level=confidence,
            method="BCa",
            n_resamples=0,
            bootstrap_result=type("Result", (), {"bootstrap_distribution": means})(),
        )
        found = one(values, method=BCA, confidence=confidence)
        assert found.lower == pytest.approx(theirs.confidence_interval.low, abs=1e-9)
        assert found.upper == pytest.approx(theirs.confidence_interval.high, abs=1e-9)


@given(
    st.lists(st.integers(0, 12), min_size=2, max_size=60),
    st.lists(st.floats(0, 1), min_size=1, max_size=9),
)
def test_percentiles_are_those_of_the_mid_distribution(values, levels):
    found = percentiles(np.array(values, np.float64), levels)
    assert found == pytest.approx(mid_quantiles(values, levels), abs=1e-12)


@pytest.mark.parametrize("method", [PERCENTILE, BCA])
@pytest.mark.parametrize("n", [50, 100])
def test_hit_rates_are_held_as_often_as_it_says(n, method):
    """Exactly: each number of hits as often as it comes, its interval over 10,000 resamples."""
    hits = np.arange(n + 1)
    values = (np.arange(n) < hits[:, None]) * 1.0
    found = mean_intervals(values, IntervalOptions(method))
    low, high = (np.array([getattr(one, end) for one in found]) for end in ("lower", "upper"))
    for rate in np.arange(1, 10) / 10:
        holds = (low <= rate + 1e-9) & (rate <= high + 1e-9)
        assert 0.93 <= stats.binom.pmf(hits, n, rate)[holds].sum() <= 0.971


@pytest.mark.parametrize("numerator", range(1, 40))
def test_rounding_leads_out_of_the_values_nowhere(numerator):
    """Values are rounded before they are summed, up at times; most resamples are all of one."""
    values = np.array([[numerator / 41, numerator / 43]])
    (found,) = mean_intervals(values, IntervalOptions(resamples=100))
    assert values.min() <= found.lower <= found.upper <= values.max()


def test_signatures():
    assert one([0, 1]).signature == "bootstrap:percentile|resamples:10000|seed:0|confidence:0.95|v2"
    bca = one([0, 1], method=BCA, resamples=100, seed=3, confidence=0.9)
    assert bca.signature == "bootstrap:bca|resamples:100|seed:3|confidence:0.9|v2"
    assert one([0, 1], method=T, resamples=5).signature == "t|confidence:0.95|v1"


@pytest.mark.parametrize("method", IntervalMethod)
def test_one_query_has_no_interval(method):
    assert mean_intervals(np.ones((3, 1)), IntervalOptions(method)) == (None,) * 3
    assert mean_intervals(np.ones((2, 0)), IntervalOptions(method)) == (None,) * 2
    assert mean_intervals(np.ones((0, 9)), IntervalOptions(method)) == ()


@pytest.mark.parametrize("method", IntervalMethod)
def test_equal_values_have_no_width_and_say_so(method):
    found = one([0.1] * 60, method=method)
    assert (found.lower, found.upper, found.standard_error) == (0.1, 0.1, 0.0)
    assert found.warnings == ("all 60 values are equal, so that it has no width and says too much",)


@pytest.mark.parametrize("method", IntervalMethod)
def test_few_and_skewed_values_carry_warnings(method):
    assert one([0, 1] * 25, method=method).warnings == ()
    assert "49 queries are few" in one(([0, 1] * 25)[:49], method=method).warnings[0]
    rare = [1] * 6 + [0] * 94
    warned = bool(one(rare, method=method).warnings)
    assert warned == (method is T)
    assert "skewed (skewness 9.8)" in one([1] + [0] * 98, method=method).warnings[0]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 1, width=32), min_size=2, max_size=40),
    st.sampled_from(IntervalMethod),
    st.sampled_from([0.5, 0.95, 0.9999]),
)
def test_intervals_are_finite_ordered_and_of_the_values(values, method, confidence):
    found = one(values, method=method, confidence=confidence, resamples=200)
    assert -math.inf < found.lower <= found.upper < math.inf
    assert 0 <= found.standard_error < math.inf
    if method is not T:
        assert min(values) <= found.lower
        assert found.upper <= max(values)


def test_clustered_items_have_wider_intervals():
    labels = np.repeat(np.random.default_rng(0).random(50) < 0.5, 8).astype(float)
    errors = []
    for clusters in (None, np.repeat(np.arange(50), 8)):
        share = lambda sums: (sums[:, 0] / sums[:, 1])[:, None]  # noqa: E731
        (found,) = estimate_sums([labels, np.ones(400)], clusters, share, IntervalOptions())
        errors.append(found.interval.standard_error)
    assert errors[1] == pytest.approx(errors[0] * np.sqrt(8), rel=0.1)


def test_the_draws_are_pinned():
    """A change here changes every interval under the same seed: raise v2 in the signatures."""
    seen = []

    def first(drawn):
        seen.append(drawn[0].tolist())
        return drawn[:, :1]

    estimate(first, Units(4, "items"), IntervalOptions(resamples=100, seed=3))
    assert seen[1] == [2, 0, 0, 2]


def scripted(*answers):
    """Return a statistic that gives these columns: of the data, and of the resamples."""
    left = [np.asarray(answer, np.float64).reshape(len(answer), -1) for answer in answers]
    return lambda weights: left.pop(0)


def test_each_statistic_has_its_own_interval_or_none():
    draws = np.tile(np.arange(100.0)[:, None], 3)
    draws[:50, 1] = np.nan
    draws[:51, 2] = np.nan
    units = Units(3, "items")
    answers = [[[np.nan, 70.0, 70.0]], draws]
    found = estimate(scripted(*answers), units, IntervalOptions(resamples=100))
    assert (found[0], found[2]) == (Estimate(None), Estimate(70.0))
    assert found[1].interval.standard_error == pytest.approx(np.arange(50.0, 100.0).std(ddof=1))
    assert 50 <= found[1].interval.lower < 70 < found[1].interval.upper <= 99
    (warning,) = found[1].interval.warnings
    assert warning.startswith("50% of the resamples leave the number undefined")


RNG = np.random.default_rng(5)


def resampled(values, resamples, seed, rows=64):
    means = exact_means(values)
    counts = resample_counts(values.shape[1], resamples, seed, rows)
    return np.concatenate([means(some) for some in counts]).T


def counts_of(draws, n):
    return np.bincount(draws, minlength=n).tolist()


def naive_draws(n, seed, count):
    """The rule in plain integers: x * n, its low half checked, its high half drawn."""
    bits = 16 if n <= 1 << 16 else 32
    draws = []
    for word in np.random.PCG64(seed).random_raw(4 * count + 16).tolist():
        for place in range(0, 64, bits):
            product = (word >> place & (1 << bits) - 1) * n
            if product % (1 << bits) >= (1 << bits) % n:
                draws.append(product >> bits)
    return draws[:count]


@pytest.mark.parametrize("n", [1, 2, 3, 64, 1000, 40_000, 65_535, 65_536, 65_537, 1_000_003])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_draws_follow_the_rule_however_they_are_cut(n, rows):
    resamples = max(2, min(500 // n, 20))
    found = np.concatenate([*resample_counts(n, resamples, 9, rows)])
    if n > 2_000:  # the rule by one draw after the other takes its time
        assert found.sum() == n * resamples
        assert (found[0, naive_draws(n, 9, 500)] > 0).all()
        return
    draws = naive_draws(n, 9, n * resamples)
    assert found.tolist() == [counts_of(draws[i * n : (i + 1) * n], n) for i in range(resamples)]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 700), st.integers(1, 4), st.integers(1, 60), st.integers(0, 2**64 - 1))
def test_means_are_those_of_the_drawn_queries(n, m, resamples, seed):
    values = np.random.default_rng(n).random((m, n))
    (counts,) = resample_counts(n, resamples, seed, resamples)
    assert np.abs(resampled(values, resamples, seed) - values @ counts.T / n).max() < 1e-11
    assert np.abs(exact_means(values)(np.ones((1, n))) - values.mean(axis=1)).max() < 1e-11


def test_neither_blocks_nor_other_metrics_change_a_bit():
    values = RNG.random((5, 997))
    whole = resampled(values, 300, 2)
    for rows in (1, 5, 1 << 22):
        assert np.array_equal(resampled(values, 300, 2, rows), whole)
    for i in range(5):
        assert np.array_equal(resampled(values[i : i + 1], 300, 2)[0], whole[i])
    assert not np.array_equal(resampled(values, 300, 3), whole)


@pytest.mark.parametrize("size", [1e-300, 1e-5, 1e5, 1e100])
def test_the_size_of_values_does_not_matter(size):
    values = RNG.normal(size=(2, 50))
    plain, scaled = resampled(values, 50, 0), resampled(values * size, 50, 0)
    assert np.allclose(scaled / size, plain, rtol=0, atol=1e-11)
