"""Intervals of means: the formulas, the oracles, and what degenerate data do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged.values.intervals import IntervalMethod, IntervalOptions
from judged_server.statistics.intervals import (
    exact_means,
    mean_intervals,
    percentiles,
    resample_counts,
)
from scipy import stats

from tests.conformance.mid_distribution import mid_quantiles

RNG = np.random.default_rng(12)
SKEWED = RNG.beta(0.6, 2.0, (4, 60))
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


def scipy_bootstrap(values, method, confidence, resamples=40_000):
    return stats.bootstrap(
        (values,),
        np.mean,
        confidence_level=confidence,
        n_resamples=resamples,
        method=method,
        rng=np.random.default_rng(3),
        batch=5_000,
    )


def test_percentile_reaches_the_percentiles_of_scipy_within_chance():
    """Hesterberg's wider levels, handed to SciPy as the confidence that has them as its tails."""
    n, tail = 60, 0.05
    reach = stats.t.ppf(1 - tail, n - 1) * math.sqrt(n / (n - 1))
    for values in SKEWED:
        theirs = scipy_bootstrap(values, "percentile", 1 - 2 * stats.norm.sf(reach))
        found = one(values, confidence=1 - 2 * tail, resamples=40_000)
        chance = 5 * theirs.standard_error * 2 / math.sqrt(40_000)
        assert found.lower == pytest.approx(theirs.confidence_interval.low, abs=chance)
        assert found.upper == pytest.approx(theirs.confidence_interval.high, abs=chance)
        assert found.standard_error == pytest.approx(theirs.standard_error, rel=0.02)


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
    assert found is not None
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
