"""The whole pipeline over groups: drop duplicates, judge, match, measure.

Owns the order of the steps and how groups matched by document id join those that are judged.
Leaves judging to `engine.Engine` and every definition to `metrics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from judged_server import errors
from judged_server.domain import (
    BoolArray,
    IntArray,
    JudgeIdentity,
    JudgeSpec,
    QueryGroup,
    Status,
    Verdicts,
)
from judged_server.engine.engine import Engine
from judged_server.metrics import (
    JudgedResults,
    Measure,
    MetricOptions,
    MetricTable,
    check_modes,
    check_unique,
    compute_judged,
    distinct_results,
    match_ids,
)
from judged_server.off_loop import off_loop_if

LARGE_GROUPS = 200
"""More groups than this are prepared and measured off the event loop,"""
LARGE_VERDICTS = 20_000
"""and so are more verdicts than this: about 2 ms."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Metrics over groups, the verdicts they rest on, and the judge, if one was needed."""

    table: MetricTable
    verdicts: Verdicts
    identity: JudgeIdentity | None


async def evaluate(
    engine: Engine,
    spec: JudgeSpec,
    groups: Sequence[QueryGroup],
    measures: Sequence[Measure],
    options: MetricOptions,
) -> Evaluation:
    """Return the metrics of the groups. Raises as the engine and the metrics do, with paths."""
    check_modes(measures, options.matching)
    for index, group in enumerate(groups):
        if not group.query_id:
            raise errors.InvalidField(f"groups[{index}].query_id", "must be set")
    check_unique([group.query_id for group in groups], "groups[{}].query_id")
    judge = engine.choose(spec, groups)
    distinct = await off_loop_if(
        len(groups) > LARGE_GROUPS, _distinct, groups, strict=options.strict_duplicates
    )
    by_id = [bool(group.relevant_document_ids) for group in distinct]
    # A group matched by id has no expected texts, so it takes its place without any verdict and
    # the offsets stay those of the request.
    verdicts = await engine.judge(judge, distinct)
    dropped = sum(a.n_retrieved - b.n_retrieved for a, b in zip(groups, distinct, strict=True))

    def measure() -> MetricTable:
        results = _results(distinct, by_id, verdicts)
        return compute_judged(measures, replace(results, duplicates=dropped), options)

    large = len(groups) > LARGE_GROUPS or len(verdicts.relevant) > LARGE_VERDICTS
    table = await off_loop_if(large, measure)
    return Evaluation(table, verdicts, None if all(by_id) else judge.identity)


def _distinct(groups: Sequence[QueryGroup], *, strict: bool) -> list[QueryGroup]:
    return [_without_duplicates(group, i, strict=strict) for i, group in enumerate(groups)]


def _without_duplicates(group: QueryGroup, index: int, *, strict: bool) -> QueryGroup:
    if not group.document_ids:
        return group
    texts = group.retrieved or None
    keep = distinct_results(
        group.document_ids, texts, field=f"groups[{index}].document_ids", strict=strict
    )
    if keep is None:
        return group
    embeddings = group.embeddings
    return replace(
        group,
        retrieved=[group.retrieved[i] for i in keep] if texts else (),
        document_ids=[group.document_ids[i] for i in keep],
        embeddings=embeddings and replace(embeddings, retrieved=embeddings.retrieved[keep]),
    )


def _results(
    groups: Sequence[QueryGroup], by_id: Sequence[bool], verdicts: Verdicts
) -> JudgedResults:
    statuses = verdicts.columns.statuses
    missing: BoolArray | None = None if statuses is None else statuses != Status.OK
    n_retrieved: IntArray = np.array([group.n_retrieved for group in groups], np.int64)
    n_expected: IntArray = np.array([group.n_expected for group in groups], np.int64)
    if not any(by_id):
        return JudgedResults(verdicts.relevant, n_retrieved, n_expected, missing)
    relevant_parts: list[BoolArray] = []
    missing_parts: list[BoolArray] = []
    for index, group in enumerate(groups):
        part = slice(verdicts.offsets[index], verdicts.offsets[index + 1])
        if by_id[index]:
            ids = _ids(group)
            targets = list(dict.fromkeys(group.relevant_document_ids))
            n_expected[index] = len(targets)
            relevant_parts.append(match_ids(ids, targets))
            missing_parts.append(np.zeros(len(ids) * len(targets), np.bool_))
        else:
            relevant_parts.append(verdicts.relevant[part])
            missing_parts.append(np.zeros(0, np.bool_) if missing is None else missing[part])
    return JudgedResults(
        np.concatenate(relevant_parts),
        n_retrieved,
        n_expected,
        None if missing is None else np.concatenate(missing_parts),
    )


def _ids(group: QueryGroup) -> Sequence[str]:
    return group.document_ids or [f"retrieved_{rank}" for rank in range(group.n_retrieved)]
