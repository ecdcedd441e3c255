"""Between the public types and the messages of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judged import errors
from judged._asking import write_asking
from judged._choices import in_python
from judged._correction import read_corrected, write_labels
from judged._details import read_detail, read_usage
from judged._golden import read_matches, write_embedded, write_golden, write_metadata
from judged._groups import check_group, unfit
from judged._inputs import WrongType, as_metrics, need_kind
from judged._judges import write_judge
from judged._statistics import read_interval, write_interval_options
from judged._trec import write_trec
from judged.asking import Asking
from judged.details import Usage
from judged.embeddings import EmbeddedRankings
from judged.runs import TrecRankings
from judged.statuses import Source, Status
from judged.types import (
    Evaluation,
    GainRankings,
    Judge,
    JudgedChunk,
    JudgedRankings,
    JudgeIdentity,
    MetricCounts,
    MetricOptions,
    MetricResult,
    MetricSlice,
    MetricTable,
    NegativeReport,
    PerQueryValues,
    QueryGroup,
    Relevance,
    VerdictCounts,
    VerdictError,
    Verdicts,
)
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import types_pb2


def write_group(
    group: QueryGroup, path: str = "groups[0]", *, checked: bool = False
) -> types_pb2.QueryGroup:
    """Return the message of a group. Raises InvalidArgument for text that UTF-8 can't hold."""
    if not checked:  # protobuf takes one text letter by letter, and bytes for text
        check_group(group, path)
    try:
        message = types_pb2.QueryGroup(
            query_id=group.query_id,
            query=group.query,
            expected=group.expected,
            retrieved=group.retrieved,
            document_ids=group.document_ids,
            relevant_document_ids=group.relevant_document_ids,
            negatives=group.negatives,
        )
    except (UnicodeEncodeError, TypeError, ValueError) as problem:
        raise unfit(group, path, problem) from None
    write_golden(message, group, path)
    return message


def read_identity(message: types_pb2.JudgeIdentity) -> JudgeIdentity:
    """Return the identity of a judge."""
    return JudgeIdentity(
        message.kind,
        message.profile,
        message.min_score,
        message.signature,
        message.scoring_key,
        message.fingerprint,
    )


def read_error(message: types_pb2.VerdictError) -> VerdictError:
    """Return why a verdict is missing."""
    said = in_python(message.message)
    return VerdictError(message.code, message.reason, said, message.retryable)


def read_verdicts(
    message: types_pb2.VerdictColumns,
    judge: JudgeIdentity,
    usage: Usage | None = None,
    groups: Sequence[QueryGroup] = (),
) -> Verdicts:
    """Return the verdicts of a reply; columns that were left empty are filled in."""
    total = len(message.relevant)
    return Verdicts(
        relevant=list(message.relevant),
        score=list(message.score),
        status=list(message.status) or [int(Status.OK)] * total,
        source=list(message.source) or [int(Source.COMPUTED)] * total,
        flags=list(message.flags) or [0] * total,
        offsets=list(message.group_offsets),
        errors={error.index: read_error(error) for error in message.errors},
        judge=judge,
        agreement=list(message.agreement),
        details={detail.index: read_detail(detail) for detail in message.details},
        usage=usage,
        groups=groups,
    )


def usage_of(
    message: pb.BatchJudgeResponse | pb.JudgedChunk | pb.EvaluateResponse,
) -> Usage | None:
    """Return what a reply took of language models, None when none was asked."""
    return read_usage(message.usage) if message.HasField("usage") else None


def read_chunk(
    message: pb.JudgedChunk, judge: JudgeIdentity, groups: Sequence[QueryGroup] = ()
) -> JudgedChunk:
    """Return an answered chunk; `groups` are those that were sent."""
    failed = message.WhichOneof("result") == "error"
    return JudgedChunk(
        message.chunk_id,
        None if failed else read_verdicts(message.verdicts, judge, usage_of(message), groups),
        read_error(message.error) if failed else None,
        message.progress.contexts_received,
        message.progress.contexts_done,
    )


def write_evaluate(
    groups: Sequence[QueryGroup],
    metrics: Sequence[str],
    judge: Judge | str | None,
    options: MetricOptions,
    asking: Asking | None = None,
    *,
    include_verdicts: bool,
    include_details: bool,
) -> pb.EvaluateRequest:
    """Return an Evaluate request about groups that are checked."""
    metrics = as_metrics(metrics)
    return pb.EvaluateRequest(
        groups=[write_group(g, f"groups[{i}]", checked=True) for i, g in enumerate(groups)],
        judge=write_judge(judge),
        metrics=metrics,
        options=write_options(options),
        include_verdicts=include_verdicts,
        include_details=include_details,
        asking=write_asking(asking),
    )


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
        verdicts and _read_verdict_counts(verdicts),
        message.unjudged,
    )


def _read_verdict_counts(message: types_pb2.VerdictCounts) -> VerdictCounts:
    return VerdictCounts(
        message.ok,
        message.error,
        message.abstained,
        message.not_assessable,
        message.relevant,
        message.flagged_no_tokens,
        message.flagged_truncated,
        message.flagged_reserved_tokens,
        message.flagged_fallback,
    )


def read_evaluation(message: pb.EvaluateResponse, groups: Sequence[QueryGroup] = ()) -> Evaluation:
    """Return the reply of Evaluate about groups."""
    judge = read_identity(message.judge) if message.HasField("judge") else None
    verdicts = None
    if message.HasField("verdicts") and judge is not None:
        verdicts = read_verdicts(message.verdicts, judge, usage_of(message), groups)
    return Evaluation(
        read_table(message.table),
        judge,
        verdicts,
        _read_negatives(message.negatives) if message.HasField("negatives") else None,
        usage_of(message),
    )


def _read_negatives(message: pb.NegativeReport) -> NegativeReport:
    return NegativeReport(
        message.queries,
        message.queries_hit,
        read_matches(message),
        _read_verdict_counts(message.counts),
    )
