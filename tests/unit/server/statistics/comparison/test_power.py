"""Against statsmodels, which solves the same equations."""

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some
from judged_server.statistics.comparison import paired_t_power
from statsmodels.stats.power import TTestPower

ORACLE = TTestPower()


@settings(max_examples=40, deadline=None)
@given(some.integers(5, 2000), some.floats(0.01, 2.0), some.floats(0.01, 0.1))
def test_power_equals_statsmodels(n, effect, alpha):
    found = paired_t_power(n, 0.5, alpha, effect * 0.5)
    expected = ORACLE.power(effect, n, alpha)
    assume(not math.isnan(expected))  # the oracle's limit, where the power is 1
    assert found.power == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("n", [5, 30, 50, 1000])
def test_detectable_difference_has_the_power(n):
    detectable = paired_t_power(n, 0.25, 0.05, None).detectable_difference
    assert ORACLE.power(detectable / 0.25, n, 0.05) == pytest.approx(0.8, abs=1e-7)


@pytest.mark.parametrize("effect", [0.03, 0.1, 0.25, 0.5, 1.0, 3.0, 40.0])
def test_queries_needed_is_the_smallest_number_that_will_do(effect):
    n = paired_t_power(20, 1.0, 0.05, effect).queries_needed
    assert paired_t_power(n, 1.0, 0.05, effect).power >= 0.8
    assert n == 2 or paired_t_power(n - 1, 1.0, 0.05, effect).power < 0.8


def test_tiny_differences_need_many_queries():
    n = paired_t_power(20, 1.0, 0.05, 1e-4).queries_needed
    assert n == pytest.approx(((1.959964 + 0.841621) / 1e-4) ** 2, rel=1e-6)
    assert paired_t_power(20, 1.0, 0.05, 1e-12).queries_needed is None


@pytest.mark.parametrize(
    ("difference", "spread", "queries"),
    [(5e-324, 1e99, None), (5e-324, 1.0, None), (1e-200, 1.0, None), (1e100, 5e-324, 2)],
)
def test_differences_at_the_ends_of_a_double(difference, spread, queries):
    found = paired_t_power(10, spread, 0.05, difference)
    assert found.queries_needed == queries
    assert found.power == pytest.approx(1.0 if queries else 0.05)
