"""The judge `llm` over a provider on a real socket, in this process."""

from __future__ import annotations

import asyncio
import random

import pytest
from judged_server.domain import JudgeSpec, QueryGroup, ScoreColumns, Verdicts
from judged_server.judges.base import Caller
from judged_server.judges.catalog import JudgeCatalog
from judged_server.judges.llm.judge import LlmJudge, LlmKind
from judged_server.llm.caller import ModelCaller
from judged_server.llm.models import ChatModels
from judged_server.llm.rubrics.loading import load_builtin, parse

from tests.fakes.providers.scripted_models import (
    note_classes,
    others_than,
    provider_and_models,
    texts_of,
    until,
)
from tests.fakes.providers.scripted_provider import Answer, Asked, Failure, Said

PATIENT = Caller()


def verdict(answer: str, reasoning: str = "so it is") -> dict[str, str]:
    return {"reasoning": reasoning, "verdict": answer}


def by_text(asked: Asked) -> Said:
    """Do what the retrieved text says."""
    text = texts_of(asked)["retrieved_text"]
    said: dict[str, Said] = {
        "yes": verdict("yes"),
        "no": verdict("no"),
        "refuse": Answer("", refusal="I can't help with that."),
        "prose": "Well, that depends on what one means.",
        "broken": '{"verdict": 1.7}',
        "cut": Answer('{"reasoning": "it', finish_reason="length"),
        "error": Failure(400),
        "key": Failure(401),
    }
    return said[text]


POLITE = """
form = "score"
id = "polite"
version = 1
description = "How polite is the text?"
min_score = 0.6
fails_closed = "no"
system = "Grade. {{answer}}"
user = "{{nonce}} {{retrieved_text}}"
structured_answer = 'An object with "reasoning" and "score".'
plain_answer = "One line, as in Score: 0.4"
"""


def judge_over(models: ChatModels | None, **parameters: object) -> LlmJudge:
    catalog = JudgeCatalog([LlmKind(models, load_builtin(), ModelCaller())], "llm")
    judge = catalog.choose(JudgeSpec("llm", parameters=parameters))
    assert isinstance(judge, LlmJudge)
    return judge


def group(*retrieved: str) -> QueryGroup:
    return QueryGroup("", "q", ["e"], retrieved)


def outcomes(columns: ScoreColumns) -> list[tuple[int, bool, str | None]]:
    """The status of each verdict, its decision and its reason."""
    n = len(columns.scores)
    decided = Verdicts.decide(columns, [0, n], 0.5).relevant.tolist()
    statuses = [1] * n if columns.statuses is None else columns.statuses.tolist()
    reasons = {fault.index: fault.reason for fault in columns.faults}
    return list(zip(statuses, decided, [reasons.get(i) for i in range(n)], strict=True))


class TestRubrics:
    @pytest.mark.parametrize(
        ("min_score", "relevant"), [(None, False), (0.5, True), (0.55, True), (0.6, False)]
    )
    async def test_a_score_is_held_to_the_rubrics_bar_or_the_requests(self, min_score, relevant):
        rubrics = {**load_builtin(), "polite": parse(POLITE.encode(), "polite.toml")}

        def script(_: Asked) -> Said:
            return {"reasoning": "so so", "score": 0.55}

        async with provider_and_models(script) as (_, models):
            catalog = JudgeCatalog([LlmKind(models, rubrics, ModelCaller())], "llm")
            judge = catalog.choose(
                JudgeSpec("llm", min_score=min_score, parameters={"rubric": "polite"})
            )
            assert isinstance(judge, LlmJudge)
            columns = await judge.judge([group("a")], PATIENT)
        verdicts = Verdicts.decide(columns, [0, 1], judge.identity.min_score)
        assert judge.identity.min_score == (0.6 if min_score is None else min_score)
        assert (columns.scores.tolist(), verdicts.relevant.tolist()) == ([0.55], [relevant])


class TestAsking:
    async def test_the_same_context_is_asked_once(self):
        async with provider_and_models(by_text) as (provider, models):
            groups = [group("yes", "no", "yes"), group("yes"), QueryGroup("", "q", [], ["yes"])]
            columns = await judge_over(models).judge(groups, PATIENT)
        assert provider.requests == 2
        assert [relevant for _, relevant, _ in outcomes(columns)] == [True, False, True, True]

    async def test_samples_have_seeds_and_markers_of_their_own(self):
        async with provider_and_models(by_text) as (provider, models):
            columns = await judge_over(models, temperature=0.7).judge([group("yes")], PATIENT)
        assert sorted(asked.body["seed"] for asked in provider.asked) == [0, 1, 2]
        assert len({asked.user for asked in provider.asked}) == 3
        assert len({asked.system for asked in provider.asked}) == 1
        assert {asked.body["temperature"] for asked in provider.asked} == {0.7}
        assert columns.usage.calls == 3

    @pytest.mark.parametrize(("contexts", "is_batch"), [(10, False), (11, True)])
    async def test_many_questions_are_batch_work(
        self, monkeypatch: pytest.MonkeyPatch, contexts: int, is_batch: bool
    ):
        waits = note_classes(monkeypatch)
        async with provider_and_models(lambda _: verdict("yes")) as (_, models):
            texts = [f"text {number}" for number in range(contexts)]
            await judge_over(models, samples=3).judge([group(*texts)], PATIENT)
        assert waits == [is_batch] * 3 * contexts

    async def test_votes_are_counted(self):
        def script(asked: Asked) -> Said:
            return verdict("no" if asked.body["seed"] == 1 else "yes")

        async with provider_and_models(script) as (_, models):
            columns = await judge_over(models, samples=3).judge([group("r")], PATIENT)
            tie = await judge_over(models, samples=2).judge([group("r")], PATIENT)
        assert columns.scores.tolist() == pytest.approx([2 / 3])
        assert columns.agreements.tolist() == pytest.approx([2 / 3])
        assert outcomes(tie) == [(3, False, "NO_QUORUM")]


class TestCancelling:
    async def test_leaves_nothing_behind(self):
        """200 cancels at random moments: no task, no call under way, and the model still works."""
        chance = random.Random(7)
        arrived = asyncio.Event()

        async def script(_: Asked) -> Said:
            arrived.set()
            await asyncio.sleep(chance.choice([0, 0, 0.001, 30]))
            return verdict("yes")

        async with provider_and_models(script) as (provider, models):
            judge = judge_over(models, samples=2)
            tasks = asyncio.all_tasks()
            cancelled = 0
            for _ in range(200):
                arrived.clear()
                asking = asyncio.create_task(judge.judge([group(*"abcd")], PATIENT))
                if chance.random() < 0.5:
                    await arrived.wait()
                for _ in range(chance.randrange(20)):
                    await asyncio.sleep(0)
                if not asking.cancel():
                    await asking  # it was done before
                    continue
                with pytest.raises(asyncio.CancelledError):
                    await asking
                cancelled += 1
            assert cancelled > 150
            await until(lambda: provider.in_flight == 0)
            await until(lambda: not others_than(tasks))
            columns = await asyncio.wait_for(judge_over(models).judge([group()], PATIENT), 10)
            assert len(columns.scores) == 0


class TestSpec:
    async def test_the_signature_is_one_stable_line(self):
        async with provider_and_models(by_text) as (_, models):
            signature = judge_over(models, temperature=0.5).identity.signature
        sha = load_builtin()["retrieval_match"].sha256[:8]
        assert signature == (
            f"llm|rubric:retrieval_match@1|sha:{sha}|model:scripted|structured:true|samples:3|"
            "temperature:0.5|max_tokens:256|min_score:0.5|v1"
        )

    async def test_everything_that_can_change_a_score_changes_the_key(self):
        keys = set()
        for changes in (
            {},
            {"model": "scripted-2"},
            {"structured": "none"},
        ):
            async with provider_and_models(by_text, **changes) as (_, models):
                keys.add(judge_over(models).identity.scoring_key)
        async with provider_and_models(by_text) as (_, models):
            for parameters in ({"samples": 2}, {"temperature": 1.0}, {"max_tokens": 7}):
                keys.add(judge_over(models, **parameters).identity.scoring_key)
        assert len(keys) == 6
