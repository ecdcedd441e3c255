"""ScoreAnswers from the stub to the provider and back: a real server, a scripted provider."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from judged._convert.verdicts import read_reason
from judged._transport.status import to_error
from judged.v1 import groups_pb2, scores_pb2, verdicts_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Answer, Asked, Failure, Said, ScriptedProvider
from tests.integration.llm_config import llm_config, priced
from tests.integration.server_process import ServerProcess, running_server, until

_BLOCK = re.compile(r'<data-\w+ name="(\w+)">\n(.*)\n</data-')
FIVE = {
    "relevance": 0.9,
    "completeness": 0.8,
    "accuracy": 0.9,
    "source_attribution": 0.85,
    "coherence": 0.8,
    "confidence": 0.1,
}


def texts_of(asked: Asked) -> dict[str, Any]:
    """The texts in a prompt, by name."""
    return {name: json.loads(text) for name, text in _BLOCK.findall(asked.user)}


def reply(asked: Asked) -> dict[str, Any]:
    """What a model says that finds every claim supported but those that say otherwise."""
    texts = texts_of(asked)
    form = asked.body["response_format"]["json_schema"]["schema"]["properties"]
    if "claims" in form:
        text = texts.get("answer") or texts["reference"]
        return {"claims": [part for part in str(text).split(". ") if part != "none"]}
    if "evidence" in form:
        verdict = "SUPPORTED"
        for word in ("CONTRADICTED", "NOT_ENOUGH_INFO"):
            if word.lower() in str(texts["claim"]):
                verdict = word
        return {"evidence": f"on {texts['claim']}", "verdict": verdict}
    if "relevance" in form:
        return {"reasoning": "weighed", **FIVE, "overall": 0.5}
    if "verdict" in form:
        return {"reasoning": "compared", "verdict": "no" if "wrong" in str(texts) else "yes"}
    bad = "bad" in str(texts) or ("split" in str(texts) and asked.body["seed"] == 1)
    why = "so it is" + " " * (20_000 if "at length" in str(texts) else 0)
    return {"reasoning": why, "score": 0.2 if bad else 0.9}


async def script(asked: Asked) -> Said:
    """Reply, or fail as a word in the texts says; claims are always listed."""
    texts = texts_of(asked)
    form = asked.body["response_format"]["json_schema"]["schema"]["properties"]
    judged = "" if "claims" in form else str(texts.get("claim") or texts)
    if "slow" in judged:
        return Answer(json.dumps(reply(asked)), delay_s=600)
    if "failing" in judged:
        return Failure(400)
    if "refuse" in judged:
        return Answer("", refusal="I can't help with that.")
    if "broken" in judged:
        return '{"score": 1.7}'
    return reply(asked)


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with provider_on_a_thread(script) as running:
        yield running


@pytest.fixture(scope="module")
def llm_server(
    provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    config = llm_config(tmp_path_factory.mktemp("llm"), provider, {"small": priced(1.0, 2.0)})
    with running_server("--llm-config", config, "--llm-cache", "memory") as ready:
        yield ready


@pytest.fixture
def stub(llm_server: ServerProcess) -> Iterator[JudgeServiceStub]:
    with grpc.insecure_channel(llm_server.address) as channel:
        yield JudgeServiceStub(channel)


def item(item_id: str = "1", **texts: object) -> scores_pb2.AnswerItem:
    given = {"query": "q", "answer": "an answer", "references": ["r"], "contexts": ["c"]}
    return scores_pb2.AnswerItem(**{"item_id": item_id, **given, **texts})


def spec(
    rubric: str, min_score: float | None = None, **parameters: object
) -> scores_pb2.RubricSpec:
    weights = parameters.pop("weights", {})
    kinds = {int: "int_value", float: "double_value", str: "string_value"}
    values = {n: groups_pb2.ParameterValue(**{kinds[type(v)]: v}) for n, v in parameters.items()}
    return scores_pb2.RubricSpec(
        rubric=rubric, min_score=min_score, parameters=values, weights=weights
    )


def request(
    items: list[scores_pb2.AnswerItem], *rubrics: scores_pb2.RubricSpec, **options: object
) -> pb.ScoreAnswersRequest:
    # Refreshed, so that no test finds what another has asked.
    asking = groups_pb2.AskingOptions(cache=groups_pb2.CACHE_MODE_REFRESH)
    return pb.ScoreAnswersRequest(
        **{"items": items, "rubrics": rubrics, "asking": asking, **options}
    )


Scores = dict[tuple[str, str], scores_pb2.AnswerScore]


def scored(
    stub: JudgeServiceStub, asked: pb.ScoreAnswersRequest, timeout: float = 30
) -> tuple[Scores, scores_pb2.ScoreSummary]:
    """The scores by item and rubric, and the summary, which must be the last message."""
    first, *messages = stub.ScoreAnswers(asked, timeout=timeout)
    assert first.WhichOneof("message") == "started"
    assert len(first.started.judges) == len(asked.rubrics)
    assert [m.WhichOneof("message") for m in messages[:-1]] == ["score"] * (len(messages) - 1)
    scores = {(m.score.item_id, m.score.rubric): m.score for m in messages[:-1]}
    assert len(scores) == len(messages) - 1
    return scores, messages[-1].summary


def score_of(
    stub: JudgeServiceStub, one: scores_pb2.AnswerItem, rubric: scores_pb2.RubricSpec
) -> scores_pb2.AnswerScore:
    scores, _ = scored(stub, request([one], rubric))
    return scores[one.item_id, rubric.rubric]


def judge_of(stub: JudgeServiceStub, rubric: scores_pb2.RubricSpec) -> verdicts_pb2.JudgeIdentity:
    # To its end: a call left behind would ask the provider while another test counts.
    first, *_ = stub.ScoreAnswers(request([item("judge")], rubric), timeout=30)
    return first.started.judges[0]


def outcome(score: scores_pb2.AnswerScore) -> tuple[str, str]:
    return verdicts_pb2.VerdictStatus.Name(score.status).removeprefix(
        "VERDICT_STATUS_"
    ), read_reason(score.error.reason)


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

    def test_nothing_was_kept_of_the_replies_unless_asked_for(self, stub: JudgeServiceStub):
        asked = request([item()], spec("helpfulness", samples=2))
        (score,) = scored(stub, asked)[0].values()
        assert score.raw_replies == []
        asked.include_replies = True
        (score,) = scored(stub, asked)[0].values()
        said = [{"reasoning": "so it is", "score": 0.9}] * 2
        assert [json.loads(raw) for raw in score.raw_replies] == said

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

    def test_a_temperature_makes_three_samples(self, stub: JudgeServiceStub):
        assert score_of(stub, item(), spec("helpfulness", temperature=0.5)).samples == 3
        one = score_of(stub, item(), spec("helpfulness", temperature=0.5, samples=1))
        assert one.samples == one.usage.calls == 1

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
        assert {each.name: each.score for each in score.dimensions} == pytest.approx(FIVE)
        assert {each.name: each.weight for each in score.dimensions} == pytest.approx(
            dict.fromkeys(FIVE, 0.2) | {"confidence": 0}
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

    def test_without_contexts_two_are_not_assessable(self, stub: JudgeServiceStub):
        score = score_of(stub, item(contexts=[" "]), spec("answer_quality"))
        assert score.score == pytest.approx((0.9 + 0.8 + 0.8) / 3)
        unset = {each.name for each in score.dimensions if not each.HasField("score")}
        assert unset == {"accuracy", "source_attribution"}
        assert sum(each.weight for each in score.dimensions) == pytest.approx(1)
        (warning,) = score.warnings
        assert "accuracy, source_attribution" in warning

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

    def test_replies_are_those_of_both_steps_in_order(self, stub: JudgeServiceStub):
        asked = request([item(answer="One. Two")], spec("faithfulness"), include_replies=True)
        (score,) = scored(stub, asked)[0].values()
        first, *checks = map(json.loads, score.raw_replies)
        assert first == {"claims": ["One", "Two"]}
        assert [check["evidence"] for check in checks] == ["on One", "on Two"]


class TestLife:
    def test_scores_come_as_they_are_done(self, stub: JudgeServiceStub, provider: ScriptedProvider):
        asked = request([item("1", answer="slow"), item("2")], spec("helpfulness"))
        call = stub.ScoreAnswers(asked, timeout=30)
        assert next(call).HasField("started")
        assert next(call).score.item_id == "2"
        call.cancel()
        until(lambda: provider.in_flight == 0)

    def test_what_is_late_is_a_timeout_and_the_stream_ends_in_time(self, stub: JudgeServiceStub):
        items = [item("1", answer="slow"), item("2"), item("3", answer="One. Two slow. Three")]
        asked = request(items, spec("helpfulness"), spec("faithfulness"))
        # A stream that outlasts its deadline raises.
        scores, summary = scored(stub, asked, timeout=4)
        assert outcome(scores["1", "helpfulness"]) == ("ERROR", "TIMEOUT")
        assert scores["1", "helpfulness"].error.retryable
        assert outcome(scores["2", "helpfulness"]) == ("OK", "")
        assert outcome(scores["3", "faithfulness"]) == ("ERROR", "TIMEOUT")
        assert [claim.claim for claim in scores["3", "faithfulness"].claims] == ["One", "Three"]
        assert summary.rubrics[0].counts.error == 2
        assert summary.rubrics[0].mean == 0.9

    def test_a_cancel_ends_the_calls_under_way(
        self, stub: JudgeServiceStub, provider: ScriptedProvider
    ):
        until(lambda: provider.in_flight == 0)
        items = [item(str(n), answer=f"slow {n}") for n in range(8)]
        call = stub.ScoreAnswers(request(items, spec("helpfulness")), timeout=30)
        until(lambda: provider.in_flight == 8)
        call.cancel()
        until(lambda: provider.in_flight == 0)

    def test_a_slow_reader_stops_the_work(self, stub: JudgeServiceStub, provider: ScriptedProvider):
        items = [item(str(n), answer=f"{n} at length") for n in range(3000)]
        before = provider.requests
        call = stub.ScoreAnswers(
            request(items, spec("helpfulness"), include_replies=True), timeout=100
        )
        next(call)
        next(call)
        seen = [-1, provider.requests]
        while seen[-1] != seen[-2]:  # until nothing more is asked
            time.sleep(0.5)
            seen.append(provider.requests)
        assert seen[-1] < before + 3000
        assert len(list(call)) == 3000
        assert provider.requests == before + 3000


class TestCache:
    def test_a_score_that_was_asked_for_before_takes_nothing(
        self, stub: JudgeServiceStub, provider: ScriptedProvider
    ):
        rubrics = [spec("helpfulness", samples=2), spec("answer_quality"), spec("faithfulness")]
        asked = request([item(answer="Kept. Kept too")], *rubrics, asking=None)
        first, taken = scored(stub, asked)
        assert taken.usage.cached == 0
        before = provider.requests
        second, nothing = scored(stub, asked)
        assert provider.requests == before
        assert (nothing.usage.calls, nothing.usage.cost) == (0, 0)
        assert nothing.usage.cached == taken.usage.calls == 6
        for key, score in second.items():
            assert score.source == verdicts_pb2.VERDICT_SOURCE_CACHE
            assert score.score == first[key].score
            assert score.claims == first[key].claims
            assert score.model == first[key].model
        # Neither another threshold nor other weights ask anew.
        others = [
            spec("helpfulness", 0.99, samples=2),
            spec("answer_quality", weights={"coherence": 1}),
        ]
        again, _ = scored(stub, request([item(answer="Kept. Kept too")], *others, asking=None))
        assert provider.requests == before
        assert again["1", "answer_quality"].score == pytest.approx(0.8)
        assert not again["1", "helpfulness"].passed

    def test_one_more_sample_is_computed(self, stub: JudgeServiceStub, provider: ScriptedProvider):
        asked = item(answer="sampled")
        scored(stub, request([asked], spec("helpfulness"), asking=None))
        before = provider.requests
        more, _ = scored(stub, request([asked], spec("helpfulness", samples=3), asking=None))
        (score,) = more.values()
        assert provider.requests == before + 2
        assert score.source == verdicts_pb2.VERDICT_SOURCE_COMPUTED
        assert (score.usage.cached, score.usage.calls) == (1, 2)

    def test_only_the_cache_may_answer(self, stub: JudgeServiceStub, provider: ScriptedProvider):
        only = groups_pb2.AskingOptions(cache=groups_pb2.CACHE_MODE_ONLY)
        asked = item(answer="never asked")
        scores, _ = scored(stub, request([asked], spec("faithfulness"), asking=only))
        (score,) = scores.values()
        assert outcome(score) == ("ERROR", "NOT_CACHED")
        assert score.error.code == grpc.StatusCode.FAILED_PRECONDITION.value[0]
        # What an earlier test left may come as late as now, so its number says nothing.
        assert not any("never asked" in str(request.body) for request in provider.asked)

    def test_what_is_beyond_the_budget_is_not_asked(
        self, stub: JudgeServiceStub, provider: ScriptedProvider
    ):
        before = provider.requests
        little = groups_pb2.AskingOptions(cache=groups_pb2.CACHE_MODE_REFRESH, max_cost=1e-7)
        scores, _ = scored(stub, request([item()], spec("helpfulness"), asking=little))
        assert outcome(scores["1", "helpfulness"]) == ("ERROR", "BUDGET")
        assert provider.requests == before


class TestRefusals:
    def refused(self, stub: JudgeServiceStub, asked: pb.ScoreAnswersRequest):
        with pytest.raises(grpc.RpcError) as caught:
            list(stub.ScoreAnswers(asked, timeout=20))
        return to_error(caught.value, "here")

    def test_an_unknown_rubric_is_answered_with_those_there_are(self, stub: JudgeServiceStub):
        error = self.refused(stub, request([item()], spec("helpfullness")))
        assert (error.code, error.reason) == ("NOT_FOUND", "UNKNOWN_RUBRIC")
        assert "helpfulness" in error.message
        assert "retrieval_match" not in error.message

    def test_a_rubric_of_two_texts_is_no_rubric_of_answers(self, stub: JudgeServiceStub):
        error = self.refused(stub, request([item()], spec("helpfulness"), spec("retrieval_match")))
        assert (error.code, error.field) == ("INVALID_ARGUMENT", "rubrics[1].rubric")
        assert "judge llm" in error.message

    def test_an_unknown_model_is_a_failed_precondition(self, stub: JudgeServiceStub):
        error = self.refused(stub, request([item()], spec("helpfulness", model="gpt")))
        assert (error.code, error.reason) == ("FAILED_PRECONDITION", "PROVIDER_NOT_CONFIGURED")
        assert "small" in error.message

    def test_without_a_model_the_next_step_is_named(self, server_address: str):
        with grpc.insecure_channel(server_address) as channel:
            error = self.refused(JudgeServiceStub(channel), request([item()], spec("helpfulness")))
        assert error.code == "FAILED_PRECONDITION"
        assert "--llm-config" in error.message


class TestServerInfo:
    def test_lists_the_judge_and_what_rubrics_read(self, stub: JudgeServiceStub):
        info = stub.GetServerInfo(pb.GetServerInfoRequest())
        (offer,) = (judge for judge in info.judges if judge.kind == "answers")
        assert {parameter.name for parameter in offer.parameters} == {
            "model",
            "samples",
            "temperature",
            "max_tokens",
            "max_context_tokens",
        }
        assert offer.signature.startswith("answers|")
        rubrics = {rubric.rubric: rubric for rubric in info.rubrics}
        assert rubrics["faithfulness"].form == "claims"
        assert list(rubrics["helpfulness"].fields) == ["query", "answer"]
        assert rubrics["answer_quality"].dimensions["relevance"] == 1
