"""Against SciPy where it is exact, and at the ends, where it need not be."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some
from judged_server.statistics.distributions import (
    beta_cdf,
    beta_quantile,
    normal_cdf,
    normal_quantile,
    root_between,
    t_cdf,
    t_quantile,
)
from scipy import special, stats

shapes = some.floats(-2, 4).map(lambda power: 10.0**power)
freedoms = some.floats(-0.3, 9).map(lambda power: 10.0**power)
probabilities = some.floats(1e-12, 1 - 1e-4)


def close(value, expected, relative=1e-9):
    return value == pytest.approx(expected, rel=relative, abs=1e-290)


class TestNormal:
    @given(some.floats(-37, 8))
    def test_equals_scipy(self, x):
        assert close(normal_cdf(x), stats.norm.cdf(x), 1e-12)

    @given(some.floats(1e-300, 1 - 1e-10))
    def test_quantile_undoes_the_probability(self, p):
        assert close(normal_cdf(normal_quantile(p)), p, 1e-9)

    def test_ends(self):
        assert (normal_quantile(0.0), normal_quantile(1.0)) == (-math.inf, math.inf)
        assert (normal_cdf(-math.inf), normal_cdf(math.inf)) == (0.0, 1.0)


class TestBeta:
    @given(some.floats(1e-9, 1 - 1e-9), shapes, shapes)
    def test_equals_scipy(self, x, a, b):
        assert close(beta_cdf(x, a, b), special.betainc(a, b, x), 1e-8)

    @given(probabilities, shapes, shapes)
    def test_quantile_equals_scipy(self, p, a, b):
        assert beta_quantile(p, a, b) == pytest.approx(
            special.betaincinv(a, b, p), rel=1e-8, abs=1e-250
        )

    def test_ends(self):
        assert (beta_cdf(0.0, 2, 3), beta_cdf(1.0, 2, 3)) == (0.0, 1.0)
        assert (beta_cdf(-1.0, 2, 3), beta_cdf(2.0, 2, 3)) == (0.0, 1.0)
        assert (beta_quantile(0.0, 2, 3), beta_quantile(1.0, 2, 3)) == (0.0, 1.0)

    def test_large_shapes_keep_their_digits(self):
        assert beta_cdf(0.5, 1e7, 1e7) == pytest.approx(0.5, abs=1e-12)
        assert 0.499 < beta_quantile(0.025, 500_000, 500_000) < 0.5


class TestT:
    @given(some.floats(-40, 40), freedoms)
    def test_equals_scipy(self, x, df):
        assert close(t_cdf(x, df), special.stdtr(df, x))

    @given(some.one_of(probabilities, some.floats(1e-15, 1e-3)), freedoms)
    def test_quantile_equals_scipy(self, p, df):
        assert t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-8, abs=1e-9)

    def test_infinite_freedom_is_the_normal(self):
        assert t_cdf(-1.3, math.inf) == normal_cdf(-1.3)
        assert t_quantile(0.2, math.inf) == normal_quantile(0.2)
        assert t_quantile(0.975, 1e15) == pytest.approx(normal_quantile(0.975), rel=1e-12)

    def test_ends(self):
        assert (t_quantile(0.0, 4), t_quantile(0.5, 4), t_quantile(1.0, 4)) == (
            -math.inf,
            0.0,
            math.inf,
        )
        assert (t_cdf(-math.inf, 3), t_cdf(math.inf, 3), t_cdf(-1e200, 3)) == (0.0, 1.0, 0.0)
        assert t_cdf(-1e-200, 1e5) == 0.5

    def test_the_lower_tail_keeps_its_digits(self):
        assert close(t_cdf(-60, 30), special.stdtr(30, -60))


class TestRootBetween:
    def test_finds_the_root_of_a_steep_and_a_flat_function(self):
        assert root_between(lambda x: x**9 - 2, 0, 1e6) == pytest.approx(2 ** (1 / 9), rel=1e-14)
        assert root_between(lambda x: math.atan(x - 3), -1e6, 1e9) == pytest.approx(3, rel=1e-14)

    def test_returns_the_nearer_end_without_a_change_of_sign(self):
        assert root_between(lambda x: x + 1, 0, 5) == 0
        assert root_between(lambda x: x - 9, 0, 5) == 5
