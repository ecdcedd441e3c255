from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import Source, Status
from judged_server.domain import ScoreColumns, VerdictFault, Verdicts
from judged_server.judges.panel import MAJORITY, MEAN, WEIGHTED, tally_votes

OUTCOMES = ("yes", "no", "abstained", "failed", "nothing")
STATUS = {
    "yes": Status.OK,
    "no": Status.OK,
    "abstained": Status.ABSTAINED,
    "failed": Status.ERROR,
    "nothing": Status.NOT_ASSESSABLE,
    "lacking": Status.ERROR,
}
REASON = {
    "abstained": "REFUSED",
    "failed": "TIMEOUT",
    "nothing": "NO_CONTEXT",
    "lacking": "NOT_CACHED",
}
YES_SCORE, NO_SCORE = 0.8, 0.3
GIVEN = (Source.COMPUTED, Source.CACHE, Source.SHARED)
"""What judges say; a replay is made by clients."""


def member(outcomes: list[str], scores: list[float] | None = None) -> Verdicts:
    """A member under the threshold .5 with these outcomes."""
    given_scores = scores or [
        {"yes": YES_SCORE, "no": NO_SCORE}.get(outcome, 0.0) for outcome in outcomes
    ]
    statuses = np.array([STATUS[outcome] for outcome in outcomes], np.uint8)
    faults = tuple(
        VerdictFault(i, REASON[outcome], "m", outcome == "failed")
        for i, outcome in enumerate(outcomes)
        if outcome in REASON
    )
    columns = ScoreColumns(
        np.array(given_scores), statuses if (statuses != Status.OK).any() else None, faults=faults
    )
    return Verdicts.decide(columns, (), 0.5)


def all_votes(
    *members: Verdicts, weights: tuple[float, ...] | None = None
) -> tuple[tuple[Verdicts, ...], tuple[float, ...]]:
    return members, weights or (1.0,) * len(members)


def expected(votes: tuple[str, ...], rule: str, weights: tuple[int, ...]) -> tuple[object, ...]:
    """Status, score, relevant at .5, agreement and reason, by the definition, in exact numbers."""
    weights = weights if rule == WEIGHTED else (1,) * len(votes)
    yes = sum(w for v, w in zip(votes, weights, strict=True) if v == "yes")
    no = sum(w for v, w in zip(votes, weights, strict=True) if v == "no")
    if yes + no == 0:
        for kind in ("failed", "abstained", "nothing"):
            if kind in votes:
                return STATUS[kind], 0.0, False, 0.0, REASON[kind]
    if 2 * (yes + no) < sum(weights) or (rule == MAJORITY and yes == no):
        return Status.ABSTAINED, 0.0, False, 0.0, "NO_QUORUM"
    if rule == MAJORITY:
        score = Fraction(yes, yes + no)
    else:
        score = (yes * Fraction(8, 10) + no * Fraction(3, 10)) / (yes + no)
    agreement = float(Fraction(max(yes, no), yes + no))
    return Status.OK, float(score), score >= Fraction(1, 2), agreement, None


@pytest.mark.parametrize("rule", [MAJORITY, MEAN, WEIGHTED])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_vote_of_up_to_four_members(rule: str, size: int):
    cases = list(product(OUTCOMES, repeat=size))
    weights = (1, 2, 4, 7)[:size]
    members = [member([case[place] for case in cases]) for place in range(size)]
    columns = tally_votes(*all_votes(*members, weights=tuple(map(float, weights))), rule, None)
    verdicts = Verdicts.decide(columns, (), 0.5)
    reasons = {fault.index: fault.reason for fault in columns.faults}
    statuses = columns.statuses
    agreements = columns.agreements
    for i, case in enumerate(cases):
        status, score, relevant, agreement, reason = expected(case, rule, weights)
        found = Status(int(statuses[i])), bool(verdicts.relevant[i]), reasons.get(i)
        assert found == (status, relevant, reason), case
        assert columns.scores[i] == pytest.approx(score, abs=1e-12), case
        assert agreements[i] == pytest.approx(agreement, abs=1e-12), case


def test_a_low_bar_does_not_make_a_minority_relevant():
    columns = tally_votes(
        *all_votes(member(["yes"]), member(["no"]), member(["no"])), MAJORITY, None
    )
    assert columns.scores.tolist() == [1 / 3]
    assert Verdicts.decide(columns, (), 0.1).relevant.tolist() == [False]


def test_the_rest_does_not_vote_without_a_member_whose_reply_is_not_cached():
    members = member(["yes", "yes"]), member(["yes", "no"]), member(["lacking", "yes"])
    columns = tally_votes(*all_votes(*members), MEAN, None)
    assert columns.statuses.tolist() == [Status.ERROR, Status.OK]
    [fault] = columns.faults
    assert (fault.index, fault.reason) == (0, "NOT_CACHED")
    assert fault.message == "members[2] of the panel: m"
    assert columns.scores[0] == 0


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(
            st.none() | st.lists(st.sampled_from(GIVEN), min_size=n, max_size=n),
            min_size=1,
            max_size=4,
        ).map(lambda sources: (n, sources))
    )
)
def test_a_verdict_comes_from_where_those_of_all_members_came(
    drawn: tuple[int, list[list[Source] | None]],
):
    n, sources = drawn
    members = [
        Verdicts.decide(
            ScoreColumns(np.ones(n), sources=None if each is None else np.array(each, np.uint8)),
            (),
            0.5,
        )
        for each in sources
    ]
    found = tally_votes(*all_votes(*members), MEAN, None).sources
    for index in range(n):
        seen = {Source.COMPUTED if each is None else each[index] for each in sources}
        want = Source.SHARED
        if seen == {Source.CACHE}:
            want = Source.CACHE
        elif Source.COMPUTED in seen:
            want = Source.COMPUTED
        assert (Source.COMPUTED if found is None else found[index]) == want
    assert found is None or (found != Source.COMPUTED).any()
