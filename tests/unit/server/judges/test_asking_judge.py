"""A judge that asks, written by the list of docs/architecture.md alone, keeps what callers set."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence

import pytest
from judged_server import errors
from judged_server.domain import CacheMode, JudgeIdentity, QueryGroup, ScoreColumns
from judged_server.judges.catalog import JudgeCatalog
from judged_server.judges.exact import ExactKind
from judged_server.judges.llm.concurrency import fan_out
from judged_server.judges.llm.contexts import Ballot, number_contexts, to_columns
from judged_server.llm.budget import prices_of, refuse_if_nothing_asked, unpriced
from judged_server.llm.caller import Asker, Prospect, Question, Terms, nothing, refuse_keyless
from judged_server.llm.chat import ChatModel
from judged_server.llm.rubrics import load_builtin
from judged_server.ports import Caller
from judged_server.usecases.estimate_batch import Estimator
from judged_server.usecases.judge_batch import Engine, run_judge
from judged_server.usecases.slices import SliceRunner

from tests.fakes.scripted_provider import Answer, Asked, Said
from tests.unit.server.judges.llm.test_judge import group, outcomes, provider_and_models, verdict

PRICES = {"input_per_million": 1.0, "output_per_million": 10.0}


class OnceJudge:
    """Asks one question a context."""

    wants_embeddings = False
    wants_spans = False

    def __init__(self, model: ChatModel, asker: Asker) -> None:
        self.identity = JudgeIdentity.build("once", "", 0.5, [("model", model.card.name)], 1, [])
        self._model, self._asker = model, asker
        self._rubric = load_builtin()["retrieval_match"]

    @property
    def priced(self) -> bool:
        return bool(prices_of(self._model))

    def refuse_keyless(self, cache: CacheMode) -> None:
        refuse_keyless(self._model, cache)

    def prospects(self, groups: Sequence[QueryGroup]) -> Iterator[Prospect]:
        for context in number_contexts(groups)[0]:
            yield Prospect(self._model, Question(self._rubric, context.fields, 0, 0.0, 64, False))

    async def ask(self, groups: Sequence[QueryGroup], caller: Caller) -> ScoreColumns:
        self.refuse_keyless(caller.cache)
        if caller.max_cost is not None and not self.priced:
            raise unpriced()
        terms = Terms.of(caller.leaves_at, caller.purse, caller.cache)
        none = nothing(self._model.card.prices)
        places = number_contexts(groups)[1]
        asked = list(self.prospects(groups))
        ballots = [Ballot(1, none, caller.wants_details) for _ in asked]

        async def one(place: int) -> None:
            answer = await self._asker.ask(self._model, asked[place].question, terms)
            ballots[place].put(0, answer)

        await fan_out(one, iter(range(len(asked))), 8)
        reasons = (opinion.reason for ballot in ballots for opinion in ballot.opinions)
        refuse_if_nothing_asked(terms.purse, reasons)
        return to_columns(ballots, places, none)


@pytest.fixture
def slices() -> Iterator[SliceRunner]:
    runner = SliceRunner()
    yield runner
    runner.close()


def yes(asked: Asked) -> Said:
    slow = '"slow"' in asked.user
    return Answer(json.dumps(verdict("yes")), delay_s=30 if slow else 0)


async def test_the_deadline_holds(slices):
    async with provider_and_models(yes, **PRICES) as (_, models):
        caller = Caller(asyncio.get_running_loop().time() + 1.0)
        judge = OnceJudge(models.get(""), Asker())
        columns = await run_judge(slices, judge, [group("slow", "quick")], caller)
    assert outcomes(columns) == [(2, False, "TIMEOUT"), (1, True, None)]


async def test_max_cost_holds_and_needs_prices(slices):
    async with provider_and_models(yes, **PRICES) as (provider, models):
        judge = OnceJudge(models.get(""), Asker())
        columns = await run_judge(slices, judge, [group("quick")], Caller(max_cost=1e-9))
        assert provider.requests == 0
    assert outcomes(columns) == [(2, False, "BUDGET")]
    async with provider_and_models(yes) as (_, models):
        judge = OnceJudge(models.get(""), Asker())
        with pytest.raises(errors.InvalidField, match="max_cost"):
            await run_judge(slices, judge, [group("quick")], Caller(max_cost=1.0))


async def test_it_is_estimated(slices):
    async with provider_and_models(yes, **PRICES) as (_, models):
        asker = Asker()
        engine = Engine(JudgeCatalog([ExactKind()], "exact"), slices)
        judge = OnceJudge(models.get(""), asker)
        found = await Estimator(engine, asker, "USD").judging(
            judge, [group("a", "b")], CacheMode.USE
        )
    assert found.calls == 2
    assert found.cost is not None
    assert found.cost > 0
