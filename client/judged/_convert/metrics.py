"""Between metric options, rankings and tables, and the messages of ComputeMetrics and Evaluate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judged import errors
from judged._codec import write_at, write_fields
from judged._convert.trec import write_trec
from judged._inputs import as_metrics, need_by_ids, need_kind
from judged.errors import WrongType
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2 as pb2
from judged.v1 import verdicts_pb2
from judged.values.groups import EmbeddedRankings
from judged.values.metrics import MetricOptions
from judged.values.rankings import (
    GainRankings,
    JudgedRanking,
    JudgedRankings,
    PerQueryValues,
    Relevance,
    TrecRankings,
)

_OPTIONS_OF = {
    "groups": "verdicts",
    "judged": "verdicts",
    "embedded": "verdicts",
    "trec": "qrels",
    "gains": "gains",
}
"""Which options something has, by what the rankings are given as."""
_OF_INPUT = (
    *("matching", "no_gold", "strict_duplicates", "complete", "unjudged"),
    *("relevance_level", "max_documents"),
)
RELEVANCE: Mapping[type, str] = {
    TrecRankings: "trec",
    JudgedRankings: "judged",
    GainRankings: "gains",
    EmbeddedRankings: "embedded",
    PerQueryValues: "values",
}
"""What a request calls what rankings are given as."""
_MOST = (1 << 31) - 1


def write_options(options: MetricOptions, given_as: str) -> pb2.MetricOptions:
    """Return the message of the options of rankings that are given as groups, or a `relevance`.

    Raises InvalidArgument for an option that would change nothing for them.
    """
    need_kind(options, "options", MetricOptions, "MetricOptions")
    message = write_at("options", pb2.MetricOptions, options)
    given: dict[str, object] = {}
    part = getattr(message, _OPTIONS_OF.get(given_as, "verdicts"))
    for name in _OF_INPUT:
        value = getattr(options, name)
        if value is None or value is False:
            continue
        if given_as not in _OPTIONS_OF or name not in part.DESCRIPTOR.fields_by_name:
            rule = f"does nothing for {given_as}; leave it out"
            raise errors.InvalidArgument.of_field(f"options.{name}", rule)
        if type(value) is int and not 0 < value <= _MOST:  # the field can't hold a negative one
            rule = f"must lie in 1 to {_MOST}"
            raise errors.InvalidArgument.of_field(f"options.{name}", rule)
        given[name] = value
    if given:
        part.CopyFrom(write_at("options", type(part), **given))
    return message


def write_metrics(
    metrics: Sequence[str],
    relevance: Relevance,
    options: MetricOptions,
    metadata: Mapping[str, Mapping[str, str]] | None = None,
    human_values: PerQueryValues | None = None,
) -> pb.ComputeMetricsRequest:
    """Return a ComputeMetrics request; `metadata` is by query id."""
    given_as = RELEVANCE.get(type(relevance))
    if given_as is None:
        rule = "must be TrecRankings, JudgedRankings, GainRankings, EmbeddedRankings or"
        given = f"PerQueryValues, not {type(relevance).__name__}"
        raise WrongType.of_field("relevance", f"{rule} {given}")
    return write_fields(
        pb.ComputeMetricsRequest,
        metrics=as_metrics(metrics),
        options=write_options(options, given_as),
        metadata=write_metadata([*need_by_ids(metadata or {}, "metadata").items()]),
        human_values=None if human_values is None else write_human(human_values),
        **{given_as: write_relevance(relevance)},
    )


def write_relevance(relevance: Relevance) -> object:
    """Return what a request has of rankings under the name of their kind."""
    if isinstance(relevance, JudgedRankings):
        rankings = [_write_ranking(each, i) for i, each in enumerate(relevance.rankings)]
        verdicts = write_at("judged.verdicts", verdicts_pb2.VerdictColumns, relevance)
        return write_at(
            "judged", pb2.JudgedRankings, relevance, rankings=rankings, verdicts=verdicts
        )
    if isinstance(relevance, TrecRankings):
        return write_trec(relevance)
    if isinstance(relevance, PerQueryValues):
        return _write_values(relevance, "values")
    return relevance


def write_metadata(
    metadata: Sequence[tuple[str, Mapping[str, str]]], first: int = 0
) -> list[pb.QueryMetadata]:
    """Return the metadata of some queries; errors count from the `first`."""
    return [
        write_at(f"metadata[{i}]", pb.QueryMetadata, query_id=query_id, metadata=of_query)
        for i, (query_id, of_query) in enumerate(metadata, first)
    ]


def write_human(values: PerQueryValues) -> pb2.PerQueryValues:
    """Return the values that people's labels make of some queries."""
    need_kind(values, "human_values", PerQueryValues, "PerQueryValues")
    return _write_values(values, "human_values")


def _write_ranking(ranking: JudgedRanking, place: int) -> pb2.JudgedRanking:
    path = f"judged.rankings[{place}]"
    if ranking.grades:  # they say which documents are relevant
        return write_at(path, pb2.JudgedRanking, ranking, relevant_document_ids=())
    return write_at(path, pb2.JudgedRanking, ranking)


def _write_values(values: PerQueryValues, path: str) -> pb2.PerQueryValues:
    columns = [pb2.ValueColumn(values=column) for column in values.columns]
    return write_at(path, pb2.PerQueryValues, values, columns=columns)
