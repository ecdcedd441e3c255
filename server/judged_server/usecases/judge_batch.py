"""BatchJudge: run the judge over the groups and apply its threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from judged_server import errors, tracing
from judged_server.domain import QueryGroup, Verdicts
from judged_server.judges.base import ANONYMOUS, Caller, Judge, size_of
from judged_server.scheduling.concurrency import run_by_size


async def judge_batch(
    judge: Judge,
    groups: Sequence[QueryGroup],
    field: str = "groups",
    caller: Caller = ANONYMOUS,
) -> Verdicts:
    """Return one verdict for each context of the groups, in order.

    Raises InvalidField when a group brings what the judge does not take, texts to a judge of
    vectors, say.
    """
    check_groups_fit(judge, groups, field)
    groups = fill_expected(judge, groups)
    offsets = list(accumulate([group.n_contexts for group in groups], initial=0))
    if caller.notes is not None:
        caller.notes.add_judged(judge.identity.signature, offsets[-1])
    columns = await judge.judge(groups, caller)
    if len(columns.scores) != offsets[-1]:
        raise RuntimeError(
            f"{judge.identity.kind} returned {len(columns.scores)} scores for {offsets[-1]}"
        )
    verdicts = Verdicts.decide(columns, offsets, judge.identity.min_score)
    tracer = tracing.active
    if tracer is not None and tracer.wants_results:
        size = size_of(groups)
        await run_by_size(size, tracer.verdicts, judge.identity, groups, verdicts)
    return verdicts


def fill_expected(judge: Judge, groups: Sequence[QueryGroup]) -> Sequence[QueryGroup]:
    """Return the groups with one blank expected text where a judge needs none and none is given.

    Each of their results then has one verdict.
    """
    if judge.needs_expected or not any(_lacks_expected(group) for group in groups):
        return groups
    return [replace(g, expected=("",)) if _lacks_expected(g) else g for g in groups]


def _lacks_expected(group: QueryGroup) -> bool:
    return not group.expected and group.open_ended


def check_groups_fit(
    judge: Judge, groups: Sequence[QueryGroup], field: str = "groups", first: int = 0
) -> None:
    """Raise InvalidField when a group brings what the judge does not take.

    `first` is the place of the first group in `field`.
    """
    vectors, spans = judge.wants_embeddings, judge.wants_spans
    for index, group in enumerate(groups, first):
        fits = (group.embeddings is not None) == vectors and (group.spans is not None) == spans
        if not fits and group.n_contexts:
            raise _unfit_field(judge, group, f"{field}[{index}]")


def _unfit_field(judge: Judge, group: QueryGroup, path: str) -> errors.InvalidField:
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
