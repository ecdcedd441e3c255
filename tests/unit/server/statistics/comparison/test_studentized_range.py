"""Against SciPy, and at the ends."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from judged_server.statistics.comparison.tukey import (
    studentized_range_quantile,
    studentized_range_sf,
)
from judged_server.statistics.distributions import t_cdf
from scipy import stats


@pytest.mark.parametrize("k", [2, 3, 10, 50])
@pytest.mark.parametrize("df", [5, 20, 300, 10_000, math.inf])
def test_equals_scipy(k, df):
    q = np.array([0.5, 2.0, 3.5, 5.0, 7.0])
    expected = stats.studentized_range.sf(q, k, df)
    assert studentized_range_sf(q, k, df) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("k", "df"), [(2, 5), (3, 98), (20, 1881), (50, math.inf)])
@pytest.mark.parametrize("p", [0.5, 0.95, 0.999])
def test_quantile_equals_scipy(k, df, p):
    expected = stats.studentized_range.ppf(p, k, df)
    assert studentized_range_quantile(p, k, df) == pytest.approx(expected, rel=1e-6)


@settings(max_examples=30)
@given(some.floats(0, 20), some.integers(1, 100_000))
def test_of_two_means_is_students_t(q, df):
    found = studentized_range_sf(np.array([q]), 2, df)[0]
    assert found == pytest.approx(2 * t_cdf(-q / math.sqrt(2), df), abs=1e-10)


def test_ends():
    far = np.array([0.0, 1e300, math.inf])
    assert studentized_range_sf(np.array([5e-324]), 3, 10).tolist() == pytest.approx([1.0])
    assert studentized_range_sf(far, 3, 10).tolist() == pytest.approx([1.0, 0.0, 0.0])
    assert studentized_range_sf(far, 3, math.inf).tolist() == pytest.approx([1.0, 0.0, 0.0])
    assert studentized_range_quantile(0.0, 3, 10) == 0.0
    assert studentized_range_quantile(1.0, 3, 10) == math.inf


def test_falls_with_q_and_grows_with_the_number_of_means():
    q = np.linspace(0, 30, 500)
    few, many = studentized_range_sf(q, 3, 40), studentized_range_sf(q, 60, 40)
    assert np.all(np.diff(few) <= 1e-12)
    assert np.all(few <= many + 1e-12)


@pytest.mark.parametrize("df", [0, 0.5, 2.5, -math.inf, math.nan])
def test_degrees_of_freedom_are_whole(df):
    with pytest.raises(ValueError, match="whole number from 1"):
        studentized_range_sf(np.array([1.0]), 3, df)
