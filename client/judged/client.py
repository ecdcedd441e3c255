"""The synchronous client: one method a call of the service.

Owns sending and waiting. `aio` is its sibling with the same names in the same order; what both do
alike is in `_call`, `_chunks` and `_messages`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self, TypeVar, cast

import grpc

from judged import _channel, errors
from judged._batch import Batch, write_chunk
from judged._call import CHUNKS_IN_FLIGHT, Attempts, Deadline, RetryBudget
from judged._chunks import Piece, fold
from judged._info import ServerInfo, read_info
from judged._messages import (
    StreamMessages,
    read_chunk,
    read_evaluation,
    read_identity,
    read_table,
    write_evaluate,
    write_judge,
    write_metrics,
)
from judged._split import merge, split, values_of
from judged._status import Failure, to_error
from judged.types import (
    Context,
    Evaluation,
    Judge,
    JudgedChunk,
    MetricOptions,
    MetricTable,
    QueryGroup,
    Relevance,
    Verdicts,
)
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import types_pb2
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

Reply = TypeVar("Reply")


class Client:
    """A connection to one judge daemon. Safe to share between threads; close it when done."""

    def __init__(self, target: str | None = None, *, channel: grpc.Channel | None = None) -> None:
        """Connect to `target` ("HOST:PORT", "unix:PATH"), else JUDGED_TARGET, else the default.

        `channel` takes the place of a connection of our own, for TLS or tests; it is not closed.
        """
        self.target = _channel.resolve(target)
        self._owned = channel is None
        self._channel = channel or grpc.insecure_channel(self.target, options=_channel.OPTIONS)
        self._stub = JudgeServiceStub(self._channel)
        self._budget = RetryBudget()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._owned:
            self._channel.close()

    def judge(
        self,
        items: Iterable[QueryGroup] | Iterable[Context],
        judge: Judge | str | None = None,
        *,
        timeout: float = 600.0,
        progress: Callable[[int, int], object] | None = None,
    ) -> Verdicts:
        """Return one verdict for each context, in order, however many there are.

        Large batches travel in chunks, several at once. A chunk that fails for good gives its
        contexts the status ERROR; the call raises when the request is wrong or nothing was
        answered. `progress` is called with (contexts done, contexts in all).
        """
        batch = Batch(fold(items), progress)
        spec = write_judge(judge)
        deadline = Deadline(timeout)
        in_flight: deque[_InFlight] = deque()
        try:
            for chunk in batch.chunks():
                in_flight.append(self._send_chunk(chunk, spec, deadline))
                if len(in_flight) >= CHUNKS_IN_FLIGHT:
                    self._take(batch, in_flight.popleft())
            while in_flight:
                self._take(batch, in_flight.popleft())
        finally:
            for sent in in_flight:
                sent.cancel()
        return batch.verdicts()

    def _take(self, batch: Batch, sent: _InFlight) -> None:
        try:
            reply = sent.finish()
        except errors.JudgedError as error:
            batch.failed(sent.chunk, error)
        else:
            batch.answered(sent.chunk, reply)

    def judge_stream(
        self,
        chunks: Iterable[Sequence[QueryGroup]],
        judge: Judge | str | None = None,
        *,
        timeout: float = 3600.0,
    ) -> Iterator[JudgedChunk]:
        """Yield every chunk's verdicts as they finish, in any order; ids count chunks from 0.

        Nothing is retried: to resume, send the chunks again that had no answer.
        """
        attempts = Attempts(Deadline(timeout), self._budget)
        messages = StreamMessages(chunks, judge)
        replies = self._stub.StreamJudge(
            messages, timeout=attempts.timeout(), metadata=attempts.metadata
        )
        try:
            identity = read_identity(next(replies).started.judge)
            for reply in replies:
                yield read_chunk(reply.chunk, identity)
            if messages.failure is not None:
                raise messages.failure
        except grpc.RpcError as failure:
            raise to_error(cast("Failure", failure), self.target) from None
        finally:
            replies.cancel()

    def evaluate(
        self,
        groups: Iterable[QueryGroup],
        metrics: Sequence[str],
        judge: Judge | str | None = None,
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        *,
        include_verdicts: bool = False,
        timeout: float = 600.0,
    ) -> Evaluation:
        """Return metrics of groups that the server judges on the way, in one message.

        For more than a message holds, with progress and resume, use judged.evaluation.Evaluator.
        """
        request = write_evaluate(groups, metrics, judge, options, include_verdicts=include_verdicts)
        return read_evaluation(self._call(self._stub.Evaluate, request, Deadline(timeout)))

    def compute_metrics(
        self,
        metrics: Sequence[str],
        relevance: Relevance,
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        *,
        timeout: float = 120.0,
    ) -> MetricTable:
        """Return metrics of rankings whose relevance is known, however many topics there are."""
        deadline = Deadline(timeout)

        def table(part: Relevance, asked: MetricOptions) -> MetricTable:
            request = write_metrics(metrics, part, asked)
            return read_table(self._call(self._stub.ComputeMetrics, request, deadline).table)

        parts = split(relevance)
        if len(parts) == 1:
            return table(relevance, options)
        with_values = replace(options, per_query=True)
        tables = [table(part, with_values) for part in parts]
        return merge(table(values_of(tables), with_values), tables, options)

    def server_info(self, *, timeout: float = 10.0) -> ServerInfo:
        """Return the server's version, limits, judges, models and metrics."""
        request = pb.GetServerInfoRequest()
        return read_info(self._call(self._stub.GetServerInfo, request, Deadline(timeout)))

    def _call(self, method: Callable[..., Reply], request: object, deadline: Deadline) -> Reply:
        attempts = Attempts(deadline, self._budget)

        def send() -> Reply:
            return method(request, timeout=attempts.timeout(), metadata=attempts.metadata)

        return self._finish(send, send, attempts)

    def _send_chunk(
        self, chunk: list[Piece], spec: types_pb2.JudgeSpec | None, deadline: Deadline
    ) -> _InFlight:
        """Send a chunk without waiting for its answer."""
        request = write_chunk(chunk, spec)
        attempts = Attempts(deadline, self._budget)
        future = self._stub.BatchJudge.future(
            request, timeout=attempts.timeout(), metadata=attempts.metadata
        )

        def again() -> pb.BatchJudgeResponse:
            return self._stub.BatchJudge(
                request, timeout=attempts.timeout(), metadata=attempts.metadata
            )

        return _InFlight(chunk, future.cancel, lambda: self._finish(future.result, again, attempts))

    def _finish(
        self, first: Callable[[], Reply], again: Callable[[], Reply], attempts: Attempts
    ) -> Reply:
        """Return the reply of the first try that is answered. The one retry loop of this client."""
        send = first
        while True:
            try:
                reply = send()
            except grpc.RpcError as failure:
                error = to_error(cast("Failure", failure), self.target)
                time.sleep(attempts.wait_after(error))
                send = again
            else:
                self._budget.answered()
                return reply


@dataclass(frozen=True, slots=True)
class _InFlight:
    """A chunk that was sent. `finish` waits for its answer, retries included."""

    chunk: list[Piece]
    cancel: Callable[[], object]
    finish: Callable[[], pb.BatchJudgeResponse]
