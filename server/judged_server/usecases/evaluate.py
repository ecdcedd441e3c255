"""The whole pipeline over groups: drop duplicates, judge, match, measure."""

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
    Usage,
    Verdicts,
)
from judged_server.judges.base import Caller
from judged_server.judges.catalog import JudgeCatalog
from judged_server.metrics import (
    JudgedResults,
    Judging,
    MatchingMode,
    Measure,
    MetricOptions,
    MetricTable,
    check_modes,
    check_unique,
    compute_merged,
    distinct_results,
    match_ids,
    with_intervals_and_slices,
)
from judged_server.threads import run_computation, run_in_thread_if
from judged_server.usecases.judge_batch import judge_batch
from judged_server.usecases.metric_judges import family_judgings, judge_family, own_measures
from judged_server.usecases.negatives import NegativeReport, negative_groups, report_negatives

LARGE_GROUPS = 200
"""More groups than this are prepared and measured off the event loop,"""
LARGE_VERDICTS = 20_000
"""and so are more verdicts than this: about 2 ms."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Metrics over groups, and what they rest on.

    `verdicts` and `identity` are those of the request's judge: None where it had nothing to do.
    `judged` holds the verdicts of every judge that ran for the metrics, that one's among them.
    """

    table: MetricTable
    verdicts: Verdicts | None
    identity: JudgeIdentity | None
    judged: Sequence[Verdicts]
    negatives: NegativeReport | None = None
    usage: Usage | None = None

    @property
    def n_verdicts(self) -> int:
        """The number of verdicts in all."""
        parts = [*self.judged, *([self.negatives.verdicts] if self.negatives is not None else [])]
        return sum(len(part.relevant) for part in parts)


async def evaluate(
    catalog: JudgeCatalog,
    spec: JudgeSpec,
    groups: Sequence[QueryGroup],
    measures: Sequence[Measure],
    options: MetricOptions,
    *,
    keep_verdicts: bool = True,
    caller: Caller = Caller(),  # noqa: B008 - frozen
) -> Evaluation:
    """Return the metrics of the groups. Raises as judging and the metrics do, with paths.

    The judge of `spec` runs if a metric needs it, if there are negatives, and to keep its verdicts.
    """
    own = own_measures(measures)
    check_modes(measures, options.matching, families=True)
    for index, group in enumerate(groups):
        if not group.query_id:
            raise errors.InvalidField(f"groups[{index}].query_id", "must be set")
    check_unique([group.query_id for group in groups], "groups[{}].query_id")
    judge = catalog.choose(spec, groups=groups)
    distinct, ranks = await run_in_thread_if(
        len(groups) > LARGE_GROUPS, _distinct, groups, strict=options.strict_duplicates
    )
    by_id = [bool(group.relevant_document_ids) for group in distinct]
    families = family_judgings(catalog, measures, distinct)
    negatives = negative_groups(judge, distinct)
    # A group matched by id has no expected texts, so it takes its place without any verdict and
    # the offsets stay those of the request. Negatives go along, so that no text is read twice.
    asked = distinct if own or keep_verdicts else []
    n, n_all = len(asked), len(asked) + len(negatives)
    both = await judge_batch(judge, [*asked, *negatives], caller=caller)
    verdicts = both if n == n_all else both.of_groups(0, n)
    columns = [(own, options, verdicts)] if own else []
    in_mode_any = replace(options, matching=MatchingMode.ANY)
    for family in families:
        known = (judge, verdicts) if asked else None
        columns.append((family.bound, in_mode_any, await judge_family(family, known)))
    dropped = sum(a.n_retrieved - b.n_retrieved for a, b in zip(groups, distinct, strict=True))

    def measure() -> tuple[MetricTable, NegativeReport | None]:
        judgings = [
            Judging(some, replace(_results(distinct, by_id, found), duplicates=dropped), how)
            for some, how, found in columns
        ]
        table = compute_merged(judgings, measures)
        table = with_intervals_and_slices(table, options, [group.metadata for group in groups])
        if not negatives:
            return table, None
        return table, report_negatives(distinct, ranks, both.of_groups(n, n_all))

    n_verdicts = sum(len(found.relevant) for found in (both, *(found for _, _, found in columns)))
    large = len(groups) > LARGE_GROUPS or n_verdicts > LARGE_VERDICTS
    if large or options.interval is not None:  # an interval takes 5 ms and more
        table, report = await run_computation(large and options.interval is not None, measure)
    else:
        table, report = measure()
    needed = (asked and not all(by_id)) or negatives
    return Evaluation(
        table,
        verdicts if asked else None,
        judge.identity if needed else None,
        [found for _, _, found in columns],
        report,
        both.columns.usage,
    )


def _distinct(
    groups: Sequence[QueryGroup], *, strict: bool
) -> tuple[list[QueryGroup], list[Sequence[int] | None]]:
    """Return the groups without repeats, and the ranks that are left of those that had any."""
    ranks = [_kept(group, i, strict=strict) for i, group in enumerate(groups)]
    kept = zip(groups, ranks, strict=True)
    return [group if some is None else group.at_ranks(some) for group, some in kept], ranks


def _kept(group: QueryGroup, index: int, *, strict: bool) -> Sequence[int] | None:
    if not group.document_ids:
        return None
    texts: Sequence[object] | None = group.retrieved or None
    if group.spans is not None:
        spans = group.spans.retrieved
        texts = list(
            zip(spans.files.tolist(), spans.starts.tolist(), spans.ends.tolist(), strict=True)
        )
    return distinct_results(
        group.document_ids, texts, field=f"groups[{index}].document_ids", strict=strict
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
