"""Against closed forms, and at the ends, where SciPy need not be right."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from judged_server.statistics.intervals import (
    beta_cdf,
    noncentral_t_cdf,
    t_cdf,
    t_quantile,
)
from scipy import special, stats

freedoms = some.floats(-0.3, 9).map(lambda power: 10.0**power)
tails = some.one_of(some.floats(1e-12, 0.25), some.floats(1e-15, 1e-3))


def close(value, expected, relative=1e-9):
    return value == pytest.approx(expected, rel=relative, abs=1e-290)


class TestBeta:
    @given(some.floats(1e-9, 1 - 1e-9), some.integers(1, 40), some.integers(0, 40))
    def test_of_whole_shapes_is_a_sum_of_binomials(self, x, successes, failures):
        n = successes + failures
        expected = math.fsum(
            math.comb(n, j) * x**j * (1 - x) ** (n - j) for j in range(successes, n + 1)
        )
        assert close(beta_cdf(x, successes, failures + 1), expected, 1e-11)


class TestT:
    @given(some.one_of(some.floats(-40, 40), some.floats(-1e-6, 1e-6)))
    def test_of_one_and_two_degrees_of_freedom_has_a_closed_form(self, x):
        assert t_cdf(x, 1) == pytest.approx(0.5 + math.atan(x) / math.pi, abs=1e-10)
        assert t_cdf(x, 2) == pytest.approx(0.5 + x / math.sqrt(8 + 4 * x * x), rel=1e-11)

    @given(tails, freedoms)
    def test_quantile_undoes_the_probability(self, p, df):
        x = t_quantile(p, df)
        assert close(t_cdf(x, df), p)
        if p > 1e-3:
            assert t_quantile(1 - p, df) == pytest.approx(-x, rel=1e-9)

    def test_ends(self):
        assert (t_quantile(0.0, 4), t_quantile(1.0, 4)) == (-math.inf, math.inf)
        assert t_quantile(0.5, 4) == pytest.approx(0.0, abs=1e-15)
        assert (t_cdf(-math.inf, 3), t_cdf(math.inf, 3), t_cdf(-1e200, 3)) == (0.0, 1.0, 0.0)
        assert (t_cdf(-1e200, 1e6), t_cdf(1e308, 1e6)) == (0.0, 1.0)
        assert t_cdf(-1e-200, 1e5) == 0.5

    def test_the_lower_tail_keeps_its_digits(self):
        assert close(t_cdf(-1e6, 2), 0.5e-12, 1e-11)  # 1 / (2 x^2), but for terms of 1 / x^4
        assert close(t_cdf(-1e12, 1), 1e-12 / math.pi, 1e-11)
        assert close(t_cdf(-60, 30), special.stdtr(30, -60))


class TestNoncentralT:
    @pytest.mark.parametrize("df", [3, 9, 49, 999, 99_999])
    def test_is_the_mean_of_normals_over_the_scale(self, df):
        """P(T <= x) is the mean of Phi(x S - nc), S^2 a chi-squared over its degrees of freedom."""
        s = np.linspace(0.0, 1 + 14 / math.sqrt(2 * df), 400_001)[1:]
        weights = stats.chi.pdf(s * math.sqrt(df), df) * math.sqrt(df) * (s[1] - s[0])
        for nc in (0.0, 5e-324, 0.5, 2.8, 8.0):
            for x in (-3.5, -0.7, 0.0, 0.7, 1.97, 3.5, 12.7):
                mean = float(special.ndtr(x * s - nc) @ weights)
                assert noncentral_t_cdf(x, df, nc) == pytest.approx(mean, abs=1e-9), (x, nc)

    def test_two_queries_at_the_highest_confidence(self):
        """Integrated with 30 digits."""
        assert noncentral_t_cdf(100.0, 1, 90.0) == pytest.approx(0.368144197054950, abs=1e-12)
        x = 6366.197671315936
        assert noncentral_t_cdf(x, 1, x) == pytest.approx(0.317310513833302, abs=1e-8)

    def test_ends(self):
        assert noncentral_t_cdf(6.3, 1, math.inf) == 0.0
        assert noncentral_t_cdf(2.0, 9999, 1e10) == 0.0
        assert noncentral_t_cdf(-7.0, 2, 8.0) == pytest.approx(0.0, abs=1e-12)
        assert noncentral_t_cdf(1e12, 5, 2.0) == pytest.approx(1.0)
        assert noncentral_t_cdf(2.0, 10**12, 2.0) == pytest.approx(0.5, abs=1e-6)
