"""Probabilities sum to what was asked for and follow the uncertainty; the order keeps to them."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.errors import InvalidArgument
from judged.labelling import bands, drawing_order, inclusion_probabilities, stratified_order

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


@given(UNCERTAINTY, st.integers(1, 30))
def test_who_is_less_certain_is_not_less_likely(uncertainty, n):
    chances = inclusion_probabilities(uncertainty, n)
    ranked = sorted(zip(uncertainty, chances, strict=True))
    assert all(a[1] <= b[1] + 1e-12 for a, b in pairwise(ranked))


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


def test_an_item_keeps_its_place_among_others():
    names = [f"i{i}" for i in range(50)]
    order = [names[i] for i in drawing_order(names, [1.0] * 50, seed=3)]
    fewer = [names[i] for i in drawing_order(names[:30], [1.0] * 30, seed=3)]
    assert [name for name in order if name in names[:30]] == fewer


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


def test_strata_take_turns_by_their_share_of_the_labels():
    strata = [0] * 60 + [1] * 40
    uncertainty = [0.1] * 60 + [0.4] * 40
    names = [f"i{i}" for i in range(100)]
    order = stratified_order(names, strata, uncertainty, 0.25, seed=5)
    assert sorted(order) == list(range(100))
    share = 0.25 * 0.6 + 0.75 * 6 / 22  # of items, and of their uncertainty
    for n in range(1, 50):
        taken = sum(strata[i] == 0 for i in order[:n])
        assert abs(taken - share * n) <= 1
    assert order != stratified_order(names, strata, uncertainty, 0.25, seed=6)


def test_within_a_stratum_items_are_drawn_evenly():
    strata, names = [0] * 8 + [1] * 32, [f"i{i}" for i in range(40)]
    uncertainty = [0.1, 0.9] * 20  # of no matter within a stratum
    drawn: Counter[int] = Counter()
    for seed in range(2000):
        order = stratified_order(names, strata, uncertainty, 1.0, seed=seed)
        drawn.update(order[:10])
    for i in range(40):
        assert drawn[i] / 2000 == pytest.approx(0.25, abs=0.04)


def test_bands_hold_as_many_labels_each_and_keep_equal_beliefs_together():
    beliefs = [i / 200 for i in range(201)]
    found = bands(beliefs, 4)
    assert found == sorted(found)
    assert set(found) == {0, 1, 2, 3}
    order = stratified_order(
        [str(b) for b in beliefs], found, [math.sqrt(b * (1 - b)) for b in beliefs]
    )
    assert all(abs(Counter(found[i] for i in order[:40])[band] - 10) <= 1 for band in range(4))
    assert bands([0.0, 1.0, 1.0], 5) == [0, 1, 1]
    with pytest.raises(InvalidArgument, match="must be 2 or more"):
        bands(beliefs, 1)
