"""What work would take, without doing it: calls, tokens and money, each from above."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, replace

from judged_server.answers import AnswerItem
from judged_server.domain import CacheMode, QueryGroup
from judged_server.judges.base import Judge
from judged_server.judges.llm.answers import AnswerScorer
from judged_server.llm.caller import CallEstimate, ModelCaller, estimate_call
from judged_server.llm.question import PlannedCall
from judged_server.spending import to_amount
from judged_server.threads import run_in_thread_if, run_steps

LARGE_TEXTS = 2000
"""More texts than this are told apart off the event loop."""

_AT_ONCE = 32
"""Look-ups in the cache between two breaths of the event loop."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What work would take at most; `cost` is None where a price is not known.

    `contexts` counts pairs of an item and a rubric where answers are scored, `cache_hits` samples.
    """

    contexts: int
    distinct_texts: int
    cache_hits: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0


class Estimator:
    """Estimates work. One instance serves all calls of a process."""

    def __init__(self, model_caller: ModelCaller, currency: str) -> None:
        self._model_caller = model_caller
        self.currency = currency

    async def judging(
        self, judge: Judge, groups: Sequence[QueryGroup], mode: CacheMode
    ) -> Estimate:
        """Return what judging the groups would take; no calls for judges that ask no model."""
        contexts = sum(group.n_contexts for group in groups)
        of_each = ((group.query, *group.expected, *group.retrieved) for group in groups)
        texts = await run_in_thread_if(contexts > LARGE_TEXTS, _distinct, of_each)
        begun = Estimate(contexts, texts)
        return await self._estimate(begun, lambda: judge.planned_calls(groups), mode)

    async def scoring(
        self, items: Sequence[AnswerItem], scorers: Sequence[AnswerScorer], mode: CacheMode
    ) -> Estimate:
        """Return what scoring the items would take."""

        def planned_calls() -> Iterable[PlannedCall]:
            for scorer in scorers:
                # Items that are alike in what a rubric reads are asked about once.
                for item in {scorer.texts_of(item): item for item in items}.values():
                    yield from scorer.planned_calls(item)

        pairs = len(items) * len(scorers)
        of_each = ((item.query, item.answer, *item.references, *item.contexts) for item in items)
        texts = await run_in_thread_if(pairs > LARGE_TEXTS, _distinct, of_each)
        return await self._estimate(Estimate(pairs, texts), planned_calls, mode)

    async def _estimate(
        self, begun: Estimate, planned_calls: Callable[[], Iterable[PlannedCall]], mode: CacheMode
    ) -> Estimate:
        hits: set[int] = set()
        if mode is not CacheMode.REFRESH:
            hits = await self._hits(planned_calls())
        if mode is CacheMode.ONLY:
            return replace(begun, cache_hits=len(hits))
        return await run_steps(_sum(begun, planned_calls(), hits))

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
    begun: Estimate, planned_calls: Iterable[PlannedCall], hits: Collection[int]
) -> Generator[None, None, Estimate]:
    """Return the sum of all that the cache would not answer, in short steps."""
    calls = input_tokens = output_tokens = 0
    cost: int | None = 0
    last: tuple[object, object] | None = None
    weight = CallEstimate(0, 0, 0)
    for place, planned in enumerate(planned_calls):
        yield
        if place in hits:
            continue
        question, times = planned.question, planned.times
        # The samples of one matter follow each other, and weigh the same.
        if last is None or last[0] is not question.fields or last[1] is not question.rubric:
            weight = estimate_call(planned.model, question)
            last = (question.fields, question.rubric)
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
