"""One `evaluate`: the chunks that its groups travel in, and the evaluation that comes back.

A stream that breaks is sent again from its start, and the server's caches know what was judged.
"""

from __future__ import annotations

import uuid
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice

from judged import errors
from judged._batching.chunks import (
    Piece,
    against_negatives,
    checked_group,
    cut,
    distinct_group,
    distinct_ranks,
    n_contexts,
)
from judged._batching.judging import missing_verdicts
from judged._codec import read_fields
from judged._convert.groups import write_group
from judged._convert.judges import Purse, write_asking, write_judge
from judged._convert.metrics import read_evaluation, write_options
from judged._convert.verdicts import missing_for, read_verdicts, usage_of
from judged._inputs import as_metrics
from judged._transport.call import Deadline, RetryBudget, Stream
from judged._views import Listed
from judged.v1 import judge_service_pb2 as pb
from judged.values.groups import QueryGroup
from judged.values.judges import Asking, Judge, JudgeIdentity
from judged.values.metrics import Evaluation, MetricOptions, NegativeMatch
from judged.values.verdicts import VerdictError, Verdicts, join_verdicts

Progress = Callable[[int, int], object]
"""Is told (contexts done, contexts in all)."""
Record = Callable[[Sequence[QueryGroup], Verdicts], object]
"""Is told the groups that were judged, with their verdicts."""


@dataclass(slots=True)
class _Try:
    """What one stream was sent and answered.

    `continued` says of each chunk that was sent whether its first group is more of the last one.
    """

    judge: JudgeIdentity | None = None
    verdicts: dict[int, Verdicts] = field(default_factory=dict)
    on_negatives: dict[int, Verdicts] = field(default_factory=dict)
    matches: dict[int, Sequence[NegativeMatch]] = field(default_factory=dict)
    continued: list[bool] = field(default_factory=list)
    query_ids: list[str] = field(default_factory=list)
    columns: list[list[float] | array[float]] = field(default_factory=list)
    spent: float = 0.0
    result: pb.EvaluateResponse | None = None
    failure: Exception | None = None


class EvaluateStream(Stream[None]):
    """One call of `evaluate`: what to send on each try, and what was answered."""

    def __init__(
        self,
        groups: Iterable[QueryGroup],
        metrics: Sequence[str],
        judge: Judge | str | None,
        options: MetricOptions,
        asking: Asking | None,
        deadline: Deadline,
        budget: RetryBudget,
        *,
        include_verdicts: bool,
        include_details: bool,
        record: Record | None,
        progress: Progress | None,
    ) -> None:
        super().__init__(deadline, budget)
        # What can be read once only is kept, so that it can be sent again.
        self._groups = list(groups) if iter(groups) is groups else groups
        # Groups that are all there are checked before anything is sent, others as they are sent.
        self._checked = isinstance(self._groups, Sequence)
        if isinstance(self._groups, Sequence):
            for index, group in enumerate(self._groups):
                checked_group(group, index)
        self._start = pb.StreamEvaluateStart(
            judge=write_judge(judge),
            metrics=as_metrics(metrics),
            options=write_options(options, "groups"),
            include_verdicts=include_verdicts or record is not None,
            include_details=include_details or record is not None,
            request_id=str(uuid.uuid4()),
        )
        self._judge = judge
        self._keeps_verdicts = include_verdicts
        self._purse = Purse(asking)  # what is wrong with it is told before anything is sent
        self._record = record
        self._progress = progress
        self._total = self._count() if progress is not None else None
        self._try = self._best = _Try()

    def _count(self) -> int | None:
        """Return how many contexts the groups make; None where they are read as they are sent."""
        if not isinstance(self._groups, Sequence):
            return None
        return sum(n_contexts(group, group.n_retrieved) for group in self._groups)

    def _chunks(self) -> Iterator[list[Piece]]:
        groups = self._groups
        if not self._checked:
            groups = (checked_group(group, index) for index, group in enumerate(groups))
        return cut(groups, self._judge, evaluated=True)

    def request(self) -> Iterator[pb.StreamEvaluateRequest]:
        """Return what the next try sends.

        gRPC reads them on a thread of its own and hides what goes wrong there: a failure of the
        caller's groups ends the messages, and `take`, `ended` or `waits` raises it.
        """
        if len(self._try.verdicts) >= len(self._best.verdicts):
            self._best = self._try
        self._try, self._progressed = _Try(), False
        start = pb.StreamEvaluateStart(asking=write_asking(self._purse.rest()))
        start.MergeFrom(self._start)
        return self._messages(start, self._try)

    def _messages(
        self, start: pb.StreamEvaluateStart, this: _Try
    ) -> Iterator[pb.StreamEvaluateRequest]:
        yield pb.StreamEvaluateRequest(start=start)
        try:
            for chunk_id, chunk in enumerate(self._chunks()):
                continues = chunk[0].start > 0
                this.continued.append(continues)
                message = pb.EvaluateChunk(chunk_id=chunk_id, continues=continues)
                for piece in chunk:
                    path = f"groups[{piece.index}]"
                    message.groups.append(write_group(piece.part(), path))
                yield pb.StreamEvaluateRequest(chunk=message)
        except Exception as failure:  # noqa: BLE001 - raised where the caller waits
            this.failure = failure

    def take(self, reply: pb.StreamEvaluateResponse) -> None:
        """Take in one message of the server."""
        this = self._try
        if this.failure is not None:
            raise this.failure
        kind = reply.WhichOneof("message")
        if kind == "chunk":
            self._take_chunk(this, reply.chunk)
        elif kind == "values":
            columns = reply.values.columns
            if not self._checked and not this.columns:
                # Of groups that are not all there, values are kept in few bytes too.
                this.columns = [array("d") for _ in columns]
            this.query_ids.extend(reply.values.query_ids)
            this.columns = this.columns or [[] for _ in columns]
            for values, more in zip(this.columns, columns, strict=True):
                values.extend(more.values)
        elif kind == "result":
            this.result = reply.result

    def _take_chunk(self, this: _Try, chunk: pb.EvaluatedChunk) -> None:
        self._progressed = True
        self._budget.answered()
        if chunk.HasField("judge"):
            this.judge = read_fields(JudgeIdentity, chunk.judge)
        usage = usage_of(chunk)
        this.spent += 0.0 if usage is None else usage.cost or 0.0
        self._purse.spent = max(self._purse.spent, this.spent)
        if chunk.negatives:
            found = [read_fields(NegativeMatch, match) for match in chunk.negatives]
            this.matches[chunk.chunk_id] = found
        if this.judge is not None:
            for name, kept in (
                ("verdicts", this.verdicts),
                ("negative_verdicts", this.on_negatives),
            ):
                if chunk.HasField(name):  # type: ignore[arg-type]  # a name that is spelt out above
                    columns = getattr(chunk, name)
                    kept[chunk.chunk_id] = read_verdicts(
                        columns, this.judge, in_arrays=not self._checked
                    )
        if self._progress is not None:
            done = chunk.progress.contexts_done
            received = chunk.progress.contexts_received
            self._progress(done, received if self._total is None else self._total)

    def ended(self) -> None:
        """Note that the server ended the stream.

        Raises what went wrong in the caller's groups.
        """
        if self._try.failure is not None:
            raise self._try.failure
        self.done = True

    def evaluation(self) -> Evaluation:
        """Return the evaluation. Raises InternalError when the stream ended without it."""
        this = self._try
        if this.result is None:
            raise errors.InternalError("the stream ended without a result")
        found = read_evaluation(this.result)
        verdicts = self._verdicts(None) if found.judge is not None else None
        if verdicts is not None:
            verdicts = replace(verdicts, usage=found.usage)
            self._tell(verdicts, None)
        table = found.table
        if this.columns:
            pairs = zip(table.metrics, this.columns, strict=True)
            metrics = [replace(metric, per_query=values) for metric, values in pairs]
            table = replace(table, metrics=metrics, query_ids=this.query_ids)
        negatives = found.negatives
        if negatives is not None:
            matches = [match for _, some in sorted(this.matches.items()) for match in some]
            negatives = replace(negatives, matches=matches)
        return replace(
            found,
            table=table,
            negatives=negatives,
            verdicts=verdicts if self._keeps_verdicts else None,
        )

    def waits(self, error: errors.JudgedError) -> Iterator[float]:
        """Return the waits in seconds before the next try.

        They raise the error when there is to be no other try, with the verdicts that are there.
        """
        if self._try.failure is not None:
            raise self._try.failure
        try:
            yield from super().waits(error)
        except errors.JudgedError as last:
            last.verdicts = self._verdicts(last)
            if last.verdicts is not None:
                self._tell(last.verdicts, last)
            raise

    def _verdicts(self, error: errors.JudgedError | None) -> Verdicts | None:
        """Return the verdicts of the judge; those that are not there have the error."""
        if error is not None and len(self._best.verdicts) > len(self._try.verdicts):
            self._try = self._best  # a later try broke sooner
        this = self._try
        if not this.verdicts or this.judge is None:
            return None
        groups: Sequence[QueryGroup]
        if self._checked:
            groups = list(map(_as_judged, self._groups))
        else:
            groups = _JudgedGroups(self._groups)
        if error is None and len(this.verdicts) == len(this.continued):
            parts = (this.verdicts.pop(number) for number in range(len(this.continued)))
            return join_verdicts(parts, this.continued, groups)
        return self._joined(this.verdicts, error, groups, _whole_chunk)

    def _joined(
        self,
        known: dict[int, Verdicts],
        error: errors.JudgedError | None,
        groups: Sequence[QueryGroup],
        of_chunk: Callable[[Sequence[Piece]], tuple[Sequence[int], bool]],
    ) -> Verdicts:
        """Return the verdicts of all chunks; `of_chunk` says how many each of its groups has."""
        reason = VerdictError(0, "INTERNAL", "the server sent no verdict", retryable=False)
        if error is not None:
            reason = missing_for(error)
        judge = next(iter(known.values())).judge
        parts: list[Verdicts] = []
        continued: list[bool] = []
        for chunk_id, chunk in enumerate(self._chunks()):
            sizes, continues = of_chunk(chunk)
            part = known.get(chunk_id)
            if part is None:
                part = missing_verdicts([0, *accumulate(sizes)], reason, judge)
            parts.append(part)
            continued.append(continues)
        return join_verdicts(parts, continued, groups)

    def _tell(self, verdicts: Verdicts, error: errors.JudgedError | None) -> None:
        """Tell the record of the verdicts, those on negatives behind the others."""
        if self._record is None:
            return
        groups, parts = list(verdicts.groups), [verdicts]
        if self._try.on_negatives:
            against = against_negatives(map(distinct_group, self._groups))
            parts.append(self._joined(self._try.on_negatives, error, against, _of_negatives))
            groups += against
        joined = join_verdicts(parts, [False] * len(parts), groups)
        self._record(groups, replace(joined, usage=verdicts.usage))


def _as_judged(group: QueryGroup) -> QueryGroup:
    """Return a group as it was judged: without repeated results and negatives."""
    group = distinct_group(group)
    return replace(group, negatives=()) if group.negatives else group


class _JudgedGroups(Listed[QueryGroup]):
    """Groups as they were judged, which are read again each time that they are asked for."""

    def __init__(self, groups: Iterable[QueryGroup]) -> None:
        self._groups = groups

    def __len__(self) -> int:
        return sum(1 for _ in self._groups)

    def __iter__(self) -> Iterator[QueryGroup]:
        return map(_as_judged, self._groups)

    def _item(self, index: int) -> QueryGroup:
        return next(islice(self, index, None))


def _whole_chunk(chunk: Sequence[Piece]) -> tuple[Sequence[int], bool]:
    sizes = [
        0 if piece.group.by_id else piece.group.n_expected * _distinct(piece) for piece in chunk
    ]
    return sizes, chunk[0].start > 0


def _of_negatives(chunk: Sequence[Piece]) -> tuple[Sequence[int], bool]:
    with_negatives = [piece for piece in chunk if piece.group.negatives]
    sizes = [len(piece.group.negatives) * _distinct(piece) for piece in with_negatives]
    return sizes, bool(chunk[0].start and chunk[0].group.negatives)


def _distinct(piece: Piece) -> int:
    """Return how many results of a piece repeat no earlier one of its group."""
    return sum(piece.start <= rank < piece.end for rank in distinct_ranks(piece.group))
