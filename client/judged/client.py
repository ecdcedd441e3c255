"""The synchronous client: one method a call of the service. `aio` has the same on asyncio."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import cast

import grpc

from judged import errors
from judged._batching.batch import Batch, write_chunk
from judged._batching.chunks import Piece, fold
from judged._batching.estimates import ask_about_judging, ask_about_scoring, of_work, read_estimate
from judged._batching.judge_stream import JudgeStream
from judged._batching.metric_parts import Given, Parts
from judged._batching.rankings import Metadata
from judged._batching.score_stream import Threads
from judged._batching.scoring import Scoring
from judged._convert.agreement import (
    read_agreement,
    read_calibration,
    write_agreement,
    write_calibrate,
)
from judged._convert.comparison import read_compare, write_compare
from judged._convert.evaluation import read_evaluation, write_evaluate
from judged._convert.groups import as_groups
from judged._convert.judges import write_judge
from judged._convert.metrics import read_table, write_metrics
from judged._convert.server_info import read_info
from judged._convert.text_metrics import (
    merge_text_metrics,
    of_whole,
    read_text_metrics,
    split_items,
    write_text_metrics,
    write_text_values,
)
from judged._inputs import as_metrics
from judged._transport.call import CHUNKS_IN_FLIGHT, Deadline
from judged._transport.connection import Connection, InFlight
from judged._transport.status import Failure, to_error
from judged.types import (
    AnswerItem,
    AnswerScore,
    Asking,
    CalibrateOptions,
    Calibration,
    ComparedRuns,
    CompareOptions,
    Context,
    CostEstimate,
    Evaluation,
    IntervalOptions,
    Judge,
    JudgedChunk,
    LabelledScores,
    MeasuredAgreement,
    MetricOptions,
    MetricTable,
    PerQueryValues,
    QueryGroup,
    RatingTable,
    Relevance,
    Rubric,
    RunRelevance,
    ScoredAnswers,
    ServerInfo,
    SystemScores,
    TextItem,
    TextMetricTable,
    Verdicts,
)
from judged.v1 import judge_service_pb2 as pb


class Client(Connection):
    """A connection to one judge daemon. Safe to share between threads; close it when done."""

    def judge(
        self,
        items: Iterable[QueryGroup] | Iterable[Context],
        judge: Judge | str | None = None,
        *,
        include_details: bool = False,
        asking: Asking | None = None,
        timeout: float = 600.0,
        progress: Callable[[int, int], object] | None = None,
    ) -> Verdicts:
        """Return one verdict for each context, in order, however many there are.

        Large batches travel in chunks, several at once. A chunk that fails for good gives its
        contexts the status ERROR; the call raises when the request is wrong or nothing was
        answered. `progress` is called with (contexts done, contexts in all). `include_details`
        asks how a language model came to each verdict, `asking` says how models are asked.
        """
        batch = Batch(fold(items), progress, asking, judge)
        spec = write_judge(judge)
        deadline = Deadline(timeout)
        in_flight: deque[tuple[list[Piece], InFlight[pb.BatchJudgeResponse]]] = deque()
        try:
            for chunk in batch.chunks():
                request = write_chunk(
                    chunk, spec, batch.asking(chunk), include_details=include_details
                )
                try:
                    sent = self._send(self._stub.BatchJudge, request, deadline)
                except errors.DeadlineExceeded as error:  # what was done before counts
                    batch.failed(chunk, error)
                    continue
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
        self, batch: Batch, chunk: list[Piece], sent: InFlight[pb.BatchJudgeResponse]
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
        asking: Asking | None = None,
        request_id: str = "",
        timeout: float = 3600.0,
    ) -> Generator[JudgedChunk, None, None]:
        """Yield every chunk's verdicts as they finish, in any order; ids count chunks from 0.

        A stream that breaks is sent again with what has no answer, while `timeout` lasts, under the
        same `request_id` (a UUID of version 4, drawn where none is given), so that models are asked
        nothing twice.
        """
        stream = JudgeStream(
            *(chunks, judge, asking, Deadline(timeout), self._budget),
            include_details=include_details,
            request_id=request_id,
        )
        while not stream.done:
            replies = self._stub.StreamJudge(
                stream.messages(), timeout=stream.timeout, metadata=stream.metadata
            )
            try:
                for reply in replies:
                    if (chunk := stream.take(reply)) is not None:
                        yield chunk
                stream.ended()
            except grpc.RpcError as failure:
                for wait in stream.waits(to_error(cast("Failure", failure), self.target)):
                    time.sleep(wait)
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
        asking: Asking | None = None,
        timeout: float = 600.0,
    ) -> Evaluation:
        """Return metrics of groups that the server judges on the way, in one message.

        For more than a message holds, with progress and resume, use judged.evaluation.Evaluator.
        """
        request = write_evaluate(
            groups := as_groups(groups),
            metrics,
            judge,
            options,
            asking,
            include_verdicts=include_verdicts,
            include_details=include_details,
        )
        return read_evaluation(self._call(self._stub.Evaluate, request, Deadline(timeout)), groups)

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
        metrics = as_metrics(metrics)
        deadline, send = Deadline(timeout), self._stub.ComputeMetrics
        given = Given(relevance, metadata or {}, human_values)
        parts = Parts.of(metrics, given, options)
        if parts is None:
            request = write_metrics(metrics, relevance, options, given.metadata, human_values)
            return read_table(self._call(send, request, deadline).table)
        in_flight: deque[tuple[Given, InFlight[pb.ComputeMetricsResponse]]] = deque()

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
        if (whole := parts.whole()) is None:
            return parts.table()
        part, request = whole
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
        metrics = as_metrics(metrics)
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
        """Return a judge's worth: its quality, thresholds, cascade bounds, corrected prevalence."""
        request = write_calibrate(items, options, interval)
        return read_calibration(self._call(self._stub.Calibrate, request, Deadline(timeout)))

    def score_answers(
        self,
        items: Iterable[AnswerItem],
        rubrics: Iterable[Rubric | str],
        *,
        include_replies: bool = False,
        asking: Asking | None = None,
        timeout: float = 3600.0,
        progress: Callable[[int, int], object] | None = None,
    ) -> ScoredAnswers:
        """Return the score of every item by every rubric, in this order, however many there are.

        Large inputs travel in parts, several at once. Scores that never came have the status
        ERROR; the call raises when the request is wrong or nothing was answered. `progress` is
        called with (scores done, scores in all). `include_replies` asks for the models' replies.
        """
        scoring = Scoring(items, rubrics, asking, progress, include_replies=include_replies)
        for _ in self._scores(scoring, timeout):
            pass  # the parts keep them
        return scoring.whole()

    def stream_scores(
        self,
        items: Iterable[AnswerItem],
        rubrics: Iterable[Rubric | str],
        *,
        include_replies: bool = False,
        asking: Asking | None = None,
        timeout: float = 3600.0,
    ) -> Generator[AnswerScore, None, None]:
        """Yield every score as soon as it is there, in any order; see score_answers.

        Those that never came are last, as errors. To leave early ends what is still asked.
        """
        scoring = Scoring(items, rubrics, asking, include_replies=include_replies)
        return self._scores(scoring, timeout)

    def estimate(
        self,
        items: Iterable[QueryGroup] | Iterable[Context],
        judge: Judge | str | None = None,
        *,
        asking: Asking | None = None,
        timeout: float = 120.0,
    ) -> CostEstimate:
        """Return what `judge` would take of calls, tokens and money at most; nothing is asked."""
        return self._estimate(ask_about_judging(items, judge, asking), Deadline(timeout))

    def estimate_scores(
        self,
        items: Iterable[AnswerItem],
        rubrics: Iterable[Rubric | str],
        *,
        asking: Asking | None = None,
        timeout: float = 120.0,
    ) -> CostEstimate:
        """Return what `score_answers` would take of calls, tokens and money at most."""
        return self._estimate(ask_about_scoring(items, rubrics, asking), Deadline(timeout))

    def _estimate(
        self, requests: Iterable[pb.EstimateBatchRequest], deadline: Deadline
    ) -> CostEstimate:
        found = CostEstimate()
        try:
            for request in requests:
                found += read_estimate(self._call(self._stub.EstimateBatch, request, deadline))
        except errors.InvalidArgument as error:
            raise of_work(error) from None
        return found

    def _scores(self, scoring: Scoring, timeout: float) -> Generator[AnswerScore, None, None]:
        send = self._stub.ScoreAnswers
        return Threads(send, Deadline(timeout), self._budget, self.target).run(scoring)

    def server_info(self, *, timeout: float = 10.0) -> ServerInfo:
        """Return the server's version, limits, judges, models and metrics."""
        request = pb.GetServerInfoRequest()
        return read_info(self._call(self._stub.GetServerInfo, request, Deadline(timeout)))
