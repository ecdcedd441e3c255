"""The synchronous client: one method a call of the service.

Owns sending and waiting. `aio` is its sibling with the same names in the same order; what both do
alike is in `_call`, `_chunks` and `_messages`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self, TypeVar, cast

import grpc

from judged import _channel, errors
from judged._agreement import (
    read_agreement,
    read_calibration,
    write_agreement,
    write_calibrate,
)
from judged._batch import Batch, write_chunk
from judged._call import CHUNKS_IN_FLIGHT, Attempts, Deadline, RetryBudget
from judged._chunks import Piece, fold
from judged._compare import read_compare, write_compare
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
from judged._parts import Given, Parts
from judged._split import Metadata
from judged._status import Failure, to_error
from judged._text_metrics import (
    merge_text_metrics,
    of_whole,
    read_text_metrics,
    split_items,
    write_text_metrics,
    write_text_values,
)
from judged.agreement import (
    CalibrateOptions,
    Calibration,
    LabelledScores,
    MeasuredAgreement,
    RatingTable,
    SystemScores,
)
from judged.comparison import ComparedRuns, CompareOptions, RunRelevance
from judged.statistics import IntervalOptions
from judged.text_metrics import TextItem, TextMetricTable
from judged.types import (
    Context,
    Evaluation,
    Judge,
    JudgedChunk,
    MetricOptions,
    MetricTable,
    PerQueryValues,
    QueryGroup,
    Relevance,
    Verdicts,
)
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

Reply = TypeVar("Reply")
Request = TypeVar("Request")


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
        include_details: bool = False,
        timeout: float = 600.0,
        progress: Callable[[int, int], object] | None = None,
    ) -> Verdicts:
        """Return one verdict for each context, in order, however many there are.

        Large batches travel in chunks, several at once. A chunk that fails for good gives its
        contexts the status ERROR; the call raises when the request is wrong or nothing was
        answered. `progress` is called with (contexts done, contexts in all). `include_details`
        asks how a language model came to each verdict.
        """
        batch = Batch(fold(items), progress)
        spec = write_judge(judge)
        deadline = Deadline(timeout)
        in_flight: deque[tuple[list[Piece], _InFlight[pb.BatchJudgeResponse]]] = deque()
        try:
            for chunk in batch.chunks():
                request = write_chunk(chunk, spec, include_details=include_details)
                sent = self._send(self._stub.BatchJudge, request, deadline)
                in_flight.append((chunk, sent))
                if len(in_flight) >= CHUNKS_IN_FLIGHT:
                    self._take(batch, *in_flight.popleft())
            while in_flight:
                self._take(batch, *in_flight.popleft())
        finally:
            for _, sent in in_flight:
                sent.cancel()
        return batch.verdicts()

    def _take(
        self, batch: Batch, chunk: list[Piece], sent: _InFlight[pb.BatchJudgeResponse]
    ) -> None:
        try:
            reply = sent.finish()
        except errors.JudgedError as error:
            batch.failed(chunk, error)
        else:
            batch.answered(chunk, reply)

    def judge_stream(
        self,
        chunks: Iterable[Sequence[QueryGroup]],
        judge: Judge | str | None = None,
        *,
        include_details: bool = False,
        timeout: float = 3600.0,
    ) -> Iterator[JudgedChunk]:
        """Yield every chunk's verdicts as they finish, in any order; ids count chunks from 0.

        Nothing is retried: to resume, send the chunks again that had no answer.
        """
        attempts = Attempts(Deadline(timeout), self._budget)
        messages = StreamMessages(chunks, judge, include_details=include_details)
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
        include_details: bool = False,
        timeout: float = 600.0,
    ) -> Evaluation:
        """Return metrics of groups that the server judges on the way, in one message.

        For more than a message holds, with progress and resume, use judged.evaluation.Evaluator.
        """
        request = write_evaluate(
            groups,
            metrics,
            judge,
            options,
            include_verdicts=include_verdicts,
            include_details=include_details,
        )
        return read_evaluation(self._call(self._stub.Evaluate, request, Deadline(timeout)))

    def compute_metrics(
        self,
        metrics: Sequence[str],
        relevance: Relevance,
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        *,
        metadata: Metadata | None = None,
        human_values: PerQueryValues | None = None,
        timeout: float = 120.0,
    ) -> MetricTable:
        """Return metrics of rankings whose relevance is known, however many topics there are.

        `metadata` maps query ids to what is known of the query, for `options.slice_by`.
        `human_values` are what people's labels make of some of the queries, drawn at random: every
        mean then also comes corrected. Labels of judged rankings belong into these instead.
        """
        deadline, send = Deadline(timeout), self._stub.ComputeMetrics
        given = Given(relevance, metadata or {}, human_values)
        parts = Parts.of(metrics, given, options)
        if parts is None:
            request = write_metrics(metrics, relevance, options, given.metadata, human_values)
            return read_table(self._call(send, request, deadline).table)
        in_flight: deque[tuple[Given, _InFlight[pb.ComputeMetricsResponse]]] = deque()

        def take() -> None:
            part, sent = in_flight.popleft()
            with parts.about(part):
                parts.answered(sent.finish())

        try:
            for part, request in parts.requests():
                in_flight.append((part, self._send(send, request, deadline)))
                if len(in_flight) >= CHUNKS_IN_FLIGHT:
                    take()
            while in_flight:
                take()
        finally:
            for _, sent in in_flight:
                sent.cancel()
        part, request = parts.whole()
        with parts.about(part):
            return parts.table(self._call(send, request, deadline))

    def compare_runs(
        self,
        metrics: Sequence[str],
        runs: Mapping[str, RunRelevance],
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        comparison: CompareOptions = CompareOptions(),  # noqa: B008 - frozen
        *,
        qrels: Mapping[str, Mapping[str, int]] | None = None,
        timeout: float = 120.0,
    ) -> ComparedRuns:
        """Return whether runs on the same queries differ, each later one against the first.

        `runs` maps the name of a run to what it brings, all of them the same kind; `qrels` judges
        those that bring documents. Everything travels in one message: measure what is larger with
        `compute_metrics` and compare the values.
        """
        request = write_compare(metrics, runs, qrels, options, comparison)
        reply = self._call(self._stub.CompareRuns, request, Deadline(timeout))
        return read_compare(reply, list(runs))

    def compute_text_metrics(
        self,
        metrics: Sequence[str],
        items: Iterable[TextItem],
        *,
        per_item: bool = False,
        interval: IntervalOptions | None = None,
        timeout: float = 120.0,
    ) -> TextMetricTable:
        """Return metrics of texts against references, however many items there are.

        Names are "bleu", "rouge1", "rouge2", "rougeL", "token_f1", "exact_match". Items that
        several messages hold give the numbers that one would; the last message holds the values.
        """
        deadline = Deadline(timeout)

        def table(request: pb.ComputeTextMetricsRequest) -> TextMetricTable:
            reply = self._call(self._stub.ComputeTextMetrics, request, deadline)
            return read_text_metrics(reply)

        parts = split_items(items)
        if len(parts) == 1:
            request = write_text_metrics(metrics, parts[0], per_item=per_item, interval=interval)
            return table(request)
        tables = []
        for part in parts:
            request = write_text_metrics(metrics, part, per_item=True, interval=None)
            try:
                tables.append(table(request))
            except errors.InvalidArgument as error:
                raise of_whole(error, part) from None
        means = table(write_text_values(metrics, tables, interval))
        return merge_text_metrics(means, tables, per_item=per_item)

    def measure_agreement(
        self,
        ratings: RatingTable | None = None,
        systems: SystemScores | None = None,
        interval: IntervalOptions | None = None,
        *,
        timeout: float = 120.0,
    ) -> MeasuredAgreement:
        """Return how far raters agree on items, or two judges on the order of systems, or both."""
        request = write_agreement(ratings, systems, interval)
        return read_agreement(self._call(self._stub.MeasureAgreement, request, Deadline(timeout)))

    def calibrate(
        self,
        items: LabelledScores,
        options: CalibrateOptions = CalibrateOptions(),  # noqa: B008 - frozen
        interval: IntervalOptions | None = None,
        *,
        timeout: float = 120.0,
    ) -> Calibration:
        """Return what a judge is worth: its quality, bars, cascade bounds, corrected prevalence."""
        request = write_calibrate(items, options, interval)
        return read_calibration(self._call(self._stub.Calibrate, request, Deadline(timeout)))

    def server_info(self, *, timeout: float = 10.0) -> ServerInfo:
        """Return the server's version, limits, judges, models and metrics."""
        request = pb.GetServerInfoRequest()
        return read_info(self._call(self._stub.GetServerInfo, request, Deadline(timeout)))

    def _call(self, method: Callable[..., Reply], request: object, deadline: Deadline) -> Reply:
        attempts = Attempts(deadline, self._budget)

        def send() -> Reply:
            return method(request, timeout=attempts.timeout(), metadata=attempts.metadata)

        return self._finish(send, send, attempts)

    def _send(
        self,
        method: grpc.UnaryUnaryMultiCallable[Request, Reply],
        request: Request,
        deadline: Deadline,
    ) -> _InFlight[Reply]:
        """Send a message without waiting for its answer."""
        attempts = Attempts(deadline, self._budget)
        future = method.future(request, timeout=attempts.timeout(), metadata=attempts.metadata)

        def again() -> Reply:
            return method(request, timeout=attempts.timeout(), metadata=attempts.metadata)

        return _InFlight(future.cancel, lambda: self._finish(future.result, again, attempts))

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
class _InFlight(Generic[Reply]):
    """A message that was sent. `finish` waits for its answer, retries included."""

    cancel: Callable[[], object]
    finish: Callable[[], Reply]
