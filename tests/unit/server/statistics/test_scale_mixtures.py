"""Against SciPy: the noncentral t and the studentized range."""

import math

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as some
from judged_server.statistics.distributions import normal_cdf, t_cdf
from judged_server.statistics.scale_mixtures import (
    noncentral_t_cdf,
    studentized_range_quantile,
    studentized_range_sf,
)
from scipy import stats


class TestNoncentralT:
    @given(some.floats(-20, 40), some.integers(1, 5000), some.floats(-4, 8))
    @example(-7.0, 2, 8.0)
    def test_equals_scipy(self, x, df, nc):
        expected = stats.nct.cdf(x, df, nc)
        assume(not math.isnan(expected))  # SciPy has no answer far below the middle
        assert noncentral_t_cdf(x, df, nc) == pytest.approx(expected, abs=1e-8)

    @given(some.floats(-10, 10), some.integers(1, 100_000))
    def test_is_students_t_without_noncentrality(self, x, df):
        assert noncentral_t_cdf(x, df, 0.0) == pytest.approx(t_cdf(x, df), abs=1e-10)

    def test_ends(self):
        assert noncentral_t_cdf(1.0, math.inf, 0.4) == normal_cdf(0.6)
        assert (noncentral_t_cdf(math.inf, 3, 1), noncentral_t_cdf(-math.inf, 3, 1)) == (1.0, 0.0)
        assert (noncentral_t_cdf(3, 3, math.inf), noncentral_t_cdf(3, 3, -math.inf)) == (0.0, 1.0)
        assert noncentral_t_cdf(1e12, 5, 2.0) == pytest.approx(1.0)
        assert noncentral_t_cdf(2.0, 10**12, 2.0) == pytest.approx(0.5, abs=1e-6)

    @pytest.mark.parametrize("df", [0, 0.5, 2.5, -math.inf, math.nan])
    def test_degrees_of_freedom_are_whole(self, df):
        with pytest.raises(ValueError, match="whole number from 1"):
            noncentral_t_cdf(1.0, df, 0.5)
        with pytest.raises(ValueError, match="whole number from 1"):
            studentized_range_sf(np.array([1.0]), 3, df)


class TestStudentizedRange:
    @pytest.mark.parametrize("k", [2, 3, 10, 50])
    @pytest.mark.parametrize("df", [5, 20, 300, 10_000, math.inf])
    def test_equals_scipy(self, k, df):
        q = np.array([0.5, 2.0, 3.5, 5.0, 7.0])
        expected = stats.studentized_range.sf(q, k, df)
        assert studentized_range_sf(q, k, df) == pytest.approx(expected, abs=1e-9)

    @pytest.mark.parametrize(("k", "df"), [(2, 5), (3, 98), (20, 1881), (50, math.inf)])
    @pytest.mark.parametrize("p", [0.5, 0.95, 0.999])
    def test_quantile_equals_scipy(self, k, df, p):
        expected = stats.studentized_range.ppf(p, k, df)
        assert studentized_range_quantile(p, k, df) == pytest.approx(expected, rel=1e-6)

    @settings(max_examples=30)
    @given(some.floats(0, 20), some.integers(1, 100_000))
    def test_of_two_means_is_students_t(self, q, df):
        found = studentized_range_sf(np.array([q]), 2, df)[0]
        assert found == pytest.approx(2 * t_cdf(-q / math.sqrt(2), df), abs=1e-10)

    def test_ends(self):
        far = np.array([0.0, 1e300, math.inf])
        assert studentized_range_sf(np.array([5e-324]), 3, 10).tolist() == pytest.approx([1.0])
        assert studentized_range_sf(far, 3, 10).tolist() == pytest.approx([1.0, 0.0, 0.0])
        assert studentized_range_sf(far, 3, math.inf).tolist() == pytest.approx([1.0, 0.0, 0.0])
        assert studentized_range_quantile(0.0, 3, 10) == 0.0
        assert studentized_range_quantile(1.0, 3, 10) == math.inf

    def test_falls_with_q_and_grows_with_the_number_of_means(self):
        q = np.linspace(0, 30, 500)
        few, many = studentized_range_sf(q, 3, 40), studentized_range_sf(q, 60, 40)
        assert np.all(np.diff(few) <= 1e-12)
        assert np.all(few <= many + 1e-12)
