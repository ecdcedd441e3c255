"""Estimates: what is counted, from which side, and that nothing is asked for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import CacheMode
from judged.values.judges import CostEstimate
from judged.values.scores import AnswerItem
from judged.values.scores import Rubric as RubricSpec
from judged_server.domain import JudgeSpec, QueryGroup
from judged_server.judges.base import Caller, Judge
from judged_server.judges.catalog import JudgeCatalog
from judged_server.judges.exact import ExactKind
from judged_server.judges.llm.answers import AnswersKind
from judged_server.judges.llm.judge import LlmKind
from judged_server.llm.caller import ModelCaller
from judged_server.llm.chat import (
    ChatModelCard,
    ChatReply,
    ChatRequest,
    Completed,
    FinishReason,
    Prices,
    TokenUsage,
)
from judged_server.llm.reply_cache import ReplyCache
from judged_server.llm.rubrics.loading import load_builtin
from judged_server.llm.rubrics.rubric import MAX_CLAIMS
from judged_server.usecases.estimate_batch import Estimator
from judged_server.usecases.score_answers import Scoring

PRICES = Prices(1.0, 2.0)
USE, REFRESH, ONLY = CacheMode.USE, CacheMode.REFRESH, CacheMode.ONLY


class Model:
    """Says yes to everything, and counts how often; it is its own only model."""

    problem = ""

    def __init__(self, prices: Prices | None = PRICES) -> None:
        self.card = ChatModelCard("m", "p", "openai", "m", True, False, prices)
        self.cards = (self.card,)
        self.asked = 0

    def get(self, name: str) -> Model:
        return self

    async def complete(self, request: ChatRequest, timeout_s: float) -> Completed:
        self.asked += 1
        reply = ChatReply(
            '{"reasoning": "r", "verdict": "yes"}', FinishReason.STOP, TokenUsage(9, 9), "m"
        )
        return Completed(reply, 1, 0.0)


class World:
    """An estimator over one model, with a cache in memory."""

    def __init__(self, prices: Prices | None = PRICES) -> None:
        self.model = Model(prices)
        model_caller = ModelCaller(cache=ReplyCache(1 << 20))
        rubrics = load_builtin()
        kinds = (ExactKind(), LlmKind(self.model, rubrics, model_caller))
        self.catalog = JudgeCatalog(kinds, "exact")
        self.scoring = Scoring(AnswersKind(self.model, rubrics, model_caller))
        self.estimator = Estimator(model_caller, "USD")

    def judge(self, kind: str = "llm", **parameters: int) -> Judge:
        return self.catalog.choose(JudgeSpec(kind, parameters=parameters))

    async def judging(
        self, judge: Judge, *groups: QueryGroup, mode: CacheMode = USE
    ) -> CostEstimate:
        return await self.estimator.judging(judge, groups, mode)

    async def of_scoring(self, items: list[AnswerItem], *rubrics: str) -> CostEstimate:
        scorers = self.scoring.choose([RubricSpec(rubric) for rubric in rubrics])
        return await self.estimator.scoring(items, scorers, USE)


@pytest.fixture
def world() -> World:
    return World()


def group(*retrieved: str, query: str = "q", expected: tuple[str, ...] = ("e",)) -> QueryGroup:
    return QueryGroup("1", query, list(expected), list(retrieved))


class TestJudging:
    async def test_a_judge_that_asks_no_model_takes_nothing(self, world: World):
        found = await world.judging(world.judge("exact"), group("a", "b", expected=("a", "c")))
        assert found == CostEstimate(contexts=4, distinct_texts=4, cost=0.0, currency="USD")

    async def test_each_distinct_context_is_counted_once_a_sample(self, world: World):
        found = await world.judging(world.judge(samples=3), group("a", "b", "a"), group("b"))
        assert (found.contexts, found.distinct_texts, found.calls) == (4, 4, 6)
        once = await world.judging(world.judge(), group("a"))
        assert found.output_tokens == 6 * once.output_tokens == 6 * 256
        assert found.input_tokens == 6 * once.input_tokens  # texts of one length
        assert once.cost == pytest.approx((once.input_tokens + 2 * once.output_tokens) / 1e6)
        assert found.cost == pytest.approx(6 * once.cost)
        assert world.model.asked == 0

    async def test_without_a_price_there_is_no_cost_but_all_the_rest(self):
        world = World(None)
        found = await world.judging(world.judge(), group("a", "b"))
        assert (found.calls, found.cost) == (2, None)
        assert found.input_tokens > 0

    async def test_what_the_cache_has_is_left_out_but_for_a_refresh(self, world: World):
        judge = world.judge(samples=2)
        await judge.judge([group("a")], Caller())
        asked = group("a", "b")
        found = {
            mode: await world.judging(judge, asked, mode=mode) for mode in (USE, REFRESH, ONLY)
        }
        assert [(each.cache_hits, each.calls) for each in found.values()] == [
            (2, 2),
            (0, 4),
            (2, 0),
        ]
        assert (found[ONLY].cost, found[ONLY].input_tokens) == (0.0, 0)
        assert found[REFRESH].cost == pytest.approx(2 * found[USE].cost)
        assert world.model.asked == 2

    @given(texts=st.lists(st.text(max_size=30), max_size=12))
    async def test_the_whole_is_the_sum_of_its_distinct_parts(self, texts: list[str]):
        world = World()
        judge = world.judge()
        whole = await world.judging(judge, group(*texts))
        parts = [await world.judging(judge, group(text)) for text in dict.fromkeys(texts)]
        assert whole.calls == len(parts)
        assert whole.input_tokens == sum(part.input_tokens for part in parts)
        assert whole.output_tokens == sum(part.output_tokens for part in parts)
        assert whole.cost == pytest.approx(sum(part.cost or 0.0 for part in parts), abs=1e-12)


class TestScoring:
    ITEM = AnswerItem("1", "q", "an answer", ["r"], ["c"])

    async def test_items_that_are_alike_in_what_a_rubric_reads_are_asked_about_once(
        self, world: World
    ):
        twin = AnswerItem("2", "q", "an answer", ["r"], ["another"])
        found = await world.of_scoring([self.ITEM, twin], "answer_match")
        assert (found.contexts, found.distinct_texts, found.calls) == (2, 5, 1)
        both = await world.of_scoring([self.ITEM, twin], "answer_match", "context_relevance")
        assert (both.contexts, both.calls) == (4, 3)

    async def test_claims_count_as_many_as_may_be_listed(self, world: World):
        found = await world.of_scoring([self.ITEM], "faithfulness")
        assert found.calls == 1 + MAX_CLAIMS
