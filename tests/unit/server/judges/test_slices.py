from __future__ import annotations

from dataclasses import fields

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from judged.values.groups import VerdictDetail
from judged.values.judges import Usage
from judged_server.domain import Group, ScoreColumns, VerdictFault, Verdicts
from judged_server.judges.base import (
    cut_slices,
    group_cost,
    join_columns,
)

texts = st.lists(st.integers(0, 80).map(lambda n: "x" * n), max_size=8)
groups = st.lists(st.builds(Group, st.just(""), st.just("q"), texts, texts), max_size=6)


def contexts(group: Group) -> list[tuple[str, str, str]]:
    return [(group.query, e, r) for r in group.retrieved for e in group.expected]


@given(groups, st.integers(1, 600))
def test_slices_hold_every_context_once_and_in_order(whole, limit):
    slices = list(cut_slices(whole, limit))
    flat = [c for part in slices for group in part for c in contexts(group)]
    assert flat == [c for group in whole for c in contexts(group)]
    for part in slices:
        if sum(map(group_cost, part)) > limit:  # only what can't be cut is above the limit
            assert len(part) == 1
            assert len(part[0].retrieved) <= 1


def test_joining_what_was_cut_gives_every_column_back():
    """Those that a judge of slices begins to fill one day too."""
    columns = {each.name: np.arange(6) for each in fields(ScoreColumns) if each.name != "usage"}
    columns["faults"] = tuple(VerdictFault(index, "TIMEOUT", "late") for index in (0, 3))
    details = (VerdictDetail(str(number), (), Usage(), "m", "") for number in range(2))
    columns["details"] = dict(zip((1, 5), details, strict=True))
    whole = ScoreColumns(**columns)
    verdicts = Verdicts(np.zeros(6, np.bool_), whole, [0, 2, 3, 6])
    joined = join_columns([verdicts.of_groups(i, i + 1).columns for i in range(3)])
    for name, column in columns.items():
        assert np.array_equal(getattr(joined, name), column), name
