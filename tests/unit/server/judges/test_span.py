from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.domain import Group, JudgeSpec, Sides
from judged_server.judges.base import cut_slices
from judged_server.judges.lexical import SpanKind

TOP = 2**64 - 1


def spans(*of):
    return np.array(of, np.uint64).reshape(-1, 3)


def group(expected, retrieved):
    return Group("", "", (), (), spans=Sides(spans(*expected), spans(*retrieved)))


def score(groups, measure="iou"):
    judge = SpanKind().build(JudgeSpec("span", parameters={"measure": measure}))
    return judge.score(groups).scores.tolist()


def exactly(expected, retrieved, measure):
    """The overlap in fractions, from the definition."""
    shared = min(expected[2], retrieved[2]) - max(expected[1], retrieved[1])
    if expected[0] != retrieved[0] or shared <= 0:
        return Fraction(0)
    n_expected, n_retrieved = expected[2] - expected[1], retrieved[2] - retrieved[1]
    whole = n_expected if measure == "containment" else n_expected + n_retrieved - shared
    return Fraction(shared, whole)


@st.composite
def some_span(draw):
    start, end = sorted(
        draw(st.sets(st.integers(0, TOP) | st.integers(0, 9), min_size=2, max_size=2))
    )
    return draw(st.integers(0, 2)), start, end


@pytest.mark.parametrize("measure", ["iou", "containment"])
class TestScore:
    @given(expected=st.lists(some_span(), max_size=5), retrieved=st.lists(some_span(), max_size=5))
    def test_is_the_definition_retrieved_major(self, measure, expected, retrieved):
        found = score([group(expected, retrieved)], measure)
        wanted = [exactly(e, r, measure) for r in retrieved for e in expected]
        assert found == pytest.approx([float(value) for value in wanted], rel=1e-12, abs=0)
        assert all(0 <= value <= 1 for value in found)

    def test_groups_come_one_after_the_other(self, measure):
        one, two = group([(0, 0, 4)], [(0, 0, 4)]), group([(0, 0, 4)], [(0, 4, 8)])
        nothing = group([], [(0, 1, 2)])
        assert score([one, nothing, two], measure) == [1.0, 0.0]
        assert score([], measure) == []


def test_cutting_a_group_changes_no_score():
    rng = np.random.default_rng(3)
    ends = [(int(f), int(s), int(s + n)) for f, s, n in rng.integers(1, 50, (400, 3))]
    whole = group(ends[:90], ends[90:])
    parts = list(cut_slices([whole], 40_000))
    assert len(parts) > 20
    assert [s for part in parts for s in score(part)] == score([whole])


def test_worked_values():
    """The table of docs/semantics.md."""
    retrieved = [(0, 10, 20), (0, 0, 40), (0, 15, 25), (0, 20, 30), (1, 10, 20)]
    one = group([(0, 10, 20)], retrieved)
    assert score([one]) == [1.0, 0.25, pytest.approx(1 / 3), 0.0, 0.0]
    assert score([one], "containment") == [1.0, 1.0, 0.5, 0.0, 0.0]
