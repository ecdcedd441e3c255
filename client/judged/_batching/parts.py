"""Requests for metrics that no message holds: their parts, sent as a stream with one reply."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, cast

from judged import errors
from judged._batching.chunks import packed
from judged._codec import write_at, write_fields
from judged._convert.metrics import write_human, write_metadata, write_metrics
from judged._convert.trec import Joined, joined
from judged._inputs import as_metrics, need_by_ids, need_each
from judged._transport.call import Attempts, Stream
from judged._transport.status import rename_paths
from judged.v1 import judge_service_pb2, statistics_service_pb2
from judged.values.groups import EmbeddedRanking, EmbeddedRankings
from judged.values.intervals import IntervalOptions
from judged.values.metrics import MetricOptions, TextItem
from judged.values.rankings import (
    GainRanking,
    GainRankings,
    JudgedRanking,
    JudgedRankings,
    PerQueryValues,
    Relevance,
    RetrievedDocuments,
    TrecRankings,
)

Metadata = Mapping[str, Mapping[str, str]]
"""Metadata of queries by query id."""

PART_BYTES = 1 << 20
"""Small enough that the server works on one part while the client writes the next."""
PART_REFERENCES = 100_000
_PART_QUERIES = 1 << 10
_VERDICT_BYTES = {"relevant": 1, "status": 1, "source": 1, "flags": 1, "score": 8}
_RUN = re.compile(r"(?<![\w.])trec\.run\[(\d+)\]")


class PartStream(Stream[None]):
    """The parts of one request, and its one reply; what breaks is sent again from the start."""

    def __init__(
        self,
        parts: Callable[[], Iterator[Any]],
        message: Callable[..., object],
        of_whole: Callable[[errors.InvalidArgument], errors.InvalidArgument] = lambda error: error,
    ) -> None:
        """Take what writes the parts, the message of the stream, and what renames paths."""
        super().__init__()
        self._parts = parts
        self._message = message
        self._of_whole = of_whole
        unsent = parts()
        first = list(islice(unsent, 2))
        self.alone = first[0] if len(first) == 1 else None
        """The request, where one message holds it."""
        self._unsent: Iterator[Any] | None = chain(first, unsent)
        self.reply: Any = None

    def request(self) -> Iterator[object]:
        """Return what the next try sends."""
        parts, self._unsent = self._unsent or self._parts(), None
        return self.written(self._message(part=part) for part in parts)

    def take(self, reply: Any) -> None:  # noqa: ANN401 - the reply of the stream
        """Take in the reply."""
        self.reply = reply

    def ended(self) -> None:
        """Note that the server ended the stream. Raises InternalError without a reply."""
        super().ended()
        if self.reply is None:
            raise errors.InternalError("the stream ended without a reply")

    def waits(self, error: errors.JudgedError, attempts: Attempts) -> Iterator[float]:
        """Yield the waits before the next try; the error for none speaks of the whole."""
        if isinstance(error, errors.InvalidArgument):
            error = self._of_whole(error)
        yield from super().waits(error, attempts)


def metric_parts(
    metrics: Sequence[str],
    relevance: Relevance,
    options: MetricOptions,
    metadata: Metadata,
    human: PerQueryValues | None,
) -> Iterator[judge_service_pb2.ComputeMetricsRequest]:
    """Yield a request in parts, or the one that holds everything."""
    pieces = split(relevance)
    first = list(islice(pieces, 2))
    if len(first) == 1:
        yield write_metrics(metrics, relevance, options, metadata, human)
        return
    try:
        for piece in chain(first, pieces):
            yield write_metrics(metrics, piece, options)
    except errors.InvalidArgument:
        write_metrics(metrics, relevance, options)  # raises it with its place in the whole
        raise
    known = [*need_by_ids(metadata, "metadata").items()]
    for place in range(0, len(known), _PART_QUERIES):
        some = write_metadata(known[place : place + _PART_QUERIES], place)
        yield judge_service_pb2.ComputeMetricsRequest(metadata=some)
    if human is not None:
        yield judge_service_pb2.ComputeMetricsRequest(human_values=write_human(human))


def of_whole(relevance: Relevance) -> Callable[[errors.InvalidArgument], errors.InvalidArgument]:
    """Return what makes errors about parts name topics of a run by their places in the whole."""

    def renamed(error: errors.InvalidArgument) -> errors.InvalidArgument:
        if not isinstance(relevance, TrecRankings):
            return error
        names, sent = [*relevance.run], [q for q in _topics(relevance) if q in relevance.run]
        return rename_paths(
            error, _RUN, lambda match: f"trec.run[{names.index(sent[int(match[1])])}]"
        )

    return renamed


def split(relevance: Relevance) -> Iterator[Relevance]:
    """Yield the relevance in parts of about PART_BYTES or less, cut between queries."""
    if isinstance(relevance, TrecRankings):
        return _split_trec(relevance)
    if not isinstance(relevance, JudgedRankings | GainRankings | EmbeddedRankings):
        return iter([relevance])
    if not relevance.rankings:
        return iter([relevance])
    if not isinstance(relevance, JudgedRankings):
        return _split_rankings(relevance, {})
    sizes = [*map(_size, relevance.rankings)]
    columns = {name: getattr(relevance, name) for name in _VERDICT_BYTES}
    columns = {name: column for name, column in columns.items() if len(column)}
    fit = min(sizes) >= 0 and all(len(column) == sum(sizes) for column in columns.values())
    if relevance.human_labels is not None or not fit:
        return iter([relevance])  # labels correct all of it; what does not fit is the server's
    return _split_rankings(relevance, columns)


def _split_rankings(
    whole: JudgedRankings | GainRankings | EmbeddedRankings,
    columns: Mapping[str, Sequence[Any]],
) -> Iterator[Relevance]:
    """Yield some of the rankings each time, with their part of the columns of verdicts."""
    each = sum(_VERDICT_BYTES[name] for name in columns)
    rankings: Sequence[Any] = whole.rankings
    first = 0
    for pack in packed(((one, [_bytes(one, each)]) for one in rankings), [PART_BYTES]):
        end = first + (sum(map(_size, pack)) if columns else 0)
        cut: dict[str, Any] = {name: column[first:end] for name, column in columns.items()}
        cut["rankings"] = pack
        yield replace(whole, **cut)
        first = end


def _bytes(ranking: JudgedRanking | GainRanking | EmbeddedRanking, of_verdict: int) -> int:
    size = len(ranking.query_id)
    if isinstance(ranking, GainRanking):
        return size + 8 * (len(ranking.gains) + len(ranking.relevant_gains))
    if isinstance(ranking, EmbeddedRanking):
        return size + len(ranking.embeddings.expected) + len(ranking.embeddings.retrieved)
    ids = (ranking.document_ids, ranking.relevant_document_ids, ranking.grades)
    return size + of_verdict * _size(ranking) + sum(len(name) for some in ids for name in some)


def _size(ranking: JudgedRanking) -> int:
    return ranking.expected * ranking.retrieved


def _topics(whole: TrecRankings) -> Iterator[str]:
    """Yield the topics in the order in which they are sent: those of the qrels first."""
    return chain(whole.qrels, (query_id for query_id in whole.run if query_id not in whole.qrels))


def _split_trec(whole: TrecRankings) -> Iterator[TrecRankings]:
    def sized() -> Iterator[tuple[tuple[str, Joined | None, Joined | None], Sequence[int]]]:
        for query_id in _topics(whole):
            judged = joined(whole.qrels[query_id]) if query_id in whole.qrels else None
            ranked = joined(whole.run[query_id]) if query_id in whole.run else None
            size = sum(each.size for each in (judged, ranked) if each is not None)
            yield (query_id, judged, ranked), [size]

    empty = True
    for pack in packed(sized(), [PART_BYTES]):
        empty = False
        qrels = {query_id: judged for query_id, judged, _ in pack if judged is not None}
        run = {query_id: ranked for query_id, _, ranked in pack if ranked is not None}
        # Ids that are joined already are not joined again.
        yield TrecRankings(
            cast("Mapping[str, Mapping[str, int]]", qrels),
            cast("Mapping[str, RetrievedDocuments]", run),
        )
    if empty:
        yield whole


def text_parts(
    metrics: Sequence[str],
    items: Iterable[TextItem],
    *,
    per_item: bool,
    interval: IntervalOptions | None,
) -> Callable[[], Iterator[statistics_service_pb2.ComputeTextMetricsRequest]]:
    """Return what writes a request in parts, or the one that holds everything."""
    names, listed = as_metrics(metrics), need_each(items, "items", (TextItem,), "TextItem")

    def parts() -> Iterator[statistics_service_pb2.ComputeTextMetricsRequest]:
        messages = (
            write_at(f"items[{index}]", statistics_service_pb2.TextItem, item)
            for index, item in enumerate(listed)
        )
        sized = ((each, (each.ByteSize(), len(each.references))) for each in messages)
        for pack in packed(sized, (PART_BYTES, PART_REFERENCES)) if listed else ([],):
            yield write_fields(
                statistics_service_pb2.ComputeTextMetricsRequest,
                metrics=names,
                items=pack,
                per_item=per_item,
                interval=interval,
            )

    return parts
