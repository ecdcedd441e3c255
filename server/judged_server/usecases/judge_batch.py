"""Runs a judge over groups (BatchJudge), and estimates the cost (EstimateBatch)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

from judged.values.choices import CacheMode
from judged.values.judges import CostEstimate
from judged.values.scores import AnswerItem

from judged_server import errors
from judged_server.domain import Group, Verdicts, to_amount
from judged_server.judges.base import ANONYMOUS, Caller, Judge
from judged_server.judges.cascade import Cascade
from judged_server.judges.llm.answers import AnswerScorer
from judged_server.llm.budgets import estimate_calls
from judged_server.llm.caller import ModelCaller
from judged_server.llm.question import PlannedCall
from judged_server.scheduling.concurrency import IN_PYTHON
from judged_server.scheduling.fairness import checkpoint


async def judge_batch(
    judge: Judge,
    groups: Sequence[Group],
    field: str = "groups",
    caller: Caller = ANONYMOUS,
) -> Verdicts:
    """Return one verdict for each context of the groups, in order.

    Raises InvalidField if a group brings what the judge does not take, such as texts for a judge of
    vectors.
    """
    check_groups_fit(judge, groups, field)
    groups = fill_expected(judge, groups)
    offsets = list(accumulate([group.n_contexts for group in groups], initial=0))
    columns = await judge.judge(groups, caller)
    if len(columns.scores) != offsets[-1]:
        raise RuntimeError(
            f"{judge.identity.kind} returned {len(columns.scores)} scores for {offsets[-1]}"
        )
    return Verdicts.decide(columns, offsets, judge.identity.min_score)


def fill_expected(judge: Judge, groups: Sequence[Group]) -> Sequence[Group]:
    """Return the groups; open-ended ones get one empty expected text if the judge needs none.

    So each of their results has one verdict.
    """
    if judge.needs_expected or not any(_lacks_expected(group) for group in groups):
        return groups
    return [replace(g, expected=("",)) if _lacks_expected(g) else g for g in groups]


def _lacks_expected(group: Group) -> bool:
    return not group.expected and group.open_ended


def check_groups_fit(
    judge: Judge, groups: Sequence[Group], field: str = "groups", first: int = 0
) -> None:
    """Raise InvalidField if a group brings what the judge does not take.

    `first` is the place of the first group in `field`.
    """
    for index, group in enumerate(groups, first):
        brings = group.brings
        if brings != judge.wants and group.n_contexts:
            # Name the unexpected field if there is one, else the missing one.
            name = judge.wants if brings == "texts" else brings
            rule = f"{judge.identity.signature} takes {judge.wants}, not {brings}"
            raise errors.InvalidField(f"{field}[{index}].{name}", rule)


_AT_ONCE = 32
"""Cache look-ups before the event loop gets to run other tasks."""


@dataclass(frozen=True)
class Estimator:
    """Estimates the cost of work. One instance serves all calls of a process."""

    model_caller: ModelCaller
    currency: str

    async def judging(self, judge: Judge, groups: Sequence[Group], mode: CacheMode) -> CostEstimate:
        """Return the estimate for judging the groups; 0 calls if the judge asks no model.

        Budgets are ignored: questions that they would refuse are counted too.
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
        """Return the estimate for scoring the items."""

        def planned_calls() -> Iterable[PlannedCall]:
            for scorer in scorers:
                # Items whose texts for this rubric are equal are asked about once.
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
        """Return the places of the planned calls that the cache would answer."""
        hits = set()
        for place, planned in enumerate(planned_calls):
            if place % _AT_ONCE == 0:
                await asyncio.sleep(0)
            if await self.model_caller.knows(planned):
                hits.add(place)
        return hits


def _distinct(texts: Iterable[Sequence[str]]) -> int:
    return len({text for some in texts for text in some})


def _sum(
    begun: CostEstimate, planned_calls: Iterable[PlannedCall], hits: Collection[int]
) -> CostEstimate:
    """Return the sum of the calls the cache would not answer. Calls `checkpoint` for each one."""
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
