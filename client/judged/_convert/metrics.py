"""Between metric options, rankings and tables, and the messages of ComputeMetrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judged import errors
from judged._convert.groups import write_embeddings, write_metadata
from judged._convert.statistics import (
    read_corrected,
    read_interval,
    write_interval_options,
    write_labels,
)
from judged._convert.trec import write_trec
from judged._convert.verdicts import read_verdict_counts
from judged._inputs import WrongType, as_metrics, need_kind
from judged.types.embeddings import EmbeddedRankings
from judged.types.metrics import MetricCounts, MetricOptions, MetricResult, MetricSlice, MetricTable
from judged.types.rankings import (
    GainRankings,
    JudgedRankings,
    PerQueryValues,
    Relevance,
    TrecRankings,
)
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import types_pb2


def write_options(options: MetricOptions) -> types_pb2.MetricOptions:
    """Return the message of metric options."""
    need_kind(options, "options", MetricOptions, "MetricOptions")
    return types_pb2.MetricOptions(
        matching=None if options.matching is None else int(options.matching),  # type: ignore[arg-type]  # ours has the same numbers
        no_gold=None if options.no_gold is None else int(options.no_gold),  # type: ignore[arg-type]  # ours has the same numbers
        strict_duplicates=options.strict_duplicates,
        complete=options.complete,
        per_query=options.per_query,
        interval=write_interval_options(options.interval),
        slice_by=_texts(options.slice_by, "options.slice_by"),
        unjudged=None if options.unjudged is None else int(options.unjudged),  # type: ignore[arg-type]  # ours has the same numbers
        relevance_level=_whole(options.relevance_level, "options.relevance_level"),
        max_documents=_whole(options.max_documents, "options.max_documents"),
    )


def _whole(value: int | None, field: str) -> int | None:
    if value is not None and not 0 < value < 1 << 31:  # the field could not hold a negative one
        raise errors.InvalidArgument.of_field(field, f"must lie in 1 to {(1 << 31) - 1}")
    return value


def _texts(values: Sequence[str], field: str) -> Sequence[str]:
    if isinstance(values, str):  # protobuf would take it letter by letter
        raise errors.InvalidArgument.of_field(field, "must be a list of texts, not one text")
    return values


def write_metrics(
    metrics: Sequence[str],
    relevance: Relevance,
    options: MetricOptions,
    metadata: Mapping[str, Mapping[str, str]] | None = None,
    human_values: PerQueryValues | None = None,
) -> pb.ComputeMetricsRequest:
    """Return a ComputeMetrics request; `metadata` is by query id."""
    request = pb.ComputeMetricsRequest(metrics=as_metrics(metrics), options=write_options(options))
    write_metadata(request, metadata or {})
    if human_values is not None:
        request.human_values.CopyFrom(_write_values(human_values))
    if isinstance(relevance, JudgedRankings):
        request.judged.rankings.extend(
            pb.JudgedRanking(query_id=r.query_id, expected=r.expected, retrieved=r.retrieved)
            for r in relevance.rankings
        )
        columns = request.judged.verdicts
        columns.relevant.extend(relevance.relevant)
        columns.status.extend(relevance.status)  # type: ignore[arg-type]  # ours has the same numbers
        columns.source.extend(relevance.source)  # type: ignore[arg-type]  # ours has the same numbers
        columns.flags.extend(relevance.flags)
        columns.score.extend(relevance.score)
        if relevance.human_labels is not None:
            request.judged.human_labels.CopyFrom(write_labels(relevance.human_labels))
    elif isinstance(relevance, TrecRankings):
        write_trec(request.trec, relevance)
    elif isinstance(relevance, GainRankings):
        request.gains.rankings.extend(
            pb.GainRanking(query_id=r.query_id, gains=r.gains, relevant_gains=r.relevant_gains)
            for r in relevance.rankings
        )
    elif isinstance(relevance, EmbeddedRankings):
        write_embedded(request.embedded, relevance)
    elif isinstance(relevance, PerQueryValues):
        request.values.CopyFrom(_write_values(relevance))
    else:
        rule = "must be TrecRankings, JudgedRankings, GainRankings, EmbeddedRankings or"
        given = f"PerQueryValues, not {type(relevance).__name__}"
        raise WrongType.of_field("relevance", f"{rule} {given}")
    return request


def _write_values(values: PerQueryValues) -> pb.PerQueryValues:
    return pb.PerQueryValues(
        query_ids=values.query_ids,
        columns=[pb.ValueColumn(values=column) for column in values.columns],
    )


def read_table(message: types_pb2.MetricTable) -> MetricTable:
    """Return the metrics of a reply."""
    return MetricTable(
        metrics=[_read_metric(metric) for metric in message.metrics],
        query_ids=list(message.query_ids),
        counts=_read_counts(message.counts),
        slices=[
            MetricSlice(part.key, part.value, [_read_metric(metric) for metric in part.metrics])
            for part in message.slices
        ],
    )


def _read_metric(message: types_pb2.MetricResult) -> MetricResult:
    return MetricResult(
        message.name,
        message.mean if message.HasField("mean") else None,
        message.n,
        message.lower_bound if message.HasField("lower_bound") else None,
        message.upper_bound if message.HasField("upper_bound") else None,
        message.signature,
        list(message.per_query),
        interval=read_interval(message.interval) if message.HasField("interval") else None,
        corrected=read_corrected(message.corrected) if message.HasField("corrected") else None,
        per_query_lower=list(message.per_query_lower),
        per_query_upper=list(message.per_query_upper),
    )


def _read_counts(message: types_pb2.MetricCounts) -> MetricCounts:
    verdicts = message.verdicts if message.HasField("verdicts") else None
    return MetricCounts(
        message.queries,
        message.evaluated,
        message.skipped_no_gold,
        message.skipped_missing,
        message.skipped_unjudged,
        message.skipped_unsettled,
        message.duplicates,
        message.retrieved,
        verdicts and read_verdict_counts(verdicts),
        message.unjudged,
    )


def write_embedded(message: pb.EmbeddedRankings, rankings: EmbeddedRankings) -> None:
    """Set the rankings of a ComputeMetrics request that brings vectors."""
    message.SetInParent()
    for ranking in rankings.rankings:
        entry = message.rankings.add(query_id=ranking.query_id)
        write_embeddings(entry.embeddings, ranking.embeddings)
    if rankings.min_score is not None:
        message.min_score = rankings.min_score
