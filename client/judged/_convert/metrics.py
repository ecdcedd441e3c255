"""Between metric options, rankings and tables, and the messages of ComputeMetrics and Evaluate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.message import Message

from judged import errors
from judged._codec import write_at
from judged._convert.trec import write_trec
from judged._inputs import need_by_ids, need_kind
from judged.errors import WrongType
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2 as pb2
from judged.v1 import verdicts_pb2
from judged.values.groups import EmbeddedRankings
from judged.values.metrics import MetricOptions
from judged.values.rankings import (
    GainRankings,
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
Rankings = JudgedRankings | GainRankings | EmbeddedRankings
_MESSAGES: Mapping[type, tuple[type[Message], type[Message]]] = {
    JudgedRankings: (pb2.JudgedRankings, pb2.JudgedRanking),
    GainRankings: (pb2.GainRankings, pb2.GainRanking),
    EmbeddedRankings: (pb.EmbeddedRankings, pb.EmbeddedRanking),
}
"""The messages of rankings, and of one of them."""


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
        given[name] = value
    if given:
        part.CopyFrom(write_at("options", type(part), **given))
    return message


def name_of(relevance: Relevance) -> str:
    """Return what a request calls what rankings are given as. Raises WrongType for none of it."""
    if (name := RELEVANCE.get(type(relevance))) is None:
        rule = "must be TrecRankings, JudgedRankings, GainRankings, EmbeddedRankings or"
        given = f"PerQueryValues, not {type(relevance).__name__}"
        raise WrongType.of_field("relevance", f"{rule} {given}")
    return name


def write_relevance(relevance: Relevance) -> object:
    """Return what a request has of rankings under the name of their kind."""
    if isinstance(relevance, TrecRankings):
        return write_trec(relevance)
    if isinstance(relevance, PerQueryValues):
        return write_values(relevance, "values")
    return write_rankings(relevance, list(write_each(relevance)))


def write_each(relevance: Rankings) -> Iterator[Any]:
    """Yield the message of each ranking."""
    path, (_, kind) = RELEVANCE[type(relevance)], _MESSAGES[type(relevance)]
    for place, ranking in enumerate(relevance.rankings):
        # Grades say which documents are relevant.
        others = {"relevant_document_ids": ()} if getattr(ranking, "grades", None) else {}
        yield write_at(f"{path}.rankings[{place}]", kind, ranking, **others)


def write_rankings(relevance: Rankings, rankings: Sequence[object]) -> Message:
    """Return the message of all rankings, given that of each."""
    path, (kind, _) = RELEVANCE[type(relevance)], _MESSAGES[type(relevance)]
    others: dict[str, object] = {"rankings": rankings}
    if isinstance(relevance, JudgedRankings):
        columns = verdicts_pb2.VerdictColumns
        others["verdicts"] = write_at(f"{path}.verdicts", columns, relevance)
    return write_at(path, kind, relevance, **others)


def write_metadata(metadata: Mapping[str, Mapping[str, str]]) -> list[pb.QueryMetadata]:
    """Return the metadata of some queries by their ids."""
    known = need_by_ids(metadata, "metadata").items()
    return [
        write_at(f"metadata[{i}]", pb.QueryMetadata, query_id=query_id, metadata=of_query)
        for i, (query_id, of_query) in enumerate(known)
    ]


def write_values(values: PerQueryValues, path: str) -> pb2.PerQueryValues:
    """Return the values of some queries, which stand at the path."""
    need_kind(values, path, PerQueryValues, "PerQueryValues")
    columns = [pb2.ValueColumn(values=column) for column in values.columns]
    return write_at(path, pb2.PerQueryValues, values, columns=columns)
