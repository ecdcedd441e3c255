import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from judged.values.comparison import CompareOptions
from judged.values.intervals import IntervalMethod, IntervalOptions
from judged_server.statistics.comparison import RunValues, compare
from judged_server.statistics.intervals import mean_intervals
from scipy import stats

T = IntervalOptions(IntervalMethod.T)
FEW = CompareOptions(permutations=1000)


def run(name, *rows, ids=None):
    values = np.array(rows, float)
    return RunValues(name, ids or [f"q{i}" for i in range(values.shape[1])], values)


def one(before, after, options=FEW):
    return compare([run("a", before), run("b", after)], options, T, ["m"])[0]


class TestNumbers:
    before, after = [0.1, 0.5, 0.3, 0.9, 0.4, 0.2], [0.3, 0.5, 0.2, 1.0, 0.9, 0.6]

    def test_tests_equal_scipy(self):
        found = one(self.before, self.after)
        d = np.array(self.after) - np.array(self.before)
        expected = stats.ttest_rel(self.after, self.before)
        assert found.t_test.statistic == pytest.approx(expected.statistic)
        assert found.t_test.p_value == pytest.approx(expected.pvalue)
        low, high = expected.confidence_interval()
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

    @settings(max_examples=25, deadline=None)
    @given(some.lists(some.tuples(some.floats(0, 1), some.floats(0, 1)), min_size=2, max_size=30))
    def test_turned_round_it_says_the_opposite(self, pairs):
        before, after = zip(*pairs, strict=True)
        there, back = one(before, after), one(after, before)
        assert (there.wins, there.losses, there.ties) == (back.losses, back.wins, back.ties)
        for name in ("t_test", "wilcoxon", "permutation"):
            ours, theirs = getattr(there, name), getattr(back, name)
            assert ours.p_value == pytest.approx(theirs.p_value)


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
        found = one([0.1, 0.2, 0.3], [0.1, 0.2, 0.3])
        tests = (found.t_test, found.wilcoxon, found.permutation)
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

    def test_intervals_are_those_of_each_pair_alone(self):
        rng = np.random.default_rng(4)
        ids = [f"q{i}" for i in range(20)]
        baseline = run("a", *rng.random((2, 20)))
        others = [run(f"r{i}", *rng.random((2, 20 - i // 2)), ids=ids[i // 2 :]) for i in range(4)]
        options = IntervalOptions(resamples=100)
        found = compare([baseline, *others], FEW, options, ["m", "n"])
        for j, other in enumerate(others, start=1):
            shared = baseline.values[:, 20 - other.values.shape[1] :]
            expected = mean_intervals(other.values - shared, options)
            made = tuple(c.difference.interval for c in found if c.run == f"r{j - 1}")
            assert made == expected
