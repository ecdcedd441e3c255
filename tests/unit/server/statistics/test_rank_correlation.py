from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.agreement import SystemScores
from judged.values.intervals import IntervalMethod, IntervalOptions
from judged_server.statistics.rank_correlation import rank_agreement

FEW = IntervalOptions(resamples=100)


def rank(first, second):
    return rank_agreement(
        SystemScores([f"system {i}" for i in range(len(first))], first, second), FEW
    )


def test_like_orders_have_one_and_opposite_ones_minus_one():
    same, turned = rank([3, 2, 1], [30, 20, 10]), rank([3, 2, 1], [1, 2, 3])
    assert (same.kendall_tau.value, same.tau_ap.value) == (1.0, 1.0)
    assert (turned.kendall_tau.value, turned.tau_ap.value) == (-1.0, -1.0)


def test_tau_ap_minds_the_top_of_the_second_ranking():
    top, bottom = rank([4, 3, 2, 1], [3, 4, 2, 1]), rank([4, 3, 2, 1], [4, 3, 1, 2])
    assert top.kendall_tau.value == bottom.kendall_tau.value
    assert top.tau_ap.value == pytest.approx(1 / 3)  # 2/3 * (0 + 1 + 1) - 1
    assert bottom.tau_ap.value == pytest.approx(7 / 9)  # 2/3 * (1 + 1 + 2/3) - 1


FIRST, SECOND = [9, 7, 6, 6, 5, 2, 1], [5, 8, 7, 4, 4, 6, 1]


@pytest.mark.parametrize("name", ["kendall_tau", "tau_ap"])
def test_the_jackknife_leaves_out_one_system_after_the_other(name):
    names = list("abcdefg")
    found = rank_agreement(SystemScores(names, FIRST, SECOND), IntervalOptions(IntervalMethod.T))
    without = []
    for i in range(7):
        kept, first, second = (one[:i] + one[i + 1 :] for one in (names, FIRST, SECOND))
        without.append(getattr(rank_agreement(SystemScores(kept, first, second), FEW), name).value)
    error = np.std(without) * np.sqrt(6)
    assert getattr(found, name).interval.standard_error == pytest.approx(error)


def test_a_judge_that_scores_all_alike_leaves_both_undefined():
    found = rank([1, 1, 1], [1, 2, 3])
    assert (found.kendall_tau, found.tau_ap) == (None, None)
    assert any("first judge scores all systems alike" in w for w in found.warnings)


def test_scores_beyond_each_others_range_still_have_signs():
    assert rank([1e308, -1e308, 5e-324], [3, 1, 2]).kendall_tau.value == 1.0


SCORES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=15)


@given(SCORES)
def test_both_stay_in_their_range_and_turn_with_the_second_judge(pairs):
    first, second = zip(*pairs, strict=True)
    found, turned = rank(first, second), rank(first, [-score for score in second])
    for name in ("kendall_tau", "tau_ap"):
        one = getattr(found, name)
        assert one is None or -1 - 1e-12 <= one.value <= 1 + 1e-12
    tau = found.kendall_tau
    assert (turned.kendall_tau is None) is (tau is None)
    assert tau is None or turned.kendall_tau.value == pytest.approx(-tau.value)
