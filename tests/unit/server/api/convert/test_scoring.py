from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.v1 import scores_pb2
from judged.values.choices import ClaimVerdict, Source, Status
from judged.values.judges import JudgeIdentity, Usage
from judged.values.scores import DimensionScore, VerifiedClaim
from judged_server import errors
from judged_server.api.convert.scoring import read_answers, read_rubrics, write_score, write_summary
from judged_server.domain import VerdictFault, answers

from tests.fakes.limits import limits

LIMITS = limits(max_contexts=10, max_text_bytes=8, max_groups=6)
IDENTITY = JudgeIdentity.build("answers", "", 0.7, [("rubric", "r@1")], 1)
SHARE = st.floats(0, 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def item(item_id: str, **texts: object) -> scores_pb2.AnswerItem:
    return scores_pb2.AnswerItem(item_id=item_id, **texts)


class TestItems:
    def test_are_read_whole(self):
        message = item("1", query="q", answer="a", references=["r", ""], contexts=["c"])
        assert read_answers([message], 1, LIMITS) == [
            answers.AnswerItem("1", "q", "a", ("r", ""), ("c",))
        ]

    @pytest.mark.parametrize(
        ("items", "rubrics", "path"),
        [
            ([], 1, "items"),
            ([item(str(n)) for n in range(7)], 1, "items"),
            ([item(str(n)) for n in range(6)], 2, "items"),
            ([item("1"), item("")], 1, "items[1].item_id"),
            ([item("1"), item("2"), item("1")], 1, "items[2].item_id"),
            ([item("ü" * 513)], 1, "items[0].item_id"),
            ([item("1", answer="x" * 9)], 1, "items[0].answer"),
            ([item("1", references=["", "x" * 9])], 1, "items[0].references[1]"),
        ],
    )
    def test_refused_by_path(self, items: list[scores_pb2.AnswerItem], rubrics: int, path: str):
        with pytest.raises(errors.InvalidField) as caught:
            read_answers(items, rubrics, LIMITS)
        assert caught.value.field == path

    def test_exactly_the_limit_is_fine(self):
        assert len(read_answers([item(str(n)) for n in range(5)], 2, LIMITS)) == 5


def test_a_bar_of_zero_is_a_threshold():
    unset, zero = read_rubrics(
        [scores_pb2.RubricSpec(rubric="a"), scores_pb2.RubricSpec(rubric="b", min_score=0)]
    )
    assert (unset.min_score, zero.min_score) == (None, 0.0)


@given(
    status=st.sampled_from(Status),
    value=st.none() | SHARE,
    passed=st.none() | st.booleans(),
    agreement=st.none() | SHARE,
    reported=st.none() | SHARE,
    dimensions=st.lists(st.builds(DimensionScore, TEXT, st.none() | SHARE, SHARE)),
    claims=st.lists(
        st.builds(VerifiedClaim, TEXT, st.sampled_from(ClaimVerdict), TEXT), max_size=4
    ),
    source=st.sampled_from(Source),
    texts=st.lists(TEXT, max_size=3),
)
def test_a_score_is_written_whole(
    status, value, passed, agreement, reported, dimensions, claims, source, texts
):
    fault = None if status is Status.OK else VerdictFault(0, "TIMEOUT", "late", True)
    message = write_score(
        answers.AnswerScore(
            "item",
            "rubric",
            status,
            IDENTITY,
            score=value,
            passed=passed,
            raw_replies=tuple(texts),
            usage=Usage(calls=2, cached=1, cost=None),
            samples=3,
            agreement=agreement,
            source=source,
            dimensions=tuple(dimensions),
            reported_overall=reported,
            claims=tuple(claims),
            fault=fault,
            warnings=tuple(texts),
            model="m",
        )
    )
    message = scores_pb2.AnswerScore.FromString(message.SerializeToString())
    assert (message.item_id, message.rubric, message.status) == ("item", "rubric", status)
    for name, wanted in (
        ("score", value),
        ("passed", passed),
        ("agreement", agreement),
        ("reported_overall", reported),
    ):
        assert (getattr(message, name) if message.HasField(name) else None) == wanted
    assert message.min_score == 0.7
    assert (message.samples, message.source, message.model) == (3, source, "m")
    assert list(message.raw_replies) == list(message.warnings) == texts
    assert [
        (each.name, each.score if each.HasField("score") else None, each.weight)
        for each in message.dimensions
    ] == [(each.name, each.score, each.weight) for each in dimensions]
    assert [(each.claim, each.verdict, each.evidence) for each in message.claims] == [
        (each.claim, each.verdict, each.evidence) for each in claims
    ]
    assert message.HasField("error") == (fault is not None)
    assert (message.usage.calls, message.usage.cached) == (2, 1)
    assert not message.usage.HasField("cost")


def test_a_summary_without_scores_has_no_mean():
    rubric = answers.RubricSummary("r", IDENTITY, None, 0, 0, 1, 2, 3)
    message = write_summary(answers.ScoreSummary((rubric,), Usage()))
    (only,) = message.rubrics
    assert not only.HasField("mean")
    assert only.counts == scores_pb2.ScoreCounts(error=1, abstained=2, not_assessable=3)
