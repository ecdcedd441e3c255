from __future__ import annotations

import numpy as np
import pytest
from judged.values.agreement import SystemScores
from judged.values.intervals import IntervalMethod, IntervalOptions
from judged_server.statistics.agreement import rank_agreement

FEW = IntervalOptions(resamples=100)


def rank(first, second):
    return rank_agreement(
        SystemScores([f"system {i}" for i in range(len(first))], first, second), FEW
    )


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
