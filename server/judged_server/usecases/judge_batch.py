"""The way of a batch: choose the judge, run it in slices, apply the bar.

Owns the order of these steps and the check that a judge kept its side of the contract. Leaves
admission to the caller at the edge, metrics to `evaluation`.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from itertools import accumulate
from typing import TypeVar, cast

from judged_server import errors
from judged_server.domain import JudgeSpec, QueryGroup, ScoreColumns, Verdicts
from judged_server.judges.catalog import AnyJudge, JudgeCatalog
from judged_server.ports import AskingJudge, AsyncJudge, Caller, LexicalJudge
from judged_server.usecases.slices import CONTEXT_COST, SLICE_COST, SliceRunner

Result = TypeVar("Result")


class Engine:
    """Judges groups. One instance serves all calls of a process."""

    def __init__(self, catalog: JudgeCatalog, slices: SliceRunner) -> None:
        self.catalog = catalog
        self._slices = slices

    def choose(
        self, spec: JudgeSpec, groups: Sequence[QueryGroup] = (), field: str = "judge"
    ) -> AnyJudge:
        """Return the judge for a spec and for what the groups bring; raises as the catalog does."""
        embeddings = any(group.embeddings is not None for group in groups)
        return self.catalog.choose(spec, field, embeddings=embeddings)

    async def judge(
        self,
        judge: AnyJudge,
        groups: Sequence[QueryGroup],
        field: str = "groups",
        caller: Caller = Caller(),  # noqa: B008 - frozen
        size: float = math.inf,
    ) -> Verdicts:
        """Return one verdict for each context of the groups, in order.

        `size` is that of the groups in bytes, or more: it spares looking at every text.
        Raises InvalidField when a group brings what the judge does not take, texts to a judge of
        vectors, say.
        """
        self.refuse_misfits(judge, groups, field)
        identity = judge.identity
        offsets = list(accumulate([group.n_contexts for group in groups], initial=0))
        most_cost = size + CONTEXT_COST * (len(groups) + offsets[-1])
        if most_cost <= SLICE_COST and hasattr(judge, "score"):  # one slice, in place
            columns = cast("LexicalJudge", judge).score(groups)
        else:
            columns = await run_judge(self._slices, judge, groups, caller)
        if len(columns.scores) != offsets[-1]:
            raise RuntimeError(
                f"{identity.kind} returned {len(columns.scores)} scores for {offsets[-1]}"
            )
        return Verdicts.decide(columns, offsets, identity.min_score)

    def refuse_misfits(self, judge: AnyJudge, groups: Sequence[QueryGroup], field: str) -> None:
        """Raise InvalidField when a group brings what the judge does not take."""
        vectors, spans = judge.wants_embeddings, judge.wants_spans
        for index, group in enumerate(groups):
            fits = (group.embeddings is not None) == vectors and (group.spans is not None) == spans
            if not fits and group.n_contexts:
                raise _misfit(judge, group, f"{field}[{index}]")

    async def take_turns(self, steps: Generator[None, None, Result]) -> Result:
        """Return the result of long work, done off the event loop, in turns with that of others."""
        return await self._slices.exhaust(steps)


async def run_judge(
    slices: SliceRunner, judge: AnyJudge, groups: Sequence[QueryGroup], caller: Caller
) -> ScoreColumns:
    """Return one score for each context of the groups, whatever the kind of the judge."""
    if hasattr(judge, "ask"):
        return await cast("AskingJudge", judge).ask(groups, caller)
    if hasattr(judge, "score_async"):
        return await cast("AsyncJudge", judge).score_async(groups)
    return await slices.run(judge, groups)


def _misfit(judge: AnyJudge, group: QueryGroup, path: str) -> errors.InvalidField:
    """Return the error of a group that does not bring what the judge takes."""
    wants = "texts only"
    if judge.wants_embeddings:
        wants = "your vectors in every group"
    elif judge.wants_spans:
        wants = "spans in every group"
    # The field that is there and should not be, else the one that should be there and is not.
    name = "embeddings" if judge.wants_embeddings else "spans"
    if group.embeddings is not None:
        name = "embeddings"
    elif group.spans is not None:
        name = "spans"
    hint = "; spans are for the judge span" if group.spans is not None else ""
    return errors.InvalidField(f"{path}.{name}", f"{judge.identity.signature} takes {wants}{hint}")
