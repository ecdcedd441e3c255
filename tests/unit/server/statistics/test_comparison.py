"""Runs side by side: their tests by their definitions, and what such tests can show."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some
from judged.values.choices import IntervalMethod, IntervalOptions
from judged.values.comparison import CompareOptions
from judged_server.statistics import comparison as sign_flips
from judged_server.statistics.comparison import (
    LARGEST_EXACT,
    NO_EVIDENCE,
    RunValues,
    compare,
    mcnemar,
    paired_t_power,
    sign_flip_p_values,
    t_test,
    varies,
    wilcoxon,
)
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as mcnemar_of_statsmodels
from statsmodels.stats.power import TTestPower

T = IntervalOptions(IntervalMethod.T)
FEW = CompareOptions(permutations=1000)


def run(name, *rows, ids=None):
    values = np.array(rows, float)
    return RunValues(name, ids or [f"q{i}" for i in range(values.shape[1])], values)


def one(before, after, options=FEW):
    return compare([run("a", before), run("b", after)], options, T, ["m"])[0]


class TestNumbers:
    before, after = [0.1, 0.5, 0.3, 0.9, 0.4, 0.2], [0.3, 0.5, 0.2, 1.0, 0.9, 0.6]

    def test_the_interval_and_the_effect_are_of_the_differences(self):
        found = one(self.before, self.after)
        d = np.array(self.after) - np.array(self.before)
        low, high = stats.ttest_rel(self.after, self.before).confidence_interval()
        assert (found.difference.interval.lower, found.difference.interval.upper) == pytest.approx(
            (low, high)
        )
        assert found.effect_size == pytest.approx(d.mean() / d.std(ddof=1))
        assert found.permutation.statistic == pytest.approx(d.mean())
        assert found.mcnemar is None

    def test_counts_wins_losses_and_ties_by_nine_decimals(self):
        found = one([0.3, 0.1, 0.5, 0.2], [0.1 + 0.2, 0.2, 0.4, 0.2 + 5e-10])
        assert (found.wins, found.losses, found.ties) == (1, 1, 2)

    def test_lists_what_moved_most(self):
        found = one(self.before, self.after, CompareOptions(permutations=1000, max_moved=2))
        assert [(m.query_id, m.baseline, m.run) for m in found.moved] == [
            ("q4", 0.4, 0.9),
            ("q5", 0.2, 0.6),
        ]
        assert len(one(self.before, self.after).moved) == 5  # the sixth did not move

    def test_booleans_have_mcnemars_test(self):
        found = one([0, 0, 0, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1])
        assert found.mcnemar.p_value == pytest.approx(2 / 64)


class TestWhichQueriesCount:
    def test_those_with_a_value_in_both(self):
        first = run("a", [0.1, 0.2, 0.3], ids=["x", "y", "z"])
        second = run("b", [0.9, 0.5, 0.4], ids=["z", "w", "y"])
        found = compare([first, second], FEW, T, ["m"])[0]
        assert found.n == 2
        assert (found.baseline_mean, found.run_mean) == (0.25, 0.65)
        assert "2 queries left out" in found.warnings[0]


class TestDegenerate:
    def test_no_difference(self):
        found = one([0.0, 1.0, 1.0], [0.0, 1.0, 1.0])
        tests = (found.t_test, found.wilcoxon, found.permutation, found.mcnemar)
        assert {test.p_value for test in tests} == {1.0}
        assert (found.t_test.statistic, found.effect_size) == (None, None)
        assert found.power.detectable_difference is None
        assert any("no query differs" in warning for warning in found.warnings)

    def test_one_constant_difference(self):
        found = one([0.1] * 8, [0.2] * 8)
        assert (found.t_test.statistic, found.t_test.p_value) == (None, 1.0)
        assert found.effect_size is None
        assert found.permutation.p_value == 2 / 256
        assert any("by the same amount" in warning for warning in found.warnings)


class TestManyRuns:
    runs = tuple(run(f"r{i}", *np.random.default_rng(i).random((2, 40))) for i in range(4))

    def test_p_values_are_corrected_over_all_of_them(self):
        from statsmodels.stats.multitest import multipletests

        found = compare(self.runs, FEW, T, ["m", "n"])
        for name in ("t_test", "wilcoxon", "permutation"):
            tests = [getattr(made, name) for made in found]
            raw = [test.p_value for test in tests]
            assert [test.p_holm for test in tests] == pytest.approx(
                multipletests(raw, method="holm")[1]
            )
            assert [test.p_benjamini_hochberg for test in tests] == pytest.approx(
                multipletests(raw, method="fdr_bh")[1]
            )


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


class TestMcnemar:
    @given(some.integers(0, 60), some.integers(0, 60), some.integers(0, 5))
    def test_equals_statsmodels(self, better, worse, same):
        assume(better + worse)
        d = np.array([1.0] * better + [-1.0] * worse + [0.0] * same)
        expected = mcnemar_of_statsmodels([[0, better], [worse, 0]], exact=True)
        found = mcnemar(d)
        assert found.statistic == expected.statistic
        assert found.p_value == pytest.approx(expected.pvalue, rel=1e-10)


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


small = some.lists(some.integers(-20, 20), min_size=1, max_size=9)


def by_hand(d):
    """Return the share of all sign flips that reach the sum, counted one by one."""
    moved = [n for n in d if n]
    sums = [
        abs(sum(s * n for s, n in zip(signs, moved, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(moved))
    ]
    return sum(total >= abs(sum(d)) for total in sums) / len(sums)


@settings(max_examples=60, deadline=None)
@given(small)
def test_few_differences_are_counted_out(d):
    found = sign_flip_p_values(np.array([d]) / 100, 1000, 0)
    assert found[0] == pytest.approx(by_hand(d), abs=1e-12)


def test_random_flips_come_close_to_the_exact_p_value():
    d = np.random.default_rng(7).normal(0.2, 1, (1, 15))
    exact = sign_flip_p_values(d, 1 << 15, 0)[0]
    drawn = sign_flip_p_values(d, (1 << 15) - 1, 0)[0]
    assert drawn != exact
    assert drawn == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / (1 << 15)))


def test_depends_on_the_seed_and_nothing_else(monkeypatch):
    d = np.random.default_rng(3).normal(0.1, 1, (2, 130))
    first = sign_flip_p_values(d, 5000, 4)
    assert sign_flip_p_values(d, 5000, 5).tolist() != first.tolist()
    monkeypatch.setattr(sign_flips, "_BLOCK_SIGNS", 1000)
    assert sign_flip_p_values(d, 5000, 4).tolist() == first.tolist()
    assert sign_flip_p_values(d[::-1], 5000, 4)[::-1].tolist() == first.tolist()


def test_rounding_does_not_untie():
    d = np.array([[0.3 - 0.2, 0.1, 0.2 - 0.1, -0.1, 0.7 - 0.6]])
    assert sign_flip_p_values(d, 100, 0)[0] == by_hand([1, 1, 1, -1, 1])
