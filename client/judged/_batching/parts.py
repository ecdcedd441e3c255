"""Requests too large for one message, and evaluations: sent in parts, as a stream with one reply.

A broken stream is sent again from its start; the server's caches have what was judged already.
"""

from __future__ import annotations

import re
import uuid
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain, count, islice, pairwise
from typing import Any

from judged import errors
from judged._batching.judging import (
    Piece,
    Progress,
    against_negatives,
    cut,
    distinct_group,
    distinct_ranks,
    missing_verdicts,
    n_contexts,
    packed,
)
from judged._codec import read_fields, write_fields
from judged._convert import (
    CostLimit,
    checked_group,
    joined,
    missing_for,
    name_of,
    read_verdicts,
    write_group,
    write_judge,
    write_metadata,
    write_options,
    write_relevance,
    write_trec,
    write_values,
)
from judged._inputs import as_list
from judged._transport.call import Attempts, Stream, rename_paths
from judged._views import Listed
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import statistics_service_pb2
from judged.v1.judge_service_pb2 import ComputeMetricsRequest as Request
from judged.values.agreement import PerQueryValues, Relevance, TrecRankings
from judged.values.choices import IntervalOptions
from judged.values.groups import QueryGroup, Verdicts, join_verdicts
from judged.values.judges import Asking, Judge, JudgeIdentity, Usage
from judged.values.metrics import Evaluation, MetricOptions, NegativeMatch, TextItem

Metadata = Mapping[str, Mapping[str, str]]
"""Metadata of queries by query id."""

PART_BYTES = 1 << 20
"""Small enough that the server works on one part while the client writes the next."""
_RUN = re.compile(r"(?<![\w.])trec\.run\[(\d+)\]")


class PartStream(Stream[None]):
    """A request in parts, with one reply; a broken stream is sent again from the start."""

    def __init__(
        self,
        parts: Callable[[], Iterator[Any]],
        message: Callable[..., object],
        relevance: Relevance | None = None,
    ) -> None:
        """Take the maker of the parts, the message for one part, and the topics for errors."""
        super().__init__()
        self._parts = parts
        self._message = message
        self._relevance = relevance
        unsent = parts()
        first = list(islice(unsent, 2))
        self.alone = first[0] if len(first) == 1 else None
        """The request, if it fits into one message."""
        self._unsent: Iterator[Any] | None = chain(first, unsent)
        self.reply: Any = None

    def request(self) -> Iterator[object]:
        """Return the messages of the next try."""
        parts, self._unsent = self._unsent or self._parts(), None
        return self.written(self._message(part=part) for part in parts)

    def take(self, reply: Any) -> None:  # noqa: ANN401 - the reply of the stream
        """Keep the reply."""
        self.reply = reply

    def ended(self) -> None:
        """Handle the end of the stream. Raises InternalError without a reply."""
        super().ended()
        if self.reply is None:
            raise errors.InternalError("the stream ended without a reply")

    def wait_after(self, error: errors.JudgedError, attempts: Attempts) -> float:
        """Return the wait before the next try; errors name topics by their index in the whole."""
        given = self._relevance
        if isinstance(error, errors.InvalidArgument) and isinstance(given, TrecRankings):
            names, sent = [*given.run], [q for q in _topics(given) if q in given.run]
            error = rename_paths(
                error, _RUN, lambda match: f"trec.run[{names.index(sent[int(match[1])])}]"
            )
        return super().wait_after(error, attempts)


def metric_parts(
    metrics: Sequence[str],
    relevance: Relevance,
    options: MetricOptions,
    metadata: Metadata,
    human: PerQueryValues | None,
) -> Iterator[Request]:
    """Yield a request in parts of about PART_BYTES or less; a small one in one part."""
    given_as, names = name_of(relevance), as_list(metrics)
    written = write_options(options, given_as)
    parts = (
        write_fields(Request, metrics=names, options=written, **{given_as: content})
        for content in _contents(relevance)
    )
    first = list(islice(parts, 2))
    more = list(cut_message(Request(metadata=write_metadata(metadata)), "metadata"))
    if human is not None:
        more[-1].human_values.CopyFrom(write_values(human, "human_values"))
    if len(first) == len(more) == 1:
        first[0].MergeFrom(more.pop())
    yield from chain(first, parts, more)


def _contents(relevance: Relevance) -> Iterator[object]:
    """Yield the relevance in parts, cut between queries."""
    if isinstance(relevance, TrecRankings):
        try:
            yield from map(write_trec, split_trec(relevance))
        except errors.InvalidArgument:
            write_trec(relevance)  # raises with paths in the whole
            raise
    else:  # values have no rankings, and so are not cut
        yield from cut_message(write_relevance(relevance), "rankings")


def cut_message(whole: Any, listed: str) -> Iterator[Any]:  # noqa: ANN401 - with a list
    """Yield a message in parts of about PART_BYTES or less: each has a slice of its list.

    Columns of verdicts are cut together with the rankings. A message with human labels is not cut,
    because these correct all rankings at once, nor is one whose columns have wrong lengths, which
    the server refuses.
    """
    others = {field.name: value for field, value in whole.ListFields()}
    items, verdicts = others.pop(listed, ()), others.pop("verdicts", None)
    columns = {} if verdicts is None else {field.name: c for field, c in verdicts.ListFields()}
    ends = [0, *accumulate(item.expected * item.retrieved if columns else 0 for item in items)]
    of_verdict = 1 + verdicts.ByteSize() // ends[-1] if ends[-1] else 0
    sized = (
        (place, [item.ByteSize() + of_verdict * (end - begin)])
        for place, (item, (begin, end)) in enumerate(zip(items, pairwise(ends), strict=True))
    )
    packs = list(packed(sized, [PART_BYTES]))
    misfit = any(len(column) != ends[-1] for column in columns.values())
    if len(packs) < 2 or misfit or "human_labels" in others:
        yield whole
        return
    for pack in packs:
        first, end = pack[0], pack[-1] + 1
        if columns:
            some = {name: column[ends[first] : ends[end]] for name, column in columns.items()}
            others["verdicts"] = type(verdicts)(**some)
        yield type(whole)(**{listed: items[first:end]}, **others)


def _topics(whole: TrecRankings) -> Iterator[str]:
    """Yield the topics in the order in which they are sent: topics of the qrels first."""
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
    pack: Any  # with joined ids, which `write_trec` does not join again
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
) -> Callable[[], Iterator[Any]]:
    """Return a function that yields a request in parts; a small one in one part."""
    whole = write_fields(
        statistics_service_pb2.ComputeTextMetricsRequest,
        metrics=metrics,
        items=items,
        per_item=per_item,
        interval=interval,
    )
    return partial(cut_message, whole, "items")


Record = Callable[[Sequence[QueryGroup], Verdicts], object]
"""Called with the groups that were judged and their verdicts."""


class EvaluateStream(Stream[None]):
    """One call of `evaluate`: what to send on each try, and what was received.

    Every try sends the same chunks. Verdicts of a broken try are kept, in case a later one breaks
    sooner, and dropped when another judge answers.
    """

    def __init__(
        self,
        groups: Iterable[QueryGroup],
        metrics: Sequence[str],
        judge: Judge | str | None,
        options: MetricOptions,
        asking: Asking | None,
        *,
        include_verdicts: bool,
        include_details: bool,
        record: Record | None,
        progress: Progress | None,
    ) -> None:
        super().__init__()
        # An iterator is read into a list, so that it can be sent again.
        self._groups = list(groups) if iter(groups) is groups else groups
        # Groups in memory are checked before anything is sent, lazy ones as they are sent.
        self._checked = isinstance(self._groups, Sequence)
        self._total: int | None = None
        if self._checked:
            checked = map(checked_group, self._groups, count())
            self._total = sum(n_contexts(group, group.n_retrieved) for group in checked)
        self._start = write_fields(
            pb.StreamEvaluateStart,
            judge=write_judge(judge),
            metrics=metrics,
            options=write_options(options, "groups"),
            include_verdicts=include_verdicts or record is not None,
            include_details=include_details or record is not None,
            request_id=str(uuid.uuid4()),
        )
        self._judge = judge
        self._keeps_verdicts = include_verdicts
        self._cost_limit = CostLimit(asking)  # raises before anything is sent
        self._record = record
        self._progress = progress
        self._identity: JudgeIdentity | None = None
        self._verdicts: dict[int, Verdicts] = {}
        self._on_negatives: dict[int, Verdicts] = {}

    def _chunks(self) -> Iterator[list[Piece]]:
        groups = self._groups if self._checked else map(checked_group, self._groups, count())
        return cut(groups, self._judge, evaluated=True)

    def request(self) -> Iterator[pb.StreamEvaluateRequest]:
        """Return the messages of the next try."""
        self._matches: dict[int, Sequence[NegativeMatch]] = {}
        self._query_ids: list[str] = []
        self._columns: list[list[float] | array[float]] = []
        self._spent = 0.0
        self._result: pb.EvaluateResponse | None = None
        return self.written(self._messages(self._cost_limit.onto(self._start)))

    def _messages(self, start: pb.StreamEvaluateStart) -> Iterator[pb.StreamEvaluateRequest]:
        yield pb.StreamEvaluateRequest(start=start)
        for chunk_id, chunk in enumerate(self._chunks()):
            message = pb.EvaluateChunk(chunk_id=chunk_id, continues=chunk[0].start > 0)
            for piece in chunk:
                message.groups.append(write_group(piece.part(), f"groups[{piece.index}]"))
            yield pb.StreamEvaluateRequest(chunk=message)

    def take(self, reply: pb.StreamEvaluateResponse) -> None:
        """Process one message of the server."""
        kind = reply.WhichOneof("message")
        if kind == "chunk":
            self._take_chunk(reply.chunk)
        elif kind == "values":
            self._query_ids.extend(reply.values.query_ids)
            columns = reply.values.columns
            # With lazy groups, values are kept in compact arrays.
            self._columns = self._columns or [[] if self._checked else array("d") for _ in columns]
            for values, more in zip(self._columns, columns, strict=True):
                values.extend(more.values)
        elif kind == "result":
            self._result = reply.result

    def _take_chunk(self, chunk: pb.EvaluatedChunk) -> None:
        self.progressed = True
        if chunk.HasField("judge"):
            judge = read_fields(JudgeIdentity, chunk.judge)
            if judge != self._identity:
                self._identity, self._verdicts, self._on_negatives = judge, {}, {}
        self._spent += chunk.usage.cost
        self._cost_limit.spent = max(self._cost_limit.spent, self._spent)
        self._matches[chunk.chunk_id] = [read_fields(NegativeMatch, m) for m in chunk.negatives]
        if self._identity is not None:
            read = partial(read_verdicts, judge=self._identity, in_arrays=not self._checked)
            if chunk.HasField("verdicts"):
                self._verdicts[chunk.chunk_id] = read(chunk.verdicts)
            if chunk.HasField("negative_verdicts"):
                self._on_negatives[chunk.chunk_id] = read(chunk.negative_verdicts)
        if self._progress is not None:
            done, received = chunk.progress.contexts_done, chunk.progress.contexts_received
            self._progress(done, received if self._total is None else self._total)

    def evaluation(self) -> Evaluation:
        """Return the evaluation. Raises InternalError when the stream ended without it."""
        if self._result is None:
            raise errors.InternalError("the stream ended without a result")
        found = read_fields(Evaluation, self._result, verdicts=None)
        verdicts = self._whole(None, found.usage) if found.judge is not None else None
        table, negatives = found.table, found.negatives
        if self._columns:
            pairs = zip(table.metrics, self._columns, strict=True)
            metrics = [replace(metric, per_query=values) for metric, values in pairs]
            table = replace(table, metrics=metrics, query_ids=self._query_ids)
        if negatives is not None:
            matches = [match for _, some in sorted(self._matches.items()) for match in some]
            negatives = replace(negatives, matches=matches)
        return replace(
            found,
            table=table,
            negatives=negatives,
            verdicts=verdicts if self._keeps_verdicts else None,
        )

    def wait_after(self, error: errors.JudgedError, attempts: Attempts) -> float:
        """Return the wait before the next try; a final error carries the verdicts so far."""
        try:
            return super().wait_after(error, attempts)
        except errors.JudgedError as last:
            last.verdicts = self._whole(last, None)
            raise

    def _whole(self, error: errors.JudgedError | None, usage: Usage | None) -> Verdicts | None:
        """Return the judge's verdicts and pass all to `record`; missing ones have the error."""
        if not self._verdicts:
            return None
        groups: Sequence[QueryGroup] = _JudgedGroups(self._groups)
        if self._checked:
            groups = list(groups)
        verdicts = replace(
            self._joined(self._verdicts, error, groups, of_negatives=False), usage=usage
        )
        if self._record is not None:
            judged, parts = list(groups), [(verdicts, False)]
            if self._on_negatives:
                against = against_negatives(map(distinct_group, self._groups))
                more = self._joined(self._on_negatives, error, against, of_negatives=True)
                parts.append((more, False))
                judged += against
            joined = join_verdicts(parts, judged)
            self._record(judged, replace(joined, usage=usage))
        return verdicts

    def _joined(
        self,
        known: dict[int, Verdicts],
        error: errors.JudgedError | None,
        groups: Sequence[QueryGroup],
        *,
        of_negatives: bool,
    ) -> Verdicts:
        """Return the verdicts of all chunks, removing them from `known` to free memory."""
        reason = missing_for(
            error or errors.InternalError("the server sent no verdict", reason="INTERNAL")
        )
        judge = next(iter(known.values())).judge
        size = partial(_n_judged, of_negatives=of_negatives)

        def parts() -> Iterator[tuple[Verdicts, bool]]:
            for chunk_id, chunk in enumerate(self._chunks()):
                pieces = [piece for piece in chunk if piece.group.negatives or not of_negatives]
                found = known.pop(chunk_id, None)
                if found is None:
                    found = missing_verdicts(map(size, pieces), reason, judge)
                yield found, bool(pieces) and pieces[0].start > 0

        return join_verdicts(parts(), groups)


class _JudgedGroups(Listed[QueryGroup]):
    """Groups as they were judged, without repeated results and negatives; made on every access."""

    def __init__(self, groups: Iterable[QueryGroup]) -> None:
        self._groups = groups

    def __len__(self) -> int:
        return sum(1 for _ in self._groups)

    def __iter__(self) -> Iterator[QueryGroup]:
        for group in map(distinct_group, self._groups):
            yield replace(group, negatives=()) if group.negatives else group

    def _item(self, index: int) -> QueryGroup:
        return next(islice(self, index, None))


def _n_judged(piece: Piece, *, of_negatives: bool) -> int:
    """Return how many verdicts a piece has, repeated results not counted."""
    group = piece.group
    texts = len(group.negatives) if of_negatives else 0 if group.by_id else group.n_expected
    return texts and texts * sum(piece.start <= rank < piece.end for rank in distinct_ranks(group))
