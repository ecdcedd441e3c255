"""The flags of the judge `llm`."""

from dataclasses import replace

import pytest
from judged import JudgeIdentity, Status, Usage, VerdictDetail, Verdicts, VerdictSample
from judged.cli.llm import (
    describe_usage,
    detail_document,
    llm_parameters,
    named_as_typed,
    usage_document,
    vote_warnings,
    with_parameters,
)
from judged.cli.problems import Problem

IDENTITY = JudgeIdentity("llm", "", 0.5, "llm|v1", "", "")


class TestParameters:
    def test_are_those_that_were_given(self):
        given = llm_parameters("llm", "small", 3, 0.0, None)
        assert given == ["model=small", "samples=3", "temperature=0.0"]
        assert llm_parameters("exact", None, None, None, None) == []

    @pytest.mark.parametrize("kind", [None, "exact"])
    def test_are_for_one_judge_only(self, kind):
        with pytest.raises(Problem, match="--judge-max-tokens: is for --judge llm"):
            llm_parameters(kind, None, None, None, 9)

    def test_stand_beside_others(self):
        assert with_parameters(["samples=3"], None) == ["samples=3"]
        assert with_parameters(["samples=3"], ["rubric=r"]) == ["samples=3", "rubric=r"]
        with pytest.raises(Problem, match=r"^--param max_tokens: is given by --judge-max-tokens"):
            with_parameters(["max_tokens=9"], ["max_tokens=8"])


class TestNames:
    @pytest.mark.parametrize(
        ("problem", "named"),
        [
            ("--param max_tokens: must be 1: no", "--judge-max-tokens: must be 1: no"),
            ("--param samples: must be 1", "--param samples: must be 1"),
            ("max_tokens: must be 1", "max_tokens: must be 1"),
            ("out of max_tokens", "out of max_tokens"),
        ],
    )
    def test_are_those_that_were_typed(self, problem, named):
        with pytest.raises(Problem) as caught, named_as_typed(["max_tokens=0"]):
            raise Problem(problem)
        assert str(caught.value) == named


class TestUsage:
    def test_is_one_line(self):
        line = describe_usage(Usage(1, 2, 30, 4, 0.00123, 1.0))
        assert line == "1 call answered in 2 tries, 30 input and 4 output tokens, cost 0.00123"

    def test_without_a_price_there_is_no_cost(self):
        assert describe_usage(Usage(2, 1, 0, 0, None)).startswith("2 calls answered in 1 try,")
        assert "cost" not in describe_usage(Usage(cost=None))

    def test_is_in_the_document_when_somebody_was_asked(self):
        assert usage_document(None) == {}
        assert usage_document(Usage(cost=None))["usage"]["cost"] is None


def test_votes_on_both_sides_are_a_warning():
    columns = [True] * 3, [1.0] * 3, [1, 1, 3], [1] * 3, [0] * 3
    verdicts = Verdicts(*columns, [0, 3], {}, IDENTITY, agreement=[1.0, 2 / 3, 0.0])
    (warning,) = vote_warnings(verdicts)
    assert warning.startswith("1 of 3 verdicts has votes on both sides")
    (warning,) = vote_warnings(replace(verdicts, agreement=[0.5, 2 / 3, 0.0]))
    assert warning.startswith("2 of 3 verdicts have votes on both sides")


def test_the_document_of_a_detail_names_statuses():
    sample = VerdictSample(Status.ABSTAINED, None, None, "REFUSED", "", "no")
    document = detail_document(VerdictDetail("", [sample], Usage(), "m", ""))
    assert document["samples"][0]["status"] == "ABSTAINED"
    assert document["samples"][0]["score"] is None
