"""Requests for metrics that no message holds: their parts, sent as a stream with one reply."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from judged import errors
from judged._batching.chunks import packed
from judged._codec import write_at, write_fields
from judged._convert.metrics import (
    Rankings,
    name_of,
    write_each,
    write_metadata,
    write_options,
    write_rankings,
    write_relevance,
    write_values,
)
from judged._convert.trec import joined, write_trec
from judged._inputs import as_metrics, need_each
from judged._transport.call import Attempts, Stream
from judged._transport.status import rename_paths
from judged.v1 import statistics_service_pb2
from judged.v1.judge_service_pb2 import ComputeMetricsRequest as Request
from judged.values.intervals import IntervalOptions
from judged.values.metrics import MetricOptions, TextItem
from judged.values.rankings import (
    PerQueryValues,
    Relevance,
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
) -> Iterator[Request]:
    """Yield a request in parts of about PART_BYTES or less, or the one that holds everything."""
    given_as, names = name_of(relevance), as_metrics(metrics)
    told = write_options(options, given_as)
    parts = (
        write_fields(Request, metrics=names, options=told, **{given_as: content})
        for content in _contents(relevance)
    )
    first = list(islice(parts, 2))
    known = write_metadata(metadata)
    values = None if human is None else write_values(human, "human_values")
    if len(first) == 1:
        first[0].MergeFrom(Request(metadata=known, human_values=values))
    yield from chain(first, parts)
    if len(first) > 1:
        for place in range(0, len(known), _PART_QUERIES):
            yield Request(metadata=known[place : place + _PART_QUERIES])
        if values is not None:
            yield Request(human_values=values)


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


def _contents(relevance: Relevance) -> Iterator[object]:
    """Yield what the parts hold of the relevance, cut between queries."""
    if isinstance(relevance, TrecRankings):
        try:
            yield from map(write_trec, split_trec(relevance))
        except errors.InvalidArgument:
            write_trec(relevance)  # raises it with its place in the whole
            raise
    elif isinstance(relevance, PerQueryValues):
        yield write_relevance(relevance)
    else:
        yield from _cut_rankings(relevance)


def _cut_rankings(whole: Rankings) -> Iterator[object]:
    """Yield some of the rankings each time, with their part of the columns of verdicts."""
    columns = {name: getattr(whole, name, ()) for name in _VERDICT_BYTES}
    columns = {name: column for name, column in columns.items() if len(column)}
    of_verdict = sum(_VERDICT_BYTES[name] for name in columns)

    def n_verdicts(ranking: Any) -> int:  # noqa: ANN401 - a value, or its message
        return ranking.expected * ranking.retrieved if columns else 0

    total = sum(map(n_verdicts, whole.rankings))
    misfit = any(len(column) != total for column in columns.values())
    if not whole.rankings or misfit or getattr(whole, "human_labels", None) is not None:
        yield write_relevance(whole)  # labels correct all of it; what does not fit is the server's
        return
    first = 0
    sized = ((one, [one.ByteSize() + of_verdict * n_verdicts(one)]) for one in write_each(whole))
    for pack in packed(sized, [PART_BYTES]):
        end = first + sum(map(n_verdicts, pack))
        cut: dict[str, Any] = {name: column[first:end] for name, column in columns.items()}
        cut["rankings"] = ()
        yield write_rankings(replace(whole, **cut), pack)
        first = end


def _topics(whole: TrecRankings) -> Iterator[str]:
    """Yield the topics in the order in which they are sent: those of the qrels first."""
    return chain(whole.qrels, (query_id for query_id in whole.run if query_id not in whole.qrels))


def split_trec(whole: TrecRankings) -> Iterator[TrecRankings]:
    """Yield topics in parts of about PART_BYTES or less."""
    sized = (
        ((query_id, judged, ranked), [judged.size + ranked.size])
        for query_id in _topics(whole)
        for judged, ranked in [
            (joined(whole.qrels.get(query_id, {})), joined(whole.run.get(query_id, {})))
        ]
    )
    packs = packed(sized, [PART_BYTES])
    first = list(islice(packs, 2))
    if len(first) < 2:
        yield whole  # in the caller's order
        return
    # Ids that are joined already are not joined again.
    pack: Any
    for pack in chain(first, packs):
        yield TrecRankings(
            {query_id: judged for query_id, judged, _ in pack if query_id in whole.qrels},
            {query_id: ranked for query_id, _, ranked in pack if query_id in whole.run},
        )


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
