"""Systems ranked by paired comparisons, against a direct search for the mode of the posterior."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged.values.agreement import RankedSystem
from judged.values.choices import IntervalOptions
from judged_server.statistics.preferences import (
    PRIOR_SD,
    Comparisons,
    position_bias,
    rank_systems,
)
from scipy.optimize import minimize

FEW = IntervalOptions(resamples=200)


def comparisons(rows: list[tuple[int, int, int, float]], n: int = 3) -> Comparisons:
    query, first, second, preference = (list(column) for column in zip(*rows, strict=True))
    return Comparisons(
        np.array(query, np.int64),
        np.array(first, np.int64),
        np.array(second, np.int64),
        np.array(preference, np.float64),
        max(query) + 1,
        [str(place) for place in range(n)],
    )


def strength(system: RankedSystem) -> float:
    assert system.strength.value is not None
    return system.strength.value


def log_posterior(at: np.ndarray, rows: list[tuple[int, int, int, float]]) -> float:
    """Davidson's likelihood, written down a second time, and the prior."""
    total = 0.0
    for _, first, second, preference in rows:
        a, b = np.exp(at[first]), np.exp(at[second])
        tie = np.exp(at[-1]) * np.sqrt(a * b)
        whole = a + b + tie
        total += max(2 * preference - 1, 0) * np.log(a / whole)
        total += (1 - abs(2 * preference - 1)) * np.log(tie / whole)
        total += max(1 - 2 * preference, 0) * np.log(b / whole)
    return total - float(at @ at) / (2 * PRIOR_SD**2)


@st.composite
def some_comparisons(draw):
    n = draw(st.integers(2, 4))
    pair = st.permutations(range(n)).map(lambda order: (order[0], order[1]))
    preference = st.sampled_from([0.0, 0.5, 1.0, 0.75])
    rows = draw(st.lists(st.tuples(st.integers(0, 4), pair, preference), min_size=1, max_size=20))
    return [(query, *both, value) for query, both, value in rows], n


@settings(max_examples=25, deadline=None)
@given(some_comparisons())
def test_the_strengths_are_the_mode_of_the_posterior(case):
    rows, n = case
    ranking = rank_systems(comparisons(rows, n), FEW)
    best = minimize(lambda at: -log_posterior(at, rows), np.zeros(n + 1), options={"gtol": 1e-8})
    strengths = {system.name: strength(system) for system in ranking.systems}
    assert [strengths[str(i)] for i in range(n)] == pytest.approx(best.x[:n].tolist(), abs=1e-4)
    assert ranking.tie == pytest.approx(np.exp(best.x[n]), rel=1e-3)
    assert sum(strengths.values()) == pytest.approx(0, abs=1e-8)


def test_two_systems_have_the_odds_of_their_wins():
    # 30 wins of 40 and no tie: odds of 3 to 1, but for a prior that weighs little.
    rows = [(q, 0, 1, 1.0 if q < 30 else 0.0) for q in range(40)]
    first, second = rank_systems(comparisons(rows, 2), FEW).systems
    assert (first.name, first.wins, first.ties, first.losses) == ("0", 30, 0, 10)
    assert strength(first) - strength(second) == pytest.approx(np.log(3), abs=0.03)
    interval = first.strength.interval
    assert interval.lower < strength(first) < interval.upper


def test_intervals_resample_queries_and_hang_on_the_seed():
    rows = [(q, 0, 1, float(q % 3 > 0)) for q in range(30)]
    again = [rank_systems(comparisons(rows, 2), IntervalOptions(resamples=200, seed=s))
             for s in (1, 1, 2)]  # fmt: skip
    assert again[0] == again[1]
    assert again[0].systems[0].strength.interval != again[2].systems[0].strength.interval
    # Ten times the same comparisons of a query are no more queries.
    repeated = rank_systems(comparisons(rows * 10, 2), FEW).systems[0].strength.interval
    once = rank_systems(comparisons(rows, 2), FEW).systems[0].strength.interval
    assert repeated.standard_error == pytest.approx(once.standard_error, rel=0.1)


def test_the_bias_of_the_place_is_counted():
    bias = position_bias(
        comparisons(
            [
                *[(0, 0, 1, 1.0), (0, 1, 0, 0.0)],  # the same both times
                *[(1, 0, 1, 1.0), (1, 1, 0, 1.0)],  # whoever is first
                *[(2, 0, 1, 0.0), (2, 1, 0, 0.0)],  # whoever is second
                *[(3, 0, 1, 0.5), (3, 1, 0, 1.0)],  # a tie in one order
                *[(4, 0, 1, 0.5), (4, 1, 0, 0.5)],
                (5, 0, 1, 1.0),  # in one order alone
            ]
        )
    )
    assert (bias.pairs, bias.same, bias.first, bias.second, bias.mixed) == (5, 2, 1, 1, 1)
    assert bias.preference_for_first == pytest.approx(5.5 / 10)
    assert position_bias(comparisons([(0, 0, 1, 1.0)])).preference_for_first is None
