"""Probabilities sum to what was asked for and follow the uncertainty; the order keeps to them."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.errors import InvalidArgument
from judged.labelling import drawing_order, inclusion_probabilities

UNCERTAINTY = st.lists(st.floats(0, 10, allow_subnormal=False), min_size=1, max_size=60)


@given(UNCERTAINTY, st.integers(1, 80), st.sampled_from([0.05, 0.25, 1.0]), st.integers(0, 99))
def test_probabilities_sum_to_n_and_all_are_in_the_order(uncertainty, n, share, seed):
    chances = inclusion_probabilities(uncertainty, n, share)
    assert all(0 < chance <= 1 for chance in chances)
    assert math.fsum(chances) == pytest.approx(min(n, len(uncertainty)))
    names = [f"i{i}" for i in range(len(uncertainty))]
    order = drawing_order(names, uncertainty, share, seed=seed)
    assert sorted(order) == list(range(len(uncertainty)))
    assert order == drawing_order(names, uncertainty, share, seed=seed)


def test_a_quarter_is_spread_evenly():
    chances = inclusion_probabilities([0.0] * 50 + [1.0] * 50, 20)
    assert chances[0] == pytest.approx(0.25 * 20 / 100)
    assert chances[-1] == pytest.approx(0.25 * 20 / 100 + 0.75 * 20 / 50)


def test_each_is_drawn_as_often_as_its_probability_says():
    uncertainty = [0.0, 0.1, 0.5, 1.0, 2.0, 0.3] * 20
    names, n, seeds = [f"i{i}" for i in range(120)], 24, 1500
    chances = inclusion_probabilities(uncertainty, n)
    drawn: Counter[int] = Counter()
    for seed in range(seeds):
        drawn.update(i % 6 for i in drawing_order(names, uncertainty, seed=seed)[:n])
    for kind in range(6):  # twenty items of each kind, which makes chance small beside what counts
        share = drawn[kind] / (20 * seeds)
        assert share == pytest.approx(chances[kind], rel=0.03, abs=0.003)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (([1.0], 0), "n"),
        (([1.0], 1, 0.0), "random_share"),
        (([1.0], 1, 1.5), "random_share"),
        (([1.0, -1.0], 1), "uncertainty"),
        (([math.nan], 1), "uncertainty"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, field):
    with pytest.raises(InvalidArgument, match=field):
        inclusion_probabilities(*arguments)
