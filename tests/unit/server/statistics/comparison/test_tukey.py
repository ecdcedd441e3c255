"""Against statsmodels' two-way analysis of variance and SciPy's studentized range."""

import math

import numpy as np
import pytest
from judged_server.statistics.comparison.tukey import tukey_pairs
from scipy import stats


def values(k=4, n=30, seed=2):
    chance = np.random.default_rng(seed)
    return np.round(
        chance.random((k, n)) * 0.4 + chance.random(n) * 0.5 + np.linspace(0, 0.1, k)[:, None], 3
    )


def reference(x, confidence):
    """Return (difference, lower, upper, p) of every pair by an analysis of variance."""
    pandas = pytest.importorskip("pandas")
    from statsmodels.formula.api import ols
    from statsmodels.stats.anova import anova_lm

    k, n = x.shape
    frame = pandas.DataFrame(
        {
            "value": x.ravel(),
            "run": np.repeat([f"r{i}" for i in range(k)], n),
            "topic": np.tile([f"q{i}" for i in range(n)], k),
        }
    )
    table = anova_lm(ols("value ~ C(run) + C(topic)", frame).fit())
    mse = table.loc["Residual", "mean_sq"]
    df = table.loc["Residual", "df"]
    assert df == (k - 1) * (n - 1)
    error = math.sqrt(mse / n)
    reach = stats.studentized_range.ppf(confidence, k, df) * error
    for i in range(k):
        for j in range(i + 1, k):
            difference = x[j].mean() - x[i].mean()
            p = stats.studentized_range.sf(abs(difference) / error, k, df)
            yield difference, difference - reach, difference + reach, p


def test_equals_a_reference_made_by_hand():
    x = values()
    found = tukey_pairs(x, 0.95)
    assert [(pair.first, pair.second) for pair in found] == [
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 2),
        (1, 3),
        (2, 3),
    ]
    for pair, expected in zip(found, reference(x, 0.95), strict=True):
        ours = (pair.difference, pair.interval.lower, pair.interval.upper, pair.p_value)
        assert ours == pytest.approx(expected, abs=1e-6)


def test_an_interval_says_how_it_was_made_and_has_the_error_of_a_difference():
    x = values()
    k, n = x.shape
    residuals = x - x.mean(axis=1)[:, None] - x.mean(axis=0) + x.mean()
    variance = (residuals**2).sum() / ((k - 1) * (n - 1))
    for pair in tukey_pairs(x, 0.9):
        assert pair.interval.signature == "tukey_hsd|runs:4|queries:30|confidence:0.9|v1"
        assert pair.interval.confidence == 0.9
        assert pair.interval.standard_error == pytest.approx(math.sqrt(2 * variance / n))


def test_hard_queries_do_not_blur_the_runs():
    x = values()
    harder = x + np.linspace(0, 50, x.shape[1])
    for before, after in zip(tukey_pairs(x, 0.9), tukey_pairs(harder, 0.9), strict=True):
        assert after.p_value == pytest.approx(before.p_value, abs=1e-9)


def test_two_equal_runs_have_p_1():
    x = values(3)
    x[1] = x[0]
    first = tukey_pairs(x, 0.95)[0]
    assert first.difference == 0.0
    assert first.p_value == pytest.approx(1.0)


def test_is_undefined_where_the_residuals_do_not_vary():
    x = np.add.outer([0.0, 0.1, 0.2], np.linspace(0, 0.5, 9))
    for pair in tukey_pairs(x, 0.95):
        assert (pair.interval, pair.p_value) == (None, 1.0)


@pytest.mark.parametrize(("scale", "varies"), [(1.0, True), (4.0, False)])
def test_residuals_of_rounding_do_not_vary(scale, varies):
    x = np.zeros((3, 4))
    x[0, 0] = 3e-9  # the largest residual is half of it
    pairs = tukey_pairs(x + scale * np.linspace(0, 1, 4), 0.95)
    assert all((pair.interval is not None) == varies for pair in pairs)


def test_many_runs_are_quick_enough():
    assert len(tukey_pairs(values(100, 20), 0.95)) == 4950
