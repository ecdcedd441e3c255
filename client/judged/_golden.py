"""Between golden-set values and their messages: spans and metadata out, negatives in.

Groups are written by `_messages`.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence

from judged import errors
from judged.embeddings import EmbeddedRankings, Embeddings
from judged.golden import NegativeMatch, Span, Spans
from judged.types import QueryGroup
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import types_pb2

_LARGEST = 2**64


def write_golden(message: types_pb2.QueryGroup, group: QueryGroup, path: str) -> None:
    """Set what a group brings beside texts. Raises InvalidArgument with the field's path."""
    if group.embeddings is not None:
        write_embeddings(message.embeddings, group.embeddings)
    if group.spans is not None:
        _write_spans(message.spans, group.spans, f"{path}.spans")
    _fill_metadata(message.metadata, group.metadata, f"{path}.metadata")


def write_metadata(
    request: pb.ComputeMetricsRequest, metadata: Mapping[str, Mapping[str, str]]
) -> None:
    """Add the metadata of queries. Raises InvalidArgument with the field's path."""
    for i, (query_id, known) in enumerate(metadata.items()):
        try:
            entry = request.metadata.add(query_id=query_id)
        except (TypeError, ValueError) as problem:
            where = f"metadata[{i}].query_id"
            raise errors.InvalidArgument.of_field(where, _reason(problem)) from None
        _fill_metadata(entry.metadata, known, f"metadata[{i}].metadata")


def _fill_metadata(
    message: MutableMapping[str, str], metadata: Mapping[str, str], path: str
) -> None:
    for key, value in metadata.items():
        try:
            message[key] = value
        except (TypeError, ValueError) as problem:
            where = f'{path}["{str(key)[:80]}"]'
            raise errors.InvalidArgument.of_field(where, _reason(problem)) from None


def write_embeddings(message: types_pb2.GroupEmbeddings, embeddings: Embeddings) -> None:
    """Set the vectors of a group."""
    message.dimensions = embeddings.dimensions
    message.expected = embeddings.expected
    message.retrieved = embeddings.retrieved


def write_embedded(message: pb.EmbeddedRankings, rankings: EmbeddedRankings) -> None:
    """Set the rankings of a ComputeMetrics request that brings vectors."""
    message.SetInParent()
    for ranking in rankings.rankings:
        entry = message.rankings.add(query_id=ranking.query_id)
        write_embeddings(entry.embeddings, ranking.embeddings)
    if rankings.min_score is not None:
        message.min_score = rankings.min_score


def read_matches(message: pb.NegativeReport) -> list[NegativeMatch]:
    """Return the matches of a report."""
    return [
        NegativeMatch(m.query_id, m.retrieved, m.negative, m.document_id, m.score)
        for m in message.matches
    ]


def _write_spans(message: types_pb2.GroupSpans, spans: Spans, path: str) -> None:
    message.SetInParent()
    _write_side(message.expected, spans.expected, f"{path}.expected")
    _write_side(message.retrieved, spans.retrieved, f"{path}.retrieved")


def _write_side(messages: object, spans: Sequence[Span], path: str) -> None:
    add = getattr(messages, "add")  # noqa: B009 - repeated fields have no common type
    for index, span in enumerate(spans):
        try:
            add(file=span.file, start=span.start, end=span.end)
        except (TypeError, ValueError) as problem:
            where = f"{path}[{index}]"
            for name in ("start", "end"):
                value = getattr(span, name)
                if isinstance(value, int) and not 0 <= value < _LARGEST:
                    rule = "must be a whole number from 0 to 2^64 - 1"
                    raise errors.InvalidArgument.of_field(f"{where}.{name}", rule) from None
            raise errors.InvalidArgument.of_field(where, _reason(problem)) from None


def _reason(problem: Exception) -> str:
    """Return what is wrong with a value, without quoting texts."""
    if isinstance(problem, UnicodeEncodeError):
        return f"holds a lone surrogate at character {problem.start}, which UTF-8 can't carry"
    return "holds a value of the wrong type"
