from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.groups import VerdictDetail
from judged.values.judges import JudgeIdentity, Usage
from judged_server.domain import (
    ScoreColumns,
    Verdicts,
)

parts = st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), max_size=3)


@given(parts, parts)
def test_different_parts_never_share_a_key(first, second):
    a, b = (JudgeIdentity.build("k", "p", 0.5, given_parts, 1) for given_parts in (first, second))
    assert (a.scoring_key == b.scoring_key) == (first == second)


def test_the_signature_is_one_stable_line():
    identity = JudgeIdentity.build("semantic", "", 0.75, [("model", "m")], 1, [("sha", "0" * 64)])
    assert identity.signature == "semantic|model:m|min_score:0.75|v1"
    assert len(identity.fingerprint) == len(identity.scoring_key) == 64


def test_a_vote_needs_the_majority_and_the_threshold():
    columns = ScoreColumns(np.array([0.9, 0.9, 0.4]), majorities=np.array([True, False, True]))
    assert Verdicts.decide(columns, [0, 3], 0.5).relevant.tolist() == [True, False, False]


def test_a_part_of_verdicts_has_its_part_of_votes_and_details():
    details = {i: VerdictDetail(str(i), (), Usage(), "m", "") for i in range(3)}
    columns = ScoreColumns(
        np.zeros(3),
        majorities=np.array([True, False, True]),
        agreements=np.array([0.5, 0.6, 0.7]),
        details=details,
        usage=Usage(calls=3),
    )
    part = Verdicts.decide(columns, [0, 1, 3], 0.5).of_groups(1, 2).columns
    assert part.majorities.tolist() == [False, True]
    assert part.agreements.tolist() == [0.6, 0.7]
    assert [(index, detail.rationale) for index, detail in part.details.items()] == [
        (0, "1"),
        (1, "2"),
    ]
    assert part.usage is None


def test_usage_adds_up_and_an_unknown_cost_stays_unknown():
    assert Usage(1, 2, 3, 4, 0.5, 0.25) + Usage(1, 1, 1, 1, 0.5, 0.25) == Usage(
        2, 3, 4, 5, 1.0, 0.5
    )
    assert (Usage(cost=None) + Usage()).cost is None
    assert (Usage(cost=None) + Usage(1, 1, cost=0.5)).cost is None
    assert (Usage() + Usage(1, 1, cost=None)).cost is None


@pytest.mark.parametrize("name", [f.name for f in fields(Usage) if f.type in {"int", "float"}])
def test_no_usage_is_lost_on_either_side(name: str) -> None:
    one, more = Usage(**{name: 1}), Usage(1, 1, 1, 1, 0.5, 0.5, 1, 1)
    assert Usage() + one == one + Usage() == one
    assert one + more == more + one
    assert one + one != one
