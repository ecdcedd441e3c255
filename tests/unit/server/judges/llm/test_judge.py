"""The judge `llm` over a provider on a real socket, in this process."""

from __future__ import annotations

import asyncio
import random

import pytest
from judged_server.domain import Group, JudgeSpec, Verdicts
from judged_server.judges.base import Caller
from judged_server.judges.catalog import JudgeCatalog
from judged_server.judges.llm.judge import LlmJudge, LlmKind
from judged_server.llm.caller import ModelCaller
from judged_server.llm.models import ChatModels
from judged_server.llm.rubrics.rubric import load_builtin, parse

from tests.fakes.providers.scripted_models import (
    note_classes,
    others_than,
    provider_and_models,
    until,
)
from tests.fakes.providers.scripted_provider import Asked, Said

PATIENT = Caller()


def verdict(answer: str, reasoning: str = "so it is") -> dict[str, str]:
    return {"reasoning": reasoning, "verdict": answer}


def says_yes(_: Asked) -> Said:
    return verdict("yes")


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


def group(*retrieved: str) -> Group:
    return Group("", "q", ["e"], retrieved)


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
    async def test_samples_have_seeds_and_markers_of_their_own(self):
        async with provider_and_models(says_yes) as (provider, models):
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
        async with provider_and_models(says_yes) as (_, models):
            texts = [f"text {number}" for number in range(contexts)]
            await judge_over(models, samples=3).judge([group(*texts)], PATIENT)
        assert waits == [is_batch] * 3 * contexts


class TestCancelling:
    async def test_leaves_nothing_behind(self):
        """60 cancels at random moments: no task, no call under way, and the model still works."""
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
            for _ in range(60):
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
            assert cancelled > 30
            await until(lambda: provider.in_flight == 0)
            await until(lambda: not others_than(tasks))
            columns = await asyncio.wait_for(judge_over(models).judge([group()], PATIENT), 10)
            assert len(columns.scores) == 0


class TestSpec:
    async def test_the_signature_is_one_stable_line(self):
        async with provider_and_models(says_yes) as (_, models):
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
            async with provider_and_models(says_yes, **changes) as (_, models):
                keys.add(judge_over(models).identity.scoring_key)
        async with provider_and_models(says_yes) as (_, models):
            for parameters in ({"samples": 2}, {"temperature": 1.0}, {"max_tokens": 7}):
                keys.add(judge_over(models, **parameters).identity.scoring_key)
        assert len(keys) == 6
