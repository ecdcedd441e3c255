"""Between the metric messages and `metrics`: options and rankings in, tables out.

Owns the validation that is about messages (presence, enums, parallel lists); rules about rankings
are those of `metrics`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from judged.v1 import judge_service_pb2, types_pb2

from judged_server import errors
from judged_server.domain import IntArray, Status, Verdicts
from judged_server.metrics import (
    JudgedResults,
    MatchingMode,
    Measure,
    MetricOptions,
    MetricTable,
    NoGoldPolicy,
    Topic,
    check_unique,
    compute_gains,
    compute_judged,
    compute_trec,
    merge_values,
)
from judged_server.rpc.judging_codec import read_verdicts, write_counts


def read_options(message: types_pb2.MetricOptions, field: str = "options") -> MetricOptions:
    """Return the options of a request. Raises InvalidField for enum values nobody knows."""
    matching, no_gold = MatchingMode.GREEDY_FIRST, NoGoldPolicy.SKIP
    if message.HasField("matching"):
        if int(message.matching) not in set(MatchingMode):
            names = ", ".join(MatchingMode.__members__)
            raise errors.InvalidField(f"{field}.matching", f"must be unset or one of {names}")
        matching = MatchingMode(message.matching)
    if message.HasField("no_gold"):
        if int(message.no_gold) not in set(NoGoldPolicy):
            names = ", ".join(NoGoldPolicy.__members__)
            raise errors.InvalidField(f"{field}.no_gold", f"must be unset or one of {names}")
        no_gold = NoGoldPolicy(message.no_gold)
    return MetricOptions(matching, no_gold, message.strict_duplicates, message.complete)


def compute(
    request: judge_service_pb2.ComputeMetricsRequest,
    measures: Sequence[Measure],
    options: MetricOptions,
) -> types_pb2.MetricTable:
    """Return the table of a ComputeMetrics request, whichever relevance it brings."""
    which = request.WhichOneof("relevance")
    per_query = request.options.per_query
    if which == "judged":
        return _judged(request.judged, measures, options, per_query=per_query)
    if which == "trec":
        return _trec(request.trec, measures, options, per_query=per_query)
    if which == "gains":
        return _gains(request.gains, measures, options, per_query=per_query)
    if which == "values":
        return _values(request.values, measures, per_query=per_query)
    raise errors.InvalidField("relevance", "set one of judged, trec, gains or values")


def write_table(
    table: MetricTable, query_ids: Sequence[str], *, per_query: bool, verdicts: Verdicts | None
) -> types_pb2.MetricTable:
    """Return the message of a table; `query_ids` names the queries that were given."""
    message = types_pb2.MetricTable(
        counts=types_pb2.MetricCounts(
            queries=table.counts.queries,
            evaluated=table.counts.evaluated,
            skipped_no_gold=table.counts.skipped_no_gold,
            skipped_missing=table.counts.skipped_missing,
            skipped_unjudged=table.counts.skipped_unjudged,
            skipped_unsettled=table.counts.skipped_unsettled,
            duplicates=table.counts.duplicates,
            retrieved=table.counts.retrieved,
        )
    )
    if verdicts is not None:
        message.counts.verdicts.CopyFrom(write_counts(verdicts))
    for column in table.columns:
        message.metrics.append(
            types_pb2.MetricResult(
                name=column.name,
                mean=column.mean,
                n=column.n,
                lower_bound=column.lower,
                upper_bound=column.upper,
                per_query=column.values.tolist() if per_query else (),
                signature=column.signature,
            )
        )
    if per_query:
        message.query_ids.extend([query_ids[row] for row in table.rows.tolist()])
    return message


def _judged(
    message: judge_service_pb2.JudgedRankings,
    measures: Sequence[Measure],
    options: MetricOptions,
    *,
    per_query: bool,
) -> types_pb2.MetricTable:
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
    return write_table(table, query_ids, per_query=per_query, verdicts=verdicts)


def _trec(
    message: judge_service_pb2.TrecRankings,
    measures: Sequence[Measure],
    options: MetricOptions,
    *,
    per_query: bool,
) -> types_pb2.MetricTable:
    if not message.qrels:
        raise errors.InvalidField("trec.qrels", "must hold at least one topic")
    qrels = [Topic(t.query_id, list(t.document_ids), list(t.grades)) for t in message.qrels]
    run = [Topic(t.query_id, list(t.document_ids), list(t.scores)) for t in message.run]
    table = compute_trec(measures, qrels, run, options)
    query_ids = [topic.query_id for topic in qrels]
    return write_table(table, query_ids, per_query=per_query, verdicts=None)


def _gains(
    message: judge_service_pb2.GainRankings,
    measures: Sequence[Measure],
    options: MetricOptions,
    *,
    per_query: bool,
) -> types_pb2.MetricTable:
    rankings = message.rankings
    query_ids = _query_ids(rankings, "gains.rankings")
    table = compute_gains(
        measures,
        [ranking.gains for ranking in rankings],
        [ranking.relevant_gains for ranking in rankings],
        options,
    )
    return write_table(table, query_ids, per_query=per_query, verdicts=None)


def _values(
    message: judge_service_pb2.PerQueryValues, measures: Sequence[Measure], *, per_query: bool
) -> types_pb2.MetricTable:
    query_ids = list(message.query_ids)
    check_unique(query_ids, "values.query_ids[{}]")
    table = merge_values(measures, [column.values for column in message.columns], len(query_ids))
    return write_table(table, query_ids, per_query=per_query, verdicts=None)


def _query_ids(
    rankings: Sequence[judge_service_pb2.JudgedRanking] | Sequence[judge_service_pb2.GainRanking],
    field: str,
) -> list[str]:
    if not rankings:
        raise errors.InvalidField(field, "must hold at least one ranking")
    query_ids = [ranking.query_id for ranking in rankings]
    check_unique(query_ids, f"{field}[{{}}].query_id")
    return query_ids
