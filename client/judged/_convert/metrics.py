"""Between metric options, rankings and tables, and the messages of ComputeMetrics and Evaluate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from judged import errors
from judged._codec import read_fields, write_fields
from judged._convert.groups import write_embeddings, write_metadata
from judged._convert.trec import write_trec
from judged._convert.verdicts import usage_of
from judged._inputs import as_metrics, need_kind
from judged.errors import WrongType
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2
from judged.values.groups import EmbeddedRankings
from judged.values.metrics import Evaluation, MetricOptions, MetricTable
from judged.values.rankings import (
    GainRankings,
    JudgedRankings,
    PerQueryValues,
    Relevance,
    TrecRankings,
)

_INPUTS: dict[str, Literal["verdicts", "qrels", "gains"]] = {
    "groups": "verdicts",
    "judged": "verdicts",
    "embedded": "verdicts",
    "trec": "qrels",
    "gains": "gains",
}
"""Which options something has, by what the rankings are given as."""


def write_options(options: MetricOptions, given_as: str | None) -> metrics_pb2.MetricOptions:
    """Return the message of the options of rankings that are given as groups, or a `relevance`.

    Raises InvalidArgument for an option that would change nothing for them.
    """
    need_kind(options, "options", MetricOptions, "MetricOptions")
    message = write_fields(
        metrics_pb2.MetricOptions,
        per_query=options.per_query,
        interval=options.interval,
        slice_by=_texts(options.slice_by, "options.slice_by"),
    )
    of_input = {
        "matching": options.matching,
        "no_gold": options.no_gold,
        "strict_duplicates": options.strict_duplicates or None,
        "complete": options.complete or None,
        "unjudged": options.unjudged,
        "relevance_level": _whole(options.relevance_level, "options.relevance_level"),
        "max_documents": _whole(options.max_documents, "options.max_documents"),
    }
    given = {name: value for name, value in of_input.items() if value is not None}
    if not given:
        return message
    part = getattr(message, _INPUTS.get(given_as or "", "verdicts"))
    for name, value in given.items():
        if given_as not in _INPUTS or name not in part.DESCRIPTOR.fields_by_name:
            rule = f"does nothing for {given_as}; leave it out"
            raise errors.InvalidArgument.of_field(f"options.{name}", rule)
        setattr(part, name, value)
    return message


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
    request = pb.ComputeMetricsRequest(metrics=as_metrics(metrics))
    write_metadata(request, metadata or {})
    if human_values is not None:
        request.human_values.CopyFrom(_write_values(human_values))
    if isinstance(relevance, JudgedRankings):
        request.judged.rankings.extend(
            write_fields(metrics_pb2.JudgedRanking, ranking, relevant_document_ids=())
            if ranking.grades  # they say which ones are relevant
            else write_fields(metrics_pb2.JudgedRanking, ranking)
            for ranking in relevance.rankings
        )
        request.judged.max_grade = relevance.max_grade
        columns = request.judged.verdicts
        columns.relevant.extend(relevance.relevant)
        columns.status.extend(relevance.status)  # type: ignore[arg-type]  # ours has the same numbers
        columns.source.extend(relevance.source)  # type: ignore[arg-type]  # ours has the same numbers
        columns.flags.extend(relevance.flags)
        columns.score.extend(relevance.score)
        if relevance.human_labels is not None:
            labels = write_fields(metrics_pb2.HumanLabels, relevance.human_labels)
            request.judged.human_labels.CopyFrom(labels)
    elif isinstance(relevance, TrecRankings):
        request.trec.SetInParent()
        write_trec(request.trec, relevance)
    elif isinstance(relevance, GainRankings):
        request.gains.SetInParent()
        request.gains.rankings.extend(
            write_fields(metrics_pb2.GainRanking, ranking) for ranking in relevance.rankings
        )
    elif isinstance(relevance, EmbeddedRankings):
        write_embedded(request.embedded, relevance)
    elif isinstance(relevance, PerQueryValues):
        request.values.CopyFrom(_write_values(relevance))
    else:
        rule = "must be TrecRankings, JudgedRankings, GainRankings, EmbeddedRankings or"
        given = f"PerQueryValues, not {type(relevance).__name__}"
        raise WrongType.of_field("relevance", f"{rule} {given}")
    request.options.CopyFrom(write_options(options, request.WhichOneof("relevance")))
    return request


def _write_values(values: PerQueryValues) -> metrics_pb2.PerQueryValues:
    columns = [metrics_pb2.ValueColumn(values=column) for column in values.columns]
    fits = [write_fields(metrics_pb2.IdFit, fit) for fit in values.id_fits]
    return write_fields(metrics_pb2.PerQueryValues, values, columns=columns, id_fits=fits)


def read_evaluation(message: pb.EvaluateResponse) -> Evaluation:
    """Return an evaluation; verdicts, matches and values of queries came before it."""
    return read_fields(Evaluation, message, verdicts=None, usage=usage_of(message))


def read_table(message: metrics_pb2.MetricTable) -> MetricTable:
    """Return the metrics of a reply."""
    return read_fields(MetricTable, message)


def write_embedded(message: pb.EmbeddedRankings, rankings: EmbeddedRankings) -> None:
    """Set the rankings of a ComputeMetrics request that brings vectors."""
    message.SetInParent()
    for ranking in rankings.rankings:
        entry = message.rankings.add(query_id=ranking.query_id)
        write_embeddings(entry.embeddings, ranking.embeddings)
    if rankings.min_score is not None:
        message.min_score = rankings.min_score
