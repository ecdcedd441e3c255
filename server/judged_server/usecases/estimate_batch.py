"""What work would take, without doing it: calls, tokens and money, each from above."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from judged.values.choices import CacheMode
from judged.values.judges import CostEstimate
from judged.values.scores import AnswerItem

from judged_server.domain import QueryGroup, to_amount
from judged_server.judges.base import Judge
from judged_server.judges.cascade import Cascade
from judged_server.judges.llm.answers import AnswerScorer
from judged_server.llm.budgets import estimate_calls
from judged_server.llm.caller import ModelCaller
from judged_server.llm.question import PlannedCall
from judged_server.scheduling.checkpoint import checkpoint
from judged_server.scheduling.concurrency import IN_PYTHON
from judged_server.usecases.judge_batch import fill_expected

_AT_ONCE = 32
"""Look-ups in the cache between two breaths of the event loop."""


class Estimator:
    """Estimates work. One instance serves all calls of a process."""

    def __init__(self, model_caller: ModelCaller, currency: str) -> None:
        self._model_caller = model_caller
        self.currency = currency

    async def judging(
        self, judge: Judge, groups: Sequence[QueryGroup], mode: CacheMode
    ) -> CostEstimate:
        """Return what judging the groups would take; no calls for judges that ask no model.

        What a limit on money would leave unasked is counted too.
        """
        groups = fill_expected(judge, groups)
        contexts = sum(group.n_contexts for group in groups)
        of_each = ((group.query, *group.expected, *group.retrieved) for group in groups)
        texts = await asyncio.to_thread(_distinct, of_each)
        cascade = None
        if isinstance(judge, Cascade):
            cascade = await asyncio.to_thread(judge.estimate, groups)
        begun = CostEstimate(contexts, texts, currency=self.currency, cascade=cascade)
        return await self._estimate(begun, lambda: judge.planned_calls(groups), mode)

    async def scoring(
        self, items: Sequence[AnswerItem], scorers: Sequence[AnswerScorer], mode: CacheMode
    ) -> CostEstimate:
        """Return what scoring the items would take."""

        def planned_calls() -> Iterable[PlannedCall]:
            for scorer in scorers:
                # Items that are alike in what a rubric reads are asked about once.
                for item in {scorer.texts_of(item): item for item in items}.values():
                    yield from scorer.planned_calls(item)

        pairs = len(items) * len(scorers)
        of_each = ((item.query, item.answer, *item.references, *item.contexts) for item in items)
        texts = await asyncio.to_thread(_distinct, of_each)
        begun = CostEstimate(pairs, texts, currency=self.currency)
        return await self._estimate(begun, planned_calls, mode)

    async def _estimate(
        self,
        begun: CostEstimate,
        planned_calls: Callable[[], Iterable[PlannedCall]],
        mode: CacheMode,
    ) -> CostEstimate:
        hits: set[int] = set()
        if mode is not CacheMode.REFRESH:
            hits = await self._hits(planned_calls())
        if mode is CacheMode.ONLY:
            return replace(begun, cache_hits=len(hits))
        return await IN_PYTHON.run(partial(_sum, begun, planned_calls(), hits))

    async def _hits(self, planned_calls: Iterable[PlannedCall]) -> set[int]:
        """Return the places of those that the cache would answer."""
        hits = set()
        for place, planned in enumerate(planned_calls):
            if place % _AT_ONCE == 0:
                await asyncio.sleep(0)
            if await self._model_caller.knows(planned):
                hits.add(place)
        return hits


def _distinct(texts: Iterable[Sequence[str]]) -> int:
    return len({text for some in texts for text in some})


def _sum(
    begun: CostEstimate, planned_calls: Iterable[PlannedCall], hits: Collection[int]
) -> CostEstimate:
    """Return the sum of all that the cache would not answer, looking for a caller between them."""
    calls = input_tokens = output_tokens = 0
    cost: int | None = 0

    def unanswered() -> Iterator[PlannedCall]:
        for place, planned in enumerate(planned_calls):
            checkpoint()
            if place not in hits:
                yield planned

    for planned, weight in estimate_calls(unanswered()):
        times = planned.times
        calls += times
        input_tokens += times * weight.input_tokens
        output_tokens += times * weight.output_tokens
        cost = None if cost is None or weight.cost is None else cost + times * weight.cost
    return replace(
        begun,
        cache_hits=len(hits),
        calls=calls,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost=None if cost is None else to_amount(cost),
    )
