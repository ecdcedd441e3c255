"""Against SciPy and statsmodels, and on the data that leave the tests undefined."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as some
from judged_server.statistics.comparison import (
    LARGEST_EXACT,
    NO_EVIDENCE,
    mcnemar,
    t_test,
    varies,
    wilcoxon,
)
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as mcnemar_of_statsmodels

hundredths = some.integers(-100, 100).map(lambda n: n / 100)
differences = some.lists(hundredths, min_size=2, max_size=120).map(np.array)
distinct = some.lists(some.integers(1, 10_000), min_size=1, max_size=120, unique=True)


class TestT:
    @given(differences)
    def test_equals_scipy(self, d):
        assume(varies(d))
        expected = stats.ttest_1samp(d, 0.0)
        found = t_test(d)
        assert found.statistic == pytest.approx(expected.statistic, rel=1e-10, abs=1e-12)
        assert found.p_value == pytest.approx(expected.pvalue, rel=1e-10)

    @pytest.mark.parametrize("d", [[0.0, 0.0, 0.0], [0.1, 0.3 - 0.2, 0.1], [5.0, 5.0]])
    def test_is_undefined_where_nothing_varies(self, d):
        assert t_test(np.array(d)) == NO_EVIDENCE


class TestWilcoxon:
    @given(distinct, some.randoms(use_true_random=False))
    def test_equals_scipy_without_ties(self, sizes, chance):
        d = np.array([size * chance.choice([-1, 1]) for size in sizes], float)
        method = "exact" if len(d) <= LARGEST_EXACT else "approx"
        expected = stats.wilcoxon(d, method=method, correction=True)
        found = wilcoxon(d)
        assert found.statistic == expected.statistic
        assert found.p_value == pytest.approx(expected.pvalue, rel=1e-10)

    @given(differences, some.integers(1, 100))
    def test_equals_scipy_with_ties_and_zeros(self, d, tied):
        d = np.concatenate([d, [tied / 100, -tied / 100]])
        whole = np.rint(d * 100)
        rest = whole[whole != 0]
        expected = stats.wilcoxon(rest, method="approx", correction=True)
        found = wilcoxon(d)
        assert found.statistic == expected.statistic
        assert found.p_value == pytest.approx(min(1.0, expected.pvalue), rel=1e-10)

    def test_takes_rounding_for_ties(self):
        d = np.array([0.3 - 0.2, 0.1, 0.2 - 0.1, -0.4])
        assert wilcoxon(d) == wilcoxon(np.array([0.1, 0.1, 0.1, -0.4]))

    def test_says_nothing_without_a_difference(self):
        assert wilcoxon(np.zeros(5)) == NO_EVIDENCE


class TestMcnemar:
    @given(some.integers(0, 60), some.integers(0, 60), some.integers(0, 5))
    def test_equals_statsmodels(self, better, worse, same):
        assume(better + worse)
        d = np.array([1.0] * better + [-1.0] * worse + [0.0] * same)
        expected = mcnemar_of_statsmodels([[0, better], [worse, 0]], exact=True)
        found = mcnemar(d)
        assert found.statistic == expected.statistic
        assert found.p_value == pytest.approx(expected.pvalue, rel=1e-10)

    def test_says_nothing_without_a_difference(self):
        assert mcnemar(np.zeros(3)) == NO_EVIDENCE
