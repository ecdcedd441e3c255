"""The way of a batch: choose the judge, run it in slices, apply the bar.

Owns the order of these steps and the check that a judge kept its side of the contract. Leaves
admission to the caller at the edge, metrics to `evaluation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import cast

from judged_server import errors
from judged_server.domain import JudgeSpec, QueryGroup, ScoreColumns, Verdicts
from judged_server.engine.catalog import AnyJudge, JudgeCatalog
from judged_server.engine.slices import SliceRunner
from judged_server.ports import AsyncJudge


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
        self, judge: AnyJudge, groups: Sequence[QueryGroup], field: str = "groups"
    ) -> Verdicts:
        """Return one verdict for each context of the groups, in order.

        Raises InvalidField when a group brings embeddings to a judge of texts, or the reverse.
        """
        identity = judge.identity
        for index, group in enumerate(groups):
            if (group.embeddings is not None) != judge.wants_embeddings and group.n_contexts:
                wants = "your vectors in every group" if judge.wants_embeddings else "texts only"
                raise errors.InvalidField(
                    f"{field}[{index}].embeddings", f"{identity.signature} takes {wants}"
                )
        offsets = list(accumulate([group.n_contexts for group in groups], initial=0))
        columns = await self._score(judge, groups)
        if len(columns.scores) != offsets[-1]:
            raise RuntimeError(
                f"{identity.kind} returned {len(columns.scores)} scores for {offsets[-1]}"
            )
        return Verdicts.decide(columns, offsets, identity.min_score)

    async def _score(self, judge: AnyJudge, groups: Sequence[QueryGroup]) -> ScoreColumns:
        if hasattr(judge, "score_async"):
            return await cast("AsyncJudge", judge).score_async(groups)
        return await self._slices.run(judge, groups)
