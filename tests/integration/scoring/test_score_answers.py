"""ScoreAnswers from the stub to the provider and back: a real server, a scripted provider."""

from __future__ import annotations

import pytest
from judged.v1 import scores_pb2, verdicts_pb2
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.fakes.providers.scripted_provider import ScriptedProvider
from tests.integration.scoring.score_requests import (
    item,
    judge_of,
    outcome,
    request,
    score_of,
    scored,
    spec,
)
from tests.integration.scoring.scripted_scores import DIMENSIONS, texts_of


class TestScores:
    def test_every_pair_of_an_item_and_a_rubric_has_one(self, stub: JudgeServiceStub):
        items = [item("a"), item("b", answer="a bad one")]
        scores, summary = scored(
            stub, request(items, spec("helpfulness"), spec("answer_match"), spec("faithfulness"))
        )
        assert {key[0] for key in scores} == {"a", "b"}
        assert len(scores) == 6
        good, bad = scores["a", "helpfulness"], scores["b", "helpfulness"]
        assert (good.score, good.passed, good.reasoning) == (0.9, True, "so it is")
        assert (bad.score, bad.passed) == (0.2, False)
        assert good.agreement == bad.agreement == 1
        assert (good.samples, good.source) == (1, verdicts_pb2.VERDICT_SOURCE_COMPUTED)
        assert good.model == "scripted-1-2024-07-18"
        assert good.system_fingerprint == "fp_scripted"
        judge = judge_of(stub, spec("helpfulness"))
        assert judge.kind == "answers"
        assert judge.signature.startswith("answers|rubric:helpfulness@1|sha:")
        assert [each.rubric for each in summary.rubrics] == [
            "helpfulness",
            "answer_match",
            "faithfulness",
        ]
        first = summary.rubrics[0]
        assert first.mean == pytest.approx(0.55)
        assert (first.counts.ok, first.counts.passed) == (2, 1)
        assert summary.usage.calls == sum(each.usage.calls for each in scores.values()) == 8
        assert summary.usage.cost > 0

    def test_the_bar_is_the_rubrics_own_or_the_requests(self, stub: JudgeServiceStub):
        own = score_of(stub, item(), spec("helpfulness"))
        by_own = judge_of(stub, spec("helpfulness"))
        assert own.min_score == by_own.min_score
        above = score_of(stub, item(), spec("helpfulness", 0.91))
        assert (above.min_score, above.score, above.passed) == (0.91, 0.9, False)
        equal = score_of(stub, item(), spec("helpfulness", 0.9))
        assert equal.passed
        by_above = judge_of(stub, spec("helpfulness", 0.91))
        assert by_own.scoring_key == by_above.scoring_key
        assert by_own.fingerprint != by_above.fingerprint

    def test_samples_vote(self, stub: JudgeServiceStub):
        score = score_of(stub, item(answer="split"), spec("helpfulness", samples=3))
        assert score.score == pytest.approx((0.9 + 0.2 + 0.9) / 3)
        assert score.agreement == pytest.approx(2 / 3)
        assert score.samples == score.usage.calls == 3
        # The mean misses the threshold, though most samples meet it.
        assert not score.passed
        assert score_of(stub, item(answer="split"), spec("helpfulness", 0.6, samples=3)).passed
        tie = score_of(stub, item(answer="split"), spec("helpfulness", samples=2))
        assert outcome(tie) == ("ABSTAINED", "NO_QUORUM")

    def test_items_that_are_alike_are_asked_about_once(
        self, stub: JudgeServiceStub, provider: ScriptedProvider
    ):
        before = provider.requests
        # Neither the id nor the contexts reach this rubric.
        items = [item(str(n), contexts=[f"context {n}"]) for n in range(20)]
        scores, summary = scored(stub, request(items, spec("answer_relevance")))
        assert provider.requests == before + 1
        assert {score.score for score in scores.values()} == {0.9}
        assert sum(score.usage.calls for score in scores.values()) == summary.usage.calls == 1
        assert summary.rubrics[0].counts.ok == 20

    def test_a_fault_of_one_item_changes_no_other(self, stub: JudgeServiceStub):
        rubrics = [spec("helpfulness"), spec("answer_quality"), spec("faithfulness")]
        good = [item("1"), item("2", answer="First. Second contradicted"), item("3", answer="bad")]
        bad = [
            item("4", answer="failing"),
            item("5", answer="refuse"),
            item("6", answer="broken"),
            item("7", answer=" "),
            item("8", query=""),
            item("9", contexts=[]),
        ]
        together, _ = scored(stub, request(bad[:3] + good + bad[3:], *rubrics))
        for one in good:
            alone, _ = scored(stub, request([one], *rubrics))
            for key, score in alone.items():
                beside = together[key]
                for each in (score, beside):
                    each.usage.ClearField("latency")
                assert beside == score
                assert outcome(score) == ("OK", "")
        assert {name: outcome(together[name, "helpfulness"]) for name in "456789"} == {
            "4": ("ERROR", "PROVIDER_ERROR"),
            "5": ("ABSTAINED", "REFUSED"),
            "6": ("ERROR", "SCHEMA"),
            "7": ("NOT_ASSESSABLE", "EMPTY_ANSWER"),
            "8": ("NOT_ASSESSABLE", "NO_CONTEXT"),
            "9": ("OK", ""),
        }


class TestDimensions:
    def test_the_whole_is_computed_here(self, stub: JudgeServiceStub):
        score = score_of(stub, item(), spec("answer_quality"))
        assert score.score == pytest.approx(0.85)
        assert score.reported_overall == 0.5
        assert {each.name: each.score for each in score.dimensions} == pytest.approx(DIMENSIONS)
        assert {each.name: each.weight for each in score.dimensions} == pytest.approx(
            dict.fromkeys(DIMENSIONS, 0.2) | {"confidence": 0}
        )

    def test_weights_may_be_others(self, stub: JudgeServiceStub):
        weights = {"relevance": 3, "completeness": 1}
        rubric = spec("answer_quality", weights=weights)
        score = score_of(stub, item(), rubric)
        assert score.score == pytest.approx(0.75 * 0.9 + 0.25 * 0.8)
        assert (
            "|weights:relevance=0.75,completeness=0.25,accuracy=0,"
            in judge_of(stub, rubric).signature
        )

    def test_nothing_is_asked_when_nothing_could_be_weighed(
        self, stub: JudgeServiceStub, provider: ScriptedProvider
    ):
        before = provider.requests
        rubric = spec("answer_quality", weights={"accuracy": 1})
        assert outcome(score_of(stub, item(contexts=[]), rubric)) == (
            "NOT_ASSESSABLE",
            "NO_CONTEXT",
        )
        assert outcome(score_of(stub, item(answer="\n\t "), rubric)) == (
            "NOT_ASSESSABLE",
            "EMPTY_ANSWER",
        )
        assert provider.requests == before

    def test_contexts_are_cut_to_their_budget(
        self, stub: JudgeServiceStub, provider: ScriptedProvider
    ):
        contexts = ["a" * 30, "é" * 10, "never shown"]
        rubric = spec("answer_quality", max_context_tokens=10)
        score = score_of(stub, item("cut", contexts=contexts), rubric)
        assert texts_of(provider.asked[-1])["contexts"] == ["a" * 30, "é" * 5]
        (warning,) = score.warnings
        assert (
            "truncated to max_context_tokens (10): 2 of 3 were shown, the last in part" in warning
        )
        assert "|max_context_tokens:10|" in judge_of(stub, rubric).signature


class TestClaims:
    def test_the_score_is_the_share_that_is_supported(self, stub: JudgeServiceStub):
        answer = "One. Two contradicted. Three. Four not_enough_info"
        score = score_of(stub, item(answer=answer), spec("faithfulness"))
        assert score.score == 0.5
        assert [(c.claim, scores_pb2.ClaimVerdict.Name(c.verdict)) for c in score.claims] == [
            ("One", "CLAIM_VERDICT_SUPPORTED"),
            ("Two contradicted", "CLAIM_VERDICT_CONTRADICTED"),
            ("Three", "CLAIM_VERDICT_SUPPORTED"),
            ("Four not_enough_info", "CLAIM_VERDICT_NOT_ENOUGH_INFO"),
        ]
        assert score.claims[0].evidence == "on One"
        assert score.usage.calls == 5

    def test_recall_checks_the_facts_of_the_reference(self, stub: JudgeServiceStub):
        asked = item(references=["One. Two contradicted"], answer="")
        score = score_of(stub, asked, spec("context_recall"))
        assert (score.score, [claim.claim for claim in score.claims]) == (
            0.5,
            ["One", "Two contradicted"],
        )
        several = item(references=["One", "Two"])
        (warning,) = score_of(stub, several, spec("context_recall")).warnings
        assert "first of 2" in warning

    def test_a_failed_check_is_no_missing_support(self, stub: JudgeServiceStub):
        answer = "One. Two failing. Three contradicted. Four refuse"
        score = score_of(stub, item(answer=answer), spec("faithfulness"))
        assert outcome(score) == ("ERROR", "PROVIDER_ERROR")
        assert not score.HasField("score")
        assert not score.HasField("passed")
        assert [claim.claim for claim in score.claims] == ["One", "Three contradicted"]
        refused = score_of(stub, item(answer="One. Two refuse"), spec("faithfulness"))
        assert outcome(refused) == ("ABSTAINED", "REFUSED")

    def test_what_there_is_nothing_to_check_of_is_not_assessable(
        self, stub: JudgeServiceStub, provider: ScriptedProvider
    ):
        assert outcome(score_of(stub, item(answer="none"), spec("faithfulness"))) == (
            "NOT_ASSESSABLE",
            "NO_CLAIMS",
        )
        before = provider.requests
        for lacking, rubric, reason in (
            (item(contexts=[]), "faithfulness", "NO_CONTEXT"),
            (item(contexts=["", "\n"]), "context_relevance", "NO_CONTEXT"),
            (item(references=[]), "context_recall", "NO_CONTEXT"),
            (item(references=[]), "answer_match", "NO_CONTEXT"),
            (item(query=" "), "answer_relevance", "NO_CONTEXT"),
            (item(answer=""), "faithfulness", "EMPTY_ANSWER"),
        ):
            score = score_of(stub, lacking, spec(rubric))
            assert outcome(score) == ("NOT_ASSESSABLE", reason)
            assert score.usage.cost == 0
        assert provider.requests == before
