"""Estimates: what is counted; what they promise of the calls themselves is in integration/llm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import CacheMode
from judged.values.judges import CostEstimate
from judged.values.scores import AnswerItem
from judged.values.scores import Rubric as RubricSpec
from judged_server.domain import Group, JudgeSpec
from judged_server.judges.catalog import JudgeCatalog
from judged_server.judges.lexical import ExactKind
from judged_server.judges.llm.answers import AnswersKind
from judged_server.judges.llm.judge import LlmKind
from judged_server.llm.caller import ModelCaller
from judged_server.llm.chat import ChatModelCard, Prices
from judged_server.llm.rubrics.rubric import MAX_CLAIMS, load_builtin
from judged_server.usecases.judge_batch import Estimator
from judged_server.usecases.score_answers import Scoring

RUBRICS, CALLER = load_builtin(), ModelCaller()


class Model:
    """A model that can't be asked; it is its own only model."""

    problem = ""
    fallback = None

    def __init__(self, prices: Prices | None = None) -> None:
        self.card = ChatModelCard("m", "p", "openai", "m", True, prices)
        self.cards = (self.card,)

    def get(self, name: str) -> Model:
        return self


async def judging(kind: str, group: Group, prices: Prices | None = None) -> CostEstimate:
    catalog = JudgeCatalog([ExactKind(), LlmKind(Model(prices), RUBRICS, CALLER)], "exact")
    judge = catalog.choose(JudgeSpec(kind))
    return await Estimator(CALLER, "USD").judging(judge, [group], CacheMode.USE)


def group(*retrieved: str, expected: tuple[str, ...] = ("e",)) -> Group:
    return Group("1", "q", list(expected), list(retrieved))


async def test_a_judge_that_asks_no_model_takes_nothing():
    found = await judging("exact", group("a", "b", expected=("a", "c")))
    assert found == CostEstimate(contexts=4, distinct_texts=4, cost=0.0, currency="USD")


async def test_without_a_price_there_is_no_cost_but_all_the_rest():
    found = await judging("llm", group("a", "b"))
    assert (found.calls, found.cost) == (2, None)
    assert found.input_tokens > 0


@given(texts=st.lists(st.text(max_size=30), max_size=12))
async def test_the_whole_is_the_sum_of_its_distinct_parts(texts: list[str]):
    prices = Prices(1.0, 2.0)
    whole = await judging("llm", group(*texts), prices)
    parts = [await judging("llm", group(text), prices) for text in dict.fromkeys(texts)]
    assert whole.calls == len(parts)
    assert whole.input_tokens == sum(part.input_tokens for part in parts)
    assert whole.output_tokens == sum(part.output_tokens for part in parts)
    assert whole.cost == pytest.approx(sum(part.cost for part in parts), abs=1e-12)


async def test_claims_count_as_many_as_may_be_listed():
    scorers = Scoring(AnswersKind(Model(), RUBRICS, CALLER)).choose([RubricSpec("faithfulness")])
    item = AnswerItem("1", "q", "an answer", ["r"], ["c"])
    found = await Estimator(CALLER, "USD").scoring([item], scorers, CacheMode.USE)
    assert found.calls == 1 + MAX_CLAIMS
