"""Cuts work into slices that are short, and runs them where they disturb nobody.

A deadline or a cancel can't stop a running thread, so a slice is small enough (well under 20 ms)
that the wait between two slices is where both take effect; and since a call hands in one slice at a
time, calls in work take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from judged_server.domain import ByteArray, Flag, QueryGroup, ScoreColumns, Status, VerdictFault
from judged_server.threads import run_slice

CONTEXT_COST = 40
"""What one context costs beside its texts, in characters of text."""
SLICE_COST = 400_000
"""Characters of text (plus contexts) in a slice: 5 to 9 ms of a lexical judge, by measurement;
larger ones fall out of a core's cache."""


def group_cost(group: QueryGroup) -> int:
    """Return the work of judging a group, in characters of text."""
    texts = sum(map(len, group.expected)) + sum(map(len, group.retrieved)) + len(group.query)
    return texts + CONTEXT_COST * (1 + group.n_contexts)


def cut_slices(groups: Sequence[QueryGroup], limit: int = SLICE_COST) -> Iterator[list[QueryGroup]]:
    """Yield the groups in order, in lists of at most `limit` cost.

    A group above the limit is cut along `retrieved`; a single retrieved text is never cut.
    """
    pending: list[QueryGroup] = []
    pending_cost = 0
    for group in groups:
        for part in _cut_group(group, limit):
            cost = group_cost(part)
            if pending and pending_cost + cost > limit:
                yield pending
                pending, pending_cost = [], 0
            pending.append(part)
            pending_cost += cost
    if pending:
        yield pending


def _cut_group(group: QueryGroup, limit: int) -> Iterator[QueryGroup]:
    n_retrieved = group.n_retrieved
    if n_retrieved <= 1 or group_cost(group) <= limit:
        yield group
        return
    fixed = sum(map(len, group.expected)) + len(group.query) + CONTEXT_COST
    per_result = CONTEXT_COST * group.n_expected
    start, cost = 0, fixed
    # Where spans stand for the texts, there are none.
    for rank, text in enumerate(group.retrieved or [""] * n_retrieved):
        more = len(text) + per_result
        if rank > start and cost + more > limit:
            yield group.at_ranks(range(start, rank))
            start, cost = rank, fixed
        cost += more
    yield group.at_ranks(range(start, n_retrieved))


def _is_one_slice(groups: Sequence[QueryGroup]) -> bool:
    """Say whether all the groups fit into one slice, without looking at more than that takes."""
    return all(cost <= SLICE_COST for cost in accumulate(map(group_cost, groups)))


def join_columns(parts: Sequence[ScoreColumns]) -> ScoreColumns:
    """Return the columns of consecutive slices as one."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return ScoreColumns(np.empty(0))
    statuses: ByteArray | None = None
    flags: ByteArray | None = None
    faults: list[VerdictFault] = []
    if any(part.statuses is not None for part in parts):
        statuses = np.concatenate(
            [
                np.full(len(part.scores), Status.OK, np.uint8)
                if part.statuses is None
                else part.statuses
                for part in parts
            ]
        )
    if any(part.flags is not None for part in parts):
        flags = np.concatenate(
            [
                np.full(len(part.scores), Flag.NONE, np.uint8) if part.flags is None else part.flags
                for part in parts
            ]
        )
    start = 0
    for part in parts:
        faults += [replace(fault, index=fault.index + start) for fault in part.faults]
        start += len(part.scores)
    return ScoreColumns(
        np.concatenate([part.scores for part in parts]), statuses, flags, tuple(faults)
    )


async def score_in_slices(
    score: Callable[[Sequence[QueryGroup]], ScoreColumns], groups: Sequence[QueryGroup]
) -> ScoreColumns:
    """Return the scores of all groups: one slice in place, more of them one by one in a thread.

    In place, because a hand-over to a thread costs 15 % of a slice. A cancel takes effect after the
    slice in work.
    """
    if _is_one_slice(groups):
        return score(groups)
    return join_columns([await run_slice(score, part) for part in cut_slices(groups)])
