"""Scores, verdicts and what they took, as they come in messages; items on their way out."""

from __future__ import annotations

import pytest
from judged import AnswerItem, InternalError, InvalidArgument, Rubric, Status
from judged._batching.scoring import Scoring, read_score
from judged._convert import read_detail
from judged.v1 import scores_pb2, verdicts_pb2
from judged.v1.error_reason_pb2 import ERROR_REASON_NO_QUORUM
from judged.values import Usage


class TestRubric:
    def test_parameters_may_be_given_by_name(self):
        named = Rubric("x", 0.5, {"temperature": 0.5}, model="m", samples=3)
        assert named == Rubric("x", 0.5, {"temperature": 0.5, "model": "m", "samples": 3})
        with pytest.raises(TypeError, match="samples"):
            Rubric("x", parameters={"samples": 1}, samples=3)

    def test_the_version_is_no_part_of_the_id(self):
        assert (Rubric("x@1").id, Rubric("x@1").rubric, Rubric("x").id) == ("x", "x@1", "x")


class TestWrite:
    @pytest.mark.parametrize(
        ("item", "message"),
        [
            (AnswerItem("i", references=["a", 3]), r"references\[1\]: must be text, not int"),
            (AnswerItem("i", answer=b"a\xff"), "answer: must be text, not bytes"),
            (AnswerItem("i", "ab\ud800"), "query: holds a lone surrogate at character 2"),
        ],
    )
    def test_names_the_text_that_cant_be_sent(self, item: AnswerItem, message: str):
        with pytest.raises(InvalidArgument, match=rf"^items\[4\]\.{message}"):
            Scoring([*(AnswerItem(str(n)) for n in range(4)), item], ["a"]).request()

    def test_an_item_without_an_id_that_can_be_one_is_not_made(self):
        with pytest.raises(InvalidArgument, match=r"^item_id: must be text or a whole number"):
            AnswerItem(7.5)
        with pytest.raises(InvalidArgument, match=r"^contexts: must be a list, not one text"):
            AnswerItem("i", contexts="text")


class TestRead:
    def test_a_missing_score_has_no_value_even_if_one_was_sent(self):
        message = scores_pb2.AnswerScore(status=3, score=0.0, passed=False)
        message.error.CopyFrom(
            verdicts_pb2.VerdictError(code=2, reason=ERROR_REASON_NO_QUORUM, message="tie")
        )
        score = read_score(message, None)
        assert (score.score, score.passed, score.agreement, score.judge) == (None,) * 4
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


class TestUsage:
    def test_adds_up(self):
        first, second = Usage(1, 2, 3, 4, 0.5, 0.25), Usage(10, 20, 30, 40, 0.25, 0.5)
        assert first + second == Usage(11, 22, 33, 44, 0.75, 0.75)

    def test_a_cost_that_is_not_known_makes_the_sum_unknown(self):
        assert (Usage(cost=0.5) + Usage(cost=None)).cost is None
        assert (Usage(cost=None) + Usage(cost=0.5)).cost is None


def test_a_sample_that_is_no_vote_has_neither_decision_nor_score():
    message = verdicts_pb2.VerdictDetail(
        rationale="so",
        samples=[
            verdicts_pb2.VerdictSample(status=1, relevant=False, score=0.0, raw_reply="NO"),
            verdicts_pb2.VerdictSample(status=3, reason="ERROR_REASON_REFUSED"),
        ],
        model="m",
        system_fingerprint="fp",
    )
    detail = read_detail(message)
    vote, refusal = detail.samples
    assert (vote.status, vote.relevant, vote.score, vote.raw_reply) == (Status.OK, False, 0.0, "NO")
    assert (refusal.status, refusal.relevant, refusal.score) == (Status.ABSTAINED, None, None)
    assert (detail.rationale, detail.model, detail.system_fingerprint) == ("so", "m", "fp")
