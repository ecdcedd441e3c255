"""Items, rubrics and scores on their way through messages."""

from __future__ import annotations

import pytest
from judged import (
    AnswerItem,
    Asking,
    CacheMode,
    InternalError,
    InvalidArgument,
    Rubric,
    Source,
    Status,
)
from judged._convert.judges import read_identity
from judged._convert.scores import read_score, write_item, write_scores
from judged.v1 import scores_pb2, verdicts_pb2
from judged.v1.error_reason_pb2 import ERROR_REASON_NO_QUORUM
from judged.values import ClaimVerdict, DimensionScore, Usage, VerifiedClaim

from tests.fakes.score_service import IDENTITY, score_of


class TestRubric:
    def test_parameters_may_be_given_by_name(self):
        named = Rubric("x", 0.5, {"temperature": 0.5}, model="m", samples=3)
        assert named == Rubric("x", 0.5, {"temperature": 0.5, "model": "m", "samples": 3})
        with pytest.raises(TypeError, match="samples"):
            Rubric("x", parameters={"samples": 1}, samples=3)

    def test_the_version_is_no_part_of_the_id(self):
        assert (Rubric("x@1").id, Rubric("x@1").rubric, Rubric("x").id) == ("x", "x@1", "x")


class TestWrite:
    def test_everything_travels(self):
        item = AnswerItem("i", "q", "a", ["r"], ["c1", "c2"])
        rubric = Rubric("quality", 0.5, {"samples": 3, "model": "m", "temperature": 0.5}, {"d": 2})
        request = write_scores(
            [item], [rubric], Asking(CacheMode.ONLY, max_cost=2), include_replies=True
        )
        sent, spec = request.items[0], request.rubrics[0]
        assert (sent.item_id, sent.query, sent.answer) == ("i", "q", "a")
        assert (list(sent.references), list(sent.contexts)) == (["r"], ["c1", "c2"])
        assert (spec.rubric, spec.min_score, dict(spec.weights)) == ("quality", 0.5, {"d": 2.0})
        assert spec.parameters["samples"].int_value == 3
        assert spec.parameters["temperature"].double_value == 0.5
        assert spec.parameters["model"].string_value == "m"
        assert request.include_replies
        assert (request.asking.cache, request.asking.max_cost) == (3, 2.0)

    def test_what_is_not_given_stays_unset(self):
        request = write_scores([AnswerItem("i")], [Rubric("a")])
        assert not request.rubrics[0].HasField("min_score")
        assert not request.HasField("asking")

    @pytest.mark.parametrize(
        ("item", "message"),
        [
            (AnswerItem("i", contexts="text"), "contexts: must be a list, not one text"),
            (AnswerItem("i", references=["a", 3]), r"references\[1\]: must be text, not int"),
            (AnswerItem(7.5), "item_id: must be text or a whole number, not float"),
            (AnswerItem("i", answer=b"a\xff"), "answer: must be text, not bytes"),
            (AnswerItem("i", "ab\ud800"), "query: holds a lone surrogate at character 2"),
        ],
    )
    def test_names_the_text_that_cant_be_sent(self, item: AnswerItem, message: str):
        with pytest.raises(InvalidArgument, match=rf"^items\[4\]\.{message}"):
            write_item(item, "items[4]")


class TestRead:
    def test_a_whole_score(self):
        message = score_of("i", "r", 0.75)
        message.reasoning, message.model = "so", "m"
        message.raw_replies.append("x")
        message.dimensions.add(name="accuracy", weight=0.0)
        message.dimensions.add(name="coherence", score=0.75, weight=1.0)
        message.claims.add(claim="c", verdict=2, evidence="e")
        message.reported_overall = 0.25
        message.warnings.append("cut")
        score = read_score(message, read_identity(IDENTITY))
        assert (score.item_id, score.rubric, score.status) == ("i", "r", Status.OK)
        assert (score.score, score.passed, score.min_score, score.agreement) == (0.75, True, 0.7, 1)
        assert score.dimensions == [
            DimensionScore("accuracy", None, 0.0),
            DimensionScore("coherence", 0.75, 1.0),
        ]
        assert score.claims == [VerifiedClaim("c", ClaimVerdict.CONTRADICTED, "e")]
        assert (score.reported_overall, score.warnings) == (0.25, ["cut"])
        assert (score.usage.calls, score.usage.cost) == (1, 0.5)
        assert (score.source, score.model, score.raw_replies) == (Source.COMPUTED, "m", ["x"])
        assert score.judge is not None
        assert score.judge.kind == "answers"

    def test_a_missing_score_has_no_value_even_if_one_was_sent(self):
        message = scores_pb2.AnswerScore(status=3, score=0.0, passed=False)
        message.error.CopyFrom(
            verdicts_pb2.VerdictError(code=2, reason=ERROR_REASON_NO_QUORUM, message="tie")
        )
        score = read_score(message, None)
        assert (score.score, score.passed, score.agreement, score.judge) == (None,) * 4
        assert score.error is not None
        assert score.error.reason == "NO_QUORUM"
        assert score.usage == Usage()

    @pytest.mark.parametrize(
        "message",
        [
            scores_pb2.AnswerScore(),
            scores_pb2.AnswerScore(status=1),
            scores_pb2.AnswerScore(status=1, score=1.0),
            scores_pb2.AnswerScore(status=3, claims=[scores_pb2.VerifiedClaim(claim="c")]),
        ],
    )
    def test_what_makes_no_sense_is_a_fault_of_the_server(self, message):
        with pytest.raises(InternalError):
            read_score(message, None)
