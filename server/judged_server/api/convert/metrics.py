"""Between the metric messages and `metrics`: options and rankings in, tables out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

import numpy as np
from judged.v1 import judge_service_pb2, types_pb2

from judged_server import errors
from judged_server.api.convert.correction import with_correction, write_corrected
from judged_server.api.convert.embedded import measure_embedded
from judged_server.api.convert.golden import read_query_metadata
from judged_server.api.convert.judging import read_verdicts, write_counts
from judged_server.api.convert.statistics import read_interval_options, write_interval
from judged_server.api.convert.topics import read_qrels, read_run
from judged_server.api.limits import RequestLimits
from judged_server.domain import FloatArray, IntArray, Status, Verdicts
from judged_server.metrics import (
    JudgedResults,
    MatchingMode,
    Measure,
    MetricOptions,
    MetricTable,
    NoGoldPolicy,
    Qrels,
    UnjudgedPolicy,
    check_keys,
    check_unique,
    compute_gains,
    compute_judged,
    compute_trec,
    merge_values,
    query_ids,
    with_intervals_and_slices,
)
from judged_server.metrics.table import MetricColumn

MAX_INT32 = 2**31 - 1
"""The largest grade of the contract, and more documents than a message holds."""

_Choice = TypeVar("_Choice", bound=IntEnum)


def read_options(message: types_pb2.MetricOptions, field: str = "options") -> MetricOptions:
    """Return the options of a request. Raises InvalidField for what no option can be."""
    matching, no_gold = MatchingMode.GREEDY_FIRST, NoGoldPolicy.SKIP
    unjudged, interval = UnjudgedPolicy.NON_RELEVANT, None
    if message.HasField("matching"):
        matching = _choice(MatchingMode, message.matching, f"{field}.matching")
    if message.HasField("no_gold"):
        no_gold = _choice(NoGoldPolicy, message.no_gold, f"{field}.no_gold")
    if message.HasField("unjudged"):
        unjudged = _choice(UnjudgedPolicy, message.unjudged, f"{field}.unjudged")
    if message.HasField("interval"):
        interval = read_interval_options(message.interval, f"{field}.interval")
    slice_by = tuple(message.slice_by)
    check_keys(slice_by, f"{field}.slice_by")
    return MetricOptions(
        matching,
        no_gold,
        message.strict_duplicates,
        message.complete,
        unjudged,
        interval,
        slice_by,
        _positive(message, "relevance_level", field) or 1,
        _positive(message, "max_documents", field),
    )


_QRELS_ONLY = ("complete", "unjudged", "relevance_level", "max_documents")
_USED_BY = {
    "groups": {"matching", "no_gold", "strict_duplicates"},
    "judged": {"matching", "no_gold"},
    "embedded": {"matching", "no_gold"},
    "gains": {"no_gold"},
    "trec": {"strict_duplicates", *_QRELS_ONLY},
    "values": set[str](),
}
"""The options that something is made of, by what the rankings are given as."""


def refuse_unused(
    message: types_pb2.MetricOptions, given_as: str | None, field: str = "options"
) -> None:
    """Raise InvalidField for an option that is set and would change nothing.

    `given_as` is how the rankings are given: a name of the oneof `relevance`, or "groups".
    """
    used = _USED_BY.get(given_as or "")
    if used is None:
        return
    for descriptor, _ in message.ListFields():
        name = descriptor.name
        users = [which for which, names in _USED_BY.items() if name in names]
        if users and name not in used:
            raise errors.InvalidField(
                f"{field}.{name}",
                f"does nothing for {given_as}; leave it out, or give {' or '.join(users)}",
            )


def _positive(message: types_pb2.MetricOptions, name: str, field: str) -> int | None:
    """Return a whole number of the options from 1 to MAX_INT32, None where it is unset."""
    if not message.HasField(name):  # type: ignore[arg-type]  # a name that the caller spells out
        return None
    number: int = getattr(message, name)
    if not 1 <= number <= MAX_INT32:
        raise errors.InvalidField(f"{field}.{name}", f"must be unset or from 1 to {MAX_INT32}")
    return number


def _choice(kind: type[_Choice], number: int, field: str) -> _Choice:
    if int(number) not in set(kind):
        raise errors.InvalidField(field, f"must be unset or one of {errors.full_names(kind)}")
    return kind(number)


@dataclass(frozen=True, slots=True)
class _Measured:
    """A table, and the queries and verdicts it was made from; `not_measured` are other queries."""

    table: MetricTable
    query_ids: Sequence[str]
    verdicts: Verdicts | None = None
    not_measured: Sequence[str] = ()
    judged: tuple[JudgedResults, FloatArray] | None = None


def compute(
    request: judge_service_pb2.ComputeMetricsRequest,
    measures: Sequence[Measure],
    options: MetricOptions,
    limits: RequestLimits | None = None,
    qrels: Qrels | None = None,
) -> types_pb2.MetricTable:
    """Return the table of a ComputeMetrics request, whichever relevance it brings.

    Vectors, whose cosines are work that a small message can ask much of, need `limits`. `qrels`
    that were read before take the place of those of the request.
    """
    refuse_unused(request.options, request.WhichOneof("relevance"))
    done = _measure(request, measures, options, limits, qrels)
    metadata = read_query_metadata(request.metadata, done.query_ids, done.not_measured)
    table = with_intervals_and_slices(done.table, options, metadata)
    table = with_correction(table, request, measures, options, done.query_ids, done.judged)
    return write_table(
        table, done.query_ids, per_query=request.options.per_query, verdicts=done.verdicts
    )


def _measure(
    request: judge_service_pb2.ComputeMetricsRequest,
    measures: Sequence[Measure],
    options: MetricOptions,
    limits: RequestLimits | None,
    qrels: Qrels | None,
) -> _Measured:
    which = request.WhichOneof("relevance")
    if which == "judged":
        return _judged(request.judged, measures, options)
    if which == "trec":
        return _trec(request.trec, measures, options, qrels)
    if which == "gains":
        return _gains(request.gains, measures, options)
    if which == "values":
        return _values(request.values, measures)
    if which == "embedded" and limits is not None:
        return _Measured(*measure_embedded(request.embedded, measures, options, limits))
    raise errors.InvalidField("relevance", "set one of judged, trec, gains, values or embedded")


def write_table(
    table: MetricTable, query_ids: Sequence[str], *, per_query: bool, verdicts: Verdicts | None
) -> types_pb2.MetricTable:
    """Return the message of a table; `query_ids` names the queries that were given."""
    message = types_pb2.MetricTable(
        metrics=[_write_column(column, per_query=per_query) for column in table.columns],
        counts=types_pb2.MetricCounts(
            queries=table.counts.queries,
            evaluated=table.counts.evaluated,
            skipped_no_gold=table.counts.skipped_no_gold,
            skipped_missing=table.counts.skipped_missing,
            skipped_unjudged=table.counts.skipped_unjudged,
            skipped_unsettled=table.counts.skipped_unsettled,
            duplicates=table.counts.duplicates,
            retrieved=table.counts.retrieved,
            unjudged=table.counts.unjudged,
        ),
        slices=[
            types_pb2.MetricSlice(
                key=part.key,
                value=part.value,
                metrics=[_write_column(column, per_query=False) for column in part.columns],
            )
            for part in table.slices
        ],
    )
    if verdicts is not None:
        message.counts.verdicts.CopyFrom(write_counts(verdicts))
    if per_query:
        message.query_ids.extend([query_ids[row] for row in table.rows.tolist()])
    return message


def _write_column(column: MetricColumn, *, per_query: bool) -> types_pb2.MetricResult:
    return types_pb2.MetricResult(
        name=column.name,
        mean=column.mean,
        n=column.n,
        lower_bound=column.lower,
        upper_bound=column.upper,
        per_query=column.values.tolist() if per_query else (),
        signature=column.signature,
        interval=None if column.interval is None else write_interval(column.interval),
        corrected=None if column.corrected is None else write_corrected(column.corrected),
        per_query_lower=() if column.query_lower is None else column.query_lower.tolist(),
        per_query_upper=() if column.query_upper is None else column.query_upper.tolist(),
    )


def _judged(
    message: judge_service_pb2.JudgedRankings,
    measures: Sequence[Measure],
    options: MetricOptions,
) -> _Measured:
    rankings = message.rankings
    query_ids = _query_ids(rankings, "judged.rankings")
    sizes = [ranking.retrieved * ranking.expected for ranking in rankings]
    verdicts = read_verdicts(message.verdicts, sizes, "judged.verdicts")
    n_retrieved: IntArray = np.array([ranking.retrieved for ranking in rankings], np.int64)
    n_expected: IntArray = np.array([ranking.expected for ranking in rankings], np.int64)
    statuses = verdicts.columns.statuses
    missing = None if statuses is None else statuses != Status.OK
    results = JudgedResults(verdicts.relevant, n_retrieved, n_expected, missing)
    table = compute_judged(measures, results, options, field="judged.rankings[{}].expected")
    return _Measured(table, query_ids, verdicts, judged=(results, verdicts.columns.scores))


def _trec(
    message: judge_service_pb2.TrecRankings,
    measures: Sequence[Measure],
    options: MetricOptions,
    known: Qrels | None,
) -> _Measured:
    qrels = read_qrels(message) if known is None else known
    run = read_run(message)
    table = compute_trec(measures, qrels, run, options)
    return _Measured(table, list(qrels.row_of), not_measured=query_ids(run))


def _gains(
    message: judge_service_pb2.GainRankings,
    measures: Sequence[Measure],
    options: MetricOptions,
) -> _Measured:
    rankings = message.rankings
    query_ids = _query_ids(rankings, "gains.rankings")
    table = compute_gains(
        measures,
        [ranking.gains for ranking in rankings],
        [ranking.relevant_gains for ranking in rankings],
        options,
    )
    return _Measured(table, query_ids)


def _values(message: judge_service_pb2.PerQueryValues, measures: Sequence[Measure]) -> _Measured:
    query_ids = list(message.query_ids)
    check_unique(query_ids, "values.query_ids[{}]")
    table = merge_values(measures, [column.values for column in message.columns], len(query_ids))
    return _Measured(table, query_ids)


def _query_ids(
    rankings: Sequence[judge_service_pb2.JudgedRanking] | Sequence[judge_service_pb2.GainRanking],
    field: str,
) -> list[str]:
    if not rankings:
        raise errors.InvalidField(field, "must hold at least one ranking")
    query_ids = [ranking.query_id for ranking in rankings]
    check_unique(query_ids, f"{field}[{{}}].query_id")
    return query_ids
