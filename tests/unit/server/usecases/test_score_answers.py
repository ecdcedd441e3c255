"""A call of ScoreAnswers over a provider on a real socket, in this process."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from contextlib import aclosing, suppress
from typing import Any

import pytest
from judged.values.choices import Status
from judged.values.scores import AnswerItem, AnswerScore
from judged.values.scores import Rubric as RubricSpec
from judged_server.domain import ScoreSummary
from judged_server.judges.base import Caller
from judged_server.judges.llm.answers import AnswerScorer, AnswersKind
from judged_server.llm.caller import ModelCaller
from judged_server.llm.chat import (
    ChatModelCard,
    ChatReply,
    ChatRequest,
    Completed,
    FinishReason,
    TokenUsage,
)
from judged_server.llm.rubrics.rubric import load_builtin
from judged_server.usecases.score_answers import MAX_IN_WORK, Scoring

from tests.fakes.providers.scripted_models import others_than, texts_of, until
from tests.fakes.providers.scripted_provider import Asked, Said
from tests.unit.server.judges.llm.test_answers import says, scoring_over


def items(*answers: str) -> list[AnswerItem]:
    return [AnswerItem(str(n), "q", answer, ["r"], ["c"]) for n, answer in enumerate(answers)]


def scorers(scoring: Scoring, *rubrics: str, **parameters: object) -> list[AnswerScorer]:
    names = rubrics or ("helpfulness",)
    return scoring.choose([RubricSpec(name, parameters=parameters) for name in names])


async def gathered(
    scoring: Scoring,
    asked: list[AnswerItem],
    *rubrics: str,
    caller: Caller = Caller(),  # noqa: B008
) -> tuple[list[AnswerScore], ScoreSummary]:
    found = [each async for each in scoring.score(asked, scorers(scoring, *rubrics), caller)]
    *others, summary = found
    assert isinstance(summary, ScoreSummary)
    scores = [each for each in others if isinstance(each, AnswerScore)]
    assert len(scores) == len(others)
    return scores, summary


class SlowModel:
    """A model of no provider, which counts the questions that wait for it; its own only model."""

    card = ChatModelCard("slow", "none", "none", "slow", True, None)
    fallback = None
    problem = ""
    waiting = most = 0

    def get(self, _: str) -> SlowModel:
        return self

    async def complete(self, request: ChatRequest, timeout_s: float) -> Completed:
        assert timeout_s > 0
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await asyncio.sleep(0.2)
        self.waiting -= 1
        said: dict[str, Any] = {"evidence": "", "verdict": "SUPPORTED"}
        schema: Mapping[str, Any] = request.schema.schema
        if "claims" in schema["properties"]:
            said = {"claims": [f"{hash(request.user)} {n}" for n in range(12)]}
        usage = TokenUsage(1, 1)
        return Completed(ChatReply(json.dumps(said), FinishReason.STOP, usage, "slow"), 1, 0.01)


class TestScores:
    async def test_sums_up_exactly_in_any_order(self):
        chance = random.Random(3)
        values = {str(n): chance.random() for n in range(100)}

        async def script(asked: Asked) -> Said:
            await asyncio.sleep(chance.random() / 100)
            return says(values[str(texts_of(asked)["answer"])])

        async with scoring_over(script) as (_, scoring):
            means = set()
            for _ in range(3):
                scores, summary = await gathered(scoring, items(*values))
                assert sorted(score.item_id for score in scores) == sorted(values)
                means.add(summary.rubrics[0].mean)
        assert len(means) == 1

    async def test_a_bug_is_the_fault_of_its_score_alone(self, monkeypatch: pytest.MonkeyPatch):
        async with scoring_over(lambda _: says(1)) as (_, scoring):
            chosen = scorers(scoring)
            good = AnswerScorer.score

            async def score(self, item, asking):
                if item.answer == "bug":
                    raise RuntimeError("secret text")
                return await good(self, item, asking)

            monkeypatch.setattr(AnswerScorer, "score", score)
            found = [each async for each in scoring.score(items("bug", "fine"), chosen, Caller())]
        by_item = {each.item_id: each for each in found if isinstance(each, AnswerScore)}
        fault = by_item["0"].error
        assert fault.reason == "INTERNAL"
        assert "secret" not in fault.message
        assert by_item["1"].status is Status.OK


class TestBounds:
    async def test_questions_of_a_call_are_bounded(self):
        model = SlowModel()
        scoring = Scoring(AnswersKind(model, load_builtin(), ModelCaller()))
        asked = items(*(f"answer {n}" for n in range(100)))
        scores, summary = await gathered(scoring, asked, "faithfulness")
        assert {score.score for score in scores} == {1.0}
        # A list for each, and its twelve checks, of which eight at once would be 800.
        assert summary.usage.calls == 1300
        assert 100 < model.most <= MAX_IN_WORK


async def either(asked: Asked) -> Said:
    """A claim, its check or a score, whatever is asked for."""
    form = asked.body["response_format"]["json_schema"]["schema"]["properties"]
    if "claims" in form:
        return {"claims": ["one", "two", "three"]}
    if "evidence" in form:
        return {"evidence": "", "verdict": "SUPPORTED"}
    return says(1)


async def call(scoring: Scoring, take: int) -> None:
    """Score, and leave after as many scores; stay for all when it is 0."""
    chosen = scorers(scoring, "helpfulness", "faithfulness", samples=2)
    async with aclosing(scoring.score(items(*"abcd"), chosen, Caller())) as scores:
        async for _ in scores:
            take -= 1
            if take == 0:
                return


class TestCancelling:
    async def test_leaves_nothing_behind(self):
        """50 ends at random moments: no task, no call under way, and the next call works."""
        chance = random.Random(11)

        async def script(asked: Asked) -> Said:
            await asyncio.sleep(chance.choice([0, 0, 0.001, 30]))
            return await either(asked)

        async with scoring_over(script) as (provider, scoring):
            before = asyncio.all_tasks()
            cancelled = 0
            for _ in range(50):
                asked = provider.requests + chance.choice([0, 1, 3])
                calling = asyncio.create_task(call(scoring, chance.choice([0, 1, 3])))
                with suppress(TimeoutError):
                    await until(lambda asked=asked: provider.requests >= asked, 0.02)
                for _ in range(chance.randrange(40)):
                    await asyncio.sleep(0)
                if not calling.cancel():
                    await calling
                    continue
                with pytest.raises(asyncio.CancelledError):
                    await calling
                cancelled += 1
            assert cancelled > 20
            await until(lambda: provider.in_flight == 0)
            await until(lambda: not others_than(before))
            scores, _ = await asyncio.wait_for(gathered(scoring, items("")), 10)
            assert len(scores) == 1
