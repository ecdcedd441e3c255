"""The lines of `judged judge`."""

from dataclasses import replace

import pytest
from judged import Context, Flag, ScoredAnswers, Source, Status, Verdict, Verdicts
from judged.cli.commands.judge import judged_line
from judged.cli.commands.score import score_line
from judged.cli.inputs import Line
from judged.values import (
    AnswerScore,
    JudgeIdentity,
    Usage,
    VerdictDetail,
    VerdictSample,
)

LINE = Line(1, {"id": 7, "query": "q", "score": 12.5}, [Context("q", "e", "r")])
JUDGE = JudgeIdentity("fake", "", 0.5, "fake|v1", "", "")


def asking(samples):
    return JudgeIdentity("llm", "", 0.5, f"llm|model:m|samples:{samples}|v1", "", "")


def verdict(status=Status.OK, relevant=True, score=0.75, flags=Flag.NONE, error=None):
    return Verdict(status, relevant, score, Source.COMPUTED, flags, error)


class TestAgreement:
    """One sample agrees with itself, which says nothing."""

    @pytest.mark.parametrize(("samples", "shown"), [(1, None), (3, 1.0), (11, 1.0)])
    def test_of_a_verdict_is_told_where_several_samples_voted(
        self, samples: int, shown: float | None
    ):
        judge = asking(samples)
        one = replace(verdict(), agreement=1.0)
        assert judged_line(LINE, one, judge).get("agreement") == shown
        found = Verdicts([True], [1.0], [Status.OK], [1], [0], [0, 1], {}, judge, [1.0])
        assert found.to_rows()[0]["agreement"] == shown
        assert found.to_dict()["verdicts"][0]["agreement"] == shown

    def test_goes_by_the_votes_where_they_are_known(self):
        voted = VerdictSample(Status.OK, True, 1.0, "", "", "", "", "")
        failed = VerdictSample(Status.ERROR, False, 0.0, "TIMEOUT", "", "", "", "")
        detail = VerdictDetail("", (voted, failed), Usage(), "", "")
        one = replace(verdict(), agreement=1.0, detail=detail)
        assert "agreement" not in judged_line(LINE, one, asking(2))

    @pytest.mark.parametrize(("samples", "shown"), [(1, None), (2, 1.0)])
    def test_of_a_score_is_told_where_several_samples_voted(
        self, samples: int, shown: float | None
    ):
        score = AnswerScore("1", "r", Status.OK, 1.0, True, samples=samples, agreement=1.0)
        assert score_line(score, details=False)["agreement"] == shown
        assert score.to_rows()[0]["agreement"] == shown
        assert score.to_dict()["agreement"] == shown
        whole = ScoredAnswers([score], [], Usage()).to_dict()
        assert whole["scores"][0]["agreement"] == shown
