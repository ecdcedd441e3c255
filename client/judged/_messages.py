"""Between the public types and the messages of the contract.

Owns both directions, and the path of a text that can't be sent. Leaves the cutting of large
batches to `_chunks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from judged import errors
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
    MetricTable,
    QueryGroup,
    Relevance,
    Scalar,
    Source,
    Status,
    TrecRankings,
    VerdictCounts,
    VerdictError,
    Verdicts,
)
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import types_pb2


def write_group(group: QueryGroup, path: str = "groups[0]") -> types_pb2.QueryGroup:
    """Return the message of a group. Raises InvalidArgument for text that UTF-8 can't hold."""
    if isinstance(group.expected, str) or isinstance(group.retrieved, str):
        raise _bad_group(group, path, TypeError())  # protobuf would take it letter by letter
    try:
        message = types_pb2.QueryGroup(
            query_id=group.query_id,
            query=group.query,
            expected=group.expected,
            retrieved=group.retrieved,
            document_ids=group.document_ids,
            relevant_document_ids=group.relevant_document_ids,
        )
    except (UnicodeEncodeError, TypeError, ValueError) as problem:
        raise _bad_group(group, path, problem) from None
    if group.embeddings is not None:
        message.embeddings.dimensions = group.embeddings.dimensions
        message.embeddings.expected = group.embeddings.expected
        message.embeddings.retrieved = group.embeddings.retrieved
    return message


def _bad_group(group: QueryGroup, path: str, problem: Exception) -> errors.InvalidArgument:
    """Return an error that names the first text of the group that can't be sent."""
    texts: list[tuple[str, object]] = [("query_id", group.query_id), ("query", group.query)]
    for name in ("expected", "retrieved", "document_ids", "relevant_document_ids"):
        values = getattr(group, name)
        if isinstance(values, str):
            return errors.InvalidArgument.of_field(
                f"{path}.{name}", "must be a list of texts, not one text"
            )
        texts += [(f"{name}[{index}]", value) for index, value in enumerate(values)]
    for name, text in texts:
        if not isinstance(text, str):
            return errors.InvalidArgument.of_field(
                f"{path}.{name}", f"must be text, not {type(text).__name__}"
            )
        try:
            text.encode()
        except UnicodeEncodeError as error:
            return errors.InvalidArgument.of_field(
                f"{path}.{name}",
                f"holds a lone surrogate at character {error.start}, which UTF-8 can't carry",
            )
    return errors.InvalidArgument.of_field(path, str(problem))


def write_judge(judge: Judge | str | None) -> types_pb2.JudgeSpec | None:
    """Return the message of a judge; a string is its kind, None the server's default."""
    if judge is None:
        return None
    if isinstance(judge, str):
        return types_pb2.JudgeSpec(kind=judge)
    return types_pb2.JudgeSpec(
        kind=judge.kind,
        profile=judge.profile,
        min_score=judge.min_score,
        parameters={name: _write_value(value) for name, value in judge.parameters.items()},
    )


def _write_value(value: Scalar) -> types_pb2.ParameterValue:
    if isinstance(value, bool):
        return types_pb2.ParameterValue(bool_value=value)
    if isinstance(value, int):
        return types_pb2.ParameterValue(int_value=value)
    if isinstance(value, float):
        return types_pb2.ParameterValue(double_value=value)
    return types_pb2.ParameterValue(string_value=value)


def read_value(message: types_pb2.ParameterValue) -> Scalar | None:
    """Return the value of a parameter, None when it has none."""
    which = message.WhichOneof("kind")
    value: Scalar | None = getattr(message, which) if which else None
    return value


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
    return VerdictError(message.code, message.reason, message.message, message.retryable)


def read_verdicts(message: types_pb2.VerdictColumns, judge: JudgeIdentity) -> Verdicts:
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
    )


def read_chunk(message: pb.JudgedChunk, judge: JudgeIdentity) -> JudgedChunk:
    """Return an answered chunk."""
    failed = message.WhichOneof("result") == "error"
    return JudgedChunk(
        message.chunk_id,
        None if failed else read_verdicts(message.verdicts, judge),
        read_error(message.error) if failed else None,
        message.progress.contexts_received,
        message.progress.contexts_done,
    )


class StreamMessages:
    """The messages of a stream: its start, then its chunks under ids from 0.

    gRPC reads them on a thread of its own and hides what goes wrong there, so a failure ends the
    messages and waits in `failure` for the client to raise it.
    """

    def __init__(self, chunks: Iterable[Sequence[QueryGroup]], judge: Judge | str | None) -> None:
        self._messages = self._write(chunks, judge)
        self.failure: Exception | None = None

    def __iter__(self) -> Iterator[pb.StreamJudgeRequest]:
        return self

    def __next__(self) -> pb.StreamJudgeRequest:
        try:
            return next(self._messages)
        except StopIteration:
            raise
        except Exception as failure:
            self.failure = failure
            raise StopIteration from failure

    @staticmethod
    def _write(
        chunks: Iterable[Sequence[QueryGroup]], judge: Judge | str | None
    ) -> Iterator[pb.StreamJudgeRequest]:
        yield pb.StreamJudgeRequest(start=pb.StreamJudgeStart(judge=write_judge(judge)))
        for chunk_id, groups in enumerate(chunks):
            path = f"chunks[{chunk_id}].groups"
            messages = [write_group(g, f"{path}[{i}]") for i, g in enumerate(groups)]
            yield pb.StreamJudgeRequest(chunk=pb.JudgeChunk(chunk_id=chunk_id, groups=messages))


def write_evaluate(
    groups: Iterable[QueryGroup],
    metrics: Sequence[str],
    judge: Judge | str | None,
    options: MetricOptions,
    *,
    include_verdicts: bool,
) -> pb.EvaluateRequest:
    """Return an Evaluate request."""
    return pb.EvaluateRequest(
        groups=[write_group(group, f"groups[{index}]") for index, group in enumerate(groups)],
        judge=write_judge(judge),
        metrics=metrics,
        options=write_options(options),
        include_verdicts=include_verdicts,
    )


def write_options(options: MetricOptions) -> types_pb2.MetricOptions:
    """Return the message of metric options."""
    return types_pb2.MetricOptions(
        matching=None if options.matching is None else int(options.matching),  # type: ignore[arg-type]  # ours has the same numbers
        no_gold=None if options.no_gold is None else int(options.no_gold),  # type: ignore[arg-type]  # ours has the same numbers
        strict_duplicates=options.strict_duplicates,
        complete=options.complete,
        per_query=options.per_query,
    )


def write_metrics(
    metrics: Sequence[str], relevance: Relevance, options: MetricOptions
) -> pb.ComputeMetricsRequest:
    """Return a ComputeMetrics request."""
    request = pb.ComputeMetricsRequest(metrics=metrics, options=write_options(options))
    if isinstance(relevance, JudgedRankings):
        request.judged.rankings.extend(
            pb.JudgedRanking(query_id=r.query_id, expected=r.expected, retrieved=r.retrieved)
            for r in relevance.rankings
        )
        columns = request.judged.verdicts
        columns.relevant.extend(relevance.relevant)
        columns.status.extend(relevance.status)  # type: ignore[arg-type]  # ours has the same numbers
        columns.flags.extend(relevance.flags)
    elif isinstance(relevance, TrecRankings):
        request.trec.CopyFrom(_write_trec(relevance))
    elif isinstance(relevance, GainRankings):
        request.gains.rankings.extend(
            pb.GainRanking(query_id=r.query_id, gains=r.gains, relevant_gains=r.relevant_gains)
            for r in relevance.rankings
        )
    else:
        request.values.query_ids.extend(relevance.query_ids)
        request.values.columns.extend(pb.ValueColumn(values=c) for c in relevance.columns)
    return request


def _write_trec(relevance: TrecRankings) -> pb.TrecRankings:
    message = pb.TrecRankings()
    for query_id, grades in relevance.qrels.items():
        message.qrels.add(query_id=query_id, document_ids=grades.keys(), grades=grades.values())
    for query_id, ranked in relevance.run.items():
        if isinstance(ranked, Mapping):
            message.run.add(query_id=query_id, document_ids=ranked.keys(), scores=ranked.values())
        else:
            message.run.add(query_id=query_id, document_ids=ranked)
    return message


def read_table(message: types_pb2.MetricTable) -> MetricTable:
    """Return the metrics of a reply."""
    return MetricTable(
        metrics=[
            MetricResult(
                metric.name,
                metric.mean if metric.HasField("mean") else None,
                metric.n,
                metric.lower_bound if metric.HasField("lower_bound") else None,
                metric.upper_bound if metric.HasField("upper_bound") else None,
                metric.signature,
                list(metric.per_query),
            )
            for metric in message.metrics
        ],
        query_ids=list(message.query_ids),
        counts=_read_counts(message.counts),
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
        verdicts
        and VerdictCounts(
            verdicts.ok,
            verdicts.error,
            verdicts.abstained,
            verdicts.not_assessable,
            verdicts.relevant,
            verdicts.flagged_no_tokens,
            verdicts.flagged_truncated,
        ),
    )


def read_evaluation(message: pb.EvaluateResponse) -> Evaluation:
    """Return the reply of Evaluate."""
    judge = read_identity(message.judge) if message.HasField("judge") else None
    verdicts = None
    if message.HasField("verdicts") and judge is not None:
        verdicts = read_verdicts(message.verdicts, judge)
    return Evaluation(read_table(message.table), judge, verdicts)
