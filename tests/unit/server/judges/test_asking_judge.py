"""A judge that asks, written by the list of docs/architecture.md alone, keeps what callers set."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence

import pytest
from judged.values.choices import CacheMode
from judged.values.judges import JudgeIdentity
from judged_server import errors
from judged_server.domain import QueryGroup, ScoreColumns
from judged_server.domain.usage import CostTracker
from judged_server.judges.base import Caller
from judged_server.judges.llm.contexts import ContextVotes, number_contexts, to_columns
from judged_server.llm.budget.budgets import refuse_if_nothing_asked, unpriced
from judged_server.llm.caller import CallOptions, ModelCaller, nothing
from judged_server.llm.chat import ChatModel, check_api_keys, prices_of
from judged_server.llm.question import PlannedCall, Question
from judged_server.llm.rubrics.loading import load_builtin
from judged_server.scheduling.concurrency import fan_out
from judged_server.usecases.estimate_batch import Estimator

from tests.fakes.providers.scripted_models import provider_and_models
from tests.fakes.providers.scripted_provider import Answer, Asked, Said
from tests.unit.server.judges.llm.test_judge import group, outcomes, verdict

PRICES = {"input_per_million": 1.0, "output_per_million": 10.0}


class OnceJudge:
    """Asks one question a context."""

    wants_embeddings = False
    wants_spans = False
    needs_expected = True
    unavailable = ""

    def __init__(self, model: ChatModel, model_caller: ModelCaller) -> None:
        self.identity = JudgeIdentity.build("once", "", 0.5, [("model", model.card.name)], 1, [])
        self._model, self._model_caller = model, model_caller
        self._rubric = load_builtin()["retrieval_match"]

    @property
    def priced(self) -> bool:
        return bool(prices_of(self._model))

    def check_api_keys(self, cache: CacheMode) -> None:
        check_api_keys(self._model, cache)

    def planned_calls(self, groups: Sequence[QueryGroup]) -> Iterator[PlannedCall]:
        for context in number_contexts(groups)[0]:
            yield PlannedCall(
                self._model, Question(self._rubric, context.fields, 0, 0.0, 64, False)
            )

    async def judge(self, groups: Sequence[QueryGroup], caller: Caller) -> ScoreColumns:
        self.check_api_keys(caller.cache)
        if caller.cost_tracker.max_cost is not None and not self.priced:
            raise unpriced()
        call_options = CallOptions.of(caller.deadline, caller.cost_tracker, caller.cache)
        none = nothing(self._model.card.prices)
        places = number_contexts(groups)[1]
        asked = list(self.planned_calls(groups))
        all_votes = [ContextVotes(1, none, caller.wants_details) for _ in asked]

        async def one(place: int) -> None:
            answer = await self._model_caller.ask(self._model, asked[place].question, call_options)
            all_votes[place].put(0, answer)

        await fan_out(one, iter(range(len(asked))), 8)
        reasons = (
            parsed.reason for context_votes in all_votes for parsed in context_votes.parsed_replies
        )
        refuse_if_nothing_asked(call_options.cost_tracker, reasons)
        return to_columns(all_votes, places, none)


def yes(asked: Asked) -> Said:
    slow = '"slow"' in asked.user
    return Answer(json.dumps(verdict("yes")), delay_s=30 if slow else 0)


async def test_the_deadline_holds():
    async with provider_and_models(yes, **PRICES) as (_, models):
        caller = Caller(asyncio.get_running_loop().time() + 1.0)
        judge = OnceJudge(models.get(""), ModelCaller())
        columns = await judge.judge([group("slow", "quick")], caller)
    assert outcomes(columns) == [(2, False, "TIMEOUT"), (1, True, None)]


async def test_max_cost_holds_and_needs_prices():
    async with provider_and_models(yes, **PRICES) as (provider, models):
        judge = OnceJudge(models.get(""), ModelCaller())
        columns = await judge.judge([group("quick")], Caller(cost_tracker=CostTracker(1e-9)))
        assert provider.requests == 0
    assert outcomes(columns) == [(2, False, "BUDGET")]
    async with provider_and_models(yes) as (_, models):
        judge = OnceJudge(models.get(""), ModelCaller())
        with pytest.raises(errors.InvalidField, match="max_cost"):
            await judge.judge([group("quick")], Caller(cost_tracker=CostTracker(1.0)))


async def test_it_is_estimated():
    async with provider_and_models(yes, **PRICES) as (_, models):
        model_caller = ModelCaller()
        judge = OnceJudge(models.get(""), model_caller)
        found = await Estimator(model_caller, "USD").judging(
            judge, [group("a", "b")], CacheMode.USE
        )
    assert found.calls == 2
    assert found.cost is not None
    assert found.cost > 0
