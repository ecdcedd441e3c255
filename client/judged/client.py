# Generated from client/judged/aio.py by proto/sync.py. Do not edit.
"""The synchronous client, with one method for each call of the service."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Self

import grpc

from judged import errors
from judged._batching.judging import PASSING, Batch, Piece, Progress, ToJudge, fill_expected, fold
from judged._batching.parts import (
    EvaluateStream,
    Metadata,
    PartStream,
    Record,
    metric_parts,
    text_parts,
)
from judged._batching.scoring import Scoring
from judged._codec import read_fields, write_fields
from judged._convert import (
    CostLimit,
    missing_for,
    read_calibration,
    read_compare,
    read_frontier,
    read_table,
    write_calibrate,
    write_calibrate_cascade,
    write_compare,
    write_comparisons,
    write_judge,
)
from judged._transport.call import CHUNKS_IN_FLIGHT, Stream, derived_id, rename_paths
from judged._transport.calls import call, run_stream
from judged._transport.connection import (
    COMPUTING_S,
    INFO_S,
    JUDGING_S,
    STREAM_S,
    BaseClient,
    Connection,
)
from judged._transport.primitives import in_order
from judged._views import Listed
from judged.v1 import groups_pb2, statistics_service_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.values import (
    AnswerItem,
    AnswerScore,
    Asking,
    CalibrateOptions,
    Calibration,
    CascadeFrontier,
    CascadeOptions,
    ComparedRuns,
    CompareOptions,
    CostEstimate,
    Evaluation,
    IntervalOptions,
    Judge,
    JudgedChunk,
    LabelledScores,
    MeasuredAgreement,
    MetricOptions,
    MetricTable,
    PairedComparison,
    PerQueryValues,
    QueryGroup,
    RatingTable,
    Relevance,
    Rubric,
    RunRelevance,
    ScoredAnswers,
    ServerInfo,
    StagedLabels,
    SystemRanking,
    SystemScores,
    TenantUsage,
    TextItem,
    TextMetricTable,
    Verdicts,
)

_OF_WORK = re.compile(r"^(judge|score)\.")
"""The prefix of paths in EstimateBatch messages; errors name the path without it."""
_OPEN_ENDED = groups_pb2.QueryGroup(retrieved=["text"])


class Client(BaseClient[Connection, grpc.Channel]):
    """A connection to a judge server; close it when done. Threads and event loops may share it."""

    _connection_class = Connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Calls in flight and later calls raise ClientUnusable."""
        self._connection.close()

    def judge(
        self,
        items: ToJudge,
        judge: Judge | str | None = None,
        *,
        include_details: bool = False,
        asking: Asking | None = None,
        request_id: str = "",
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Verdicts:
        """Return one verdict for each context, in order, for any number of contexts.

        Large batches are sent in chunks, several at once. If a chunk fails for good, its contexts
        get the status ERROR; the call raises if the request is wrong or no chunk was answered.
        `progress` is called with (contexts done, contexts in all). `include_details` asks for how a
        language model came to each verdict; `asking` sets how models are asked. An identical call
        with the same `request_id` (a UUID of version 4) within 10 minutes gets the replies to the
        first one, even those still in progress. Which model wrote the texts is not known here;
        `judged.evaluation.check_circular` warns if it would judge its own.
        """
        batch = Batch(
            self._filled(fold(items), judge, timeout),
            judge,
            asking,
            include_details=include_details,
            request_id=request_id,
            progress=progress,
        )
        deadline = self._deadline(timeout, JUDGING_S)

        def reply_to(part: tuple[Sequence[Piece], object]) -> tuple[Sequence[Piece], Any]:
            chunk, request = part
            try:
                reply = call(self._connection, "BatchJudge", request, deadline)
            except errors.JudgedError as error:
                reply = error
            return chunk, reply

        with closing(in_order(reply_to, batch.requests(), batch.ahead)) as answers:
            for chunk, answer in answers:
                batch.take(chunk, answer)
        return batch.verdicts()

    def judge_stream(
        self,
        chunks: Iterable[Sequence[QueryGroup]],
        judge: Judge | str | None = None,
        *,
        include_details: bool = False,
        asking: Asking | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> Generator[JudgedChunk, None]:
        """Yield the verdicts of each chunk, in order, as soon as they arrive.

        Each chunk is judged as by `judge`, a few at once; their ids count from 0. A chunk that
        fails for good has an `error`.
        """
        cost_limit, deadline = CostLimit(asking), self._deadline(timeout, STREAM_S)

        def judged(numbered: tuple[int, Sequence[QueryGroup]]) -> JudgedChunk:
            number, groups = numbered
            try:
                found = self.judge(
                    groups,
                    judge,
                    include_details=include_details,
                    asking=cost_limit.rest(),
                    request_id=request_id and derived_id(request_id, "chunk", number),
                    timeout=deadline.left(),
                )
            except PASSING as error:
                cost_limit.lost(error)
                return JudgedChunk(number, None, missing_for(error))
            except errors.InvalidArgument as error:
                raise error.below(f"chunks[{number}]") from None
            cost_limit.took(found.usage)
            return JudgedChunk(number, found, None)

        ahead = 1 if cost_limit.limited else CHUNKS_IN_FLIGHT
        with closing(in_order(judged, enumerate(chunks), ahead)) as answers:
            for chunk in answers:
                yield chunk

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
        record: Record | None = None,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Judge any number of groups on the server and return their metrics.

        Groups with relevant ids are matched by id; if all are, no judge is asked and the result
        names none. Metrics of the families `_exact` and `_similarity` ask their own judges; `judge`
        is asked only if another metric, a negative reference, or `include_verdicts` needs it.
        Contexts that could not be judged have the status ERROR, which widens the bounds. The call
        raises if the request is wrong or nothing was judged; `verdicts` of the error has those that
        arrived. A broken stream is sent again until `timeout` is over, so groups from an iterator
        are kept in memory.

        `progress` is called with (contexts done, contexts in all). `record` is called with the
        groups as they were judged, those of negatives last, and their verdicts with details. The
        offsets of the verdicts count the groups without their repeated results.
        """
        if isinstance(groups, Sequence):
            groups = self._filled(groups, judge, timeout)
        stream = EvaluateStream(
            groups,
            metrics,
            judge,
            options,
            asking,
            include_verdicts=include_verdicts,
            include_details=include_details,
            record=record,
            progress=progress,
        )
        self._finish("StreamEvaluate", stream, timeout)
        return stream.evaluation()

    def compute_metrics(
        self,
        metrics: Sequence[str],
        relevance: Relevance,
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        *,
        metadata: Metadata | None = None,
        human_values: PerQueryValues | None = None,
        timeout: float | None = None,
    ) -> MetricTable:
        """Return metrics of rankings whose relevance is known, for any number of topics.

        `metadata` maps query ids to metadata of the query, for `slice_by`. `human_values` are the
        values by human labels for some queries, drawn at random; every mean then also has a
        corrected estimate. Labels of judged rankings go into the rankings instead.
        """
        stream = PartStream(
            partial(metric_parts, metrics, relevance, options, metadata or {}, human_values),
            pb.StreamMetricsRequest,
            relevance,
        )
        reply = self._in_parts("ComputeMetrics", "StreamMetrics", stream, timeout)
        return read_table(reply.table, relevance, options)

    def compare_runs(
        self,
        metrics: Sequence[str],
        runs: Mapping[str, RunRelevance],
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        comparison: CompareOptions = CompareOptions(),  # noqa: B008 - frozen
        *,
        qrels: Mapping[str, Mapping[str, int]] | None = None,
        timeout: float | None = None,
    ) -> ComparedRuns:
        """Compare runs on the same queries, each later one with the first.

        `runs` maps names to rankings or values, all of the same kind; `qrels` has the judgements
        for runs of documents. All of it is sent in one message: for larger runs, call
        `compute_metrics` and compare the values.
        """
        request = write_compare(metrics, runs, qrels, options, comparison)
        reply = self._call("CompareRuns", request, timeout)
        return read_compare(reply, runs, qrels, options)

    def compute_text_metrics(
        self,
        metrics: Sequence[str],
        items: Iterable[TextItem],
        *,
        per_item: bool = False,
        interval: IntervalOptions | None = None,
        timeout: float | None = None,
    ) -> TextMetricTable:
        """Return bleu, rouge1, rouge2, rougeL, token_f1 or exact_match of texts and references."""
        stream = PartStream(
            text_parts(metrics, items, per_item=per_item, interval=interval),
            statistics_service_pb2.StreamTextMetricsRequest,
        )
        reply = self._in_parts("ComputeTextMetrics", "StreamTextMetrics", stream, timeout)
        return read_fields(TextMetricTable, reply)

    def measure_agreement(
        self,
        ratings: RatingTable | None = None,
        systems: SystemScores | None = None,
        interval: IntervalOptions | None = None,
        *,
        timeout: float | None = None,
    ) -> MeasuredAgreement:
        """Measure how far raters agree on items, or two judges on the order of systems, or both."""
        request = write_fields(
            statistics_service_pb2.MeasureAgreementRequest,
            ratings=ratings,
            systems=systems,
            interval=interval,
        )
        reply = self._call("MeasureAgreement", request, timeout)
        return read_fields(MeasuredAgreement, reply)

    def calibrate(
        self,
        items: LabelledScores,
        options: CalibrateOptions = CalibrateOptions(),  # noqa: B008 - frozen
        interval: IntervalOptions | None = None,
        *,
        timeout: float | None = None,
    ) -> Calibration:
        """Return a judge's quality, thresholds, cascade bounds and corrected prevalence."""
        request = write_calibrate(items, options, interval)
        reply = self._call("Calibrate", request, timeout)
        return read_calibration(reply)

    def calibrate_cascade(
        self,
        items: StagedLabels,
        options: CascadeOptions = CascadeOptions(),  # noqa: B008 - frozen
        *,
        timeout: float | None = None,
    ) -> CascadeFrontier:
        """Return the cost-quality frontier of cascades of judges, and the proposed cascade."""
        request = write_calibrate_cascade(items, options)
        reply = self._call("CalibrateCascade", request, timeout)
        return read_frontier(reply)

    def rank_systems(
        self,
        comparisons: Sequence[PairedComparison],
        interval: IntervalOptions | None = None,
        *,
        timeout: float | None = None,
    ) -> SystemRanking:
        """Rank systems by paired comparisons: the Bradley-Terry model with Davidson's ties."""
        request = write_comparisons(comparisons, interval)
        reply = self._call("RankSystems", request, timeout)
        return read_fields(SystemRanking, reply)

    def score_answers(
        self,
        items: Iterable[AnswerItem],
        rubrics: Iterable[Rubric | str],
        *,
        include_replies: bool = False,
        asking: Asking | None = None,
        request_id: str = "",
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> ScoredAnswers:
        """Return the score of every item by every rubric, in this order, for any number of items.

        Large inputs are sent in parts, one after another. Scores that never arrived have the status
        ERROR; the call raises if the request is wrong or nothing was answered. `progress` is called
        with (scores done, scores in all). `include_replies` asks for the models' replies. Within 10
        minutes, no score is paid for twice under one `request_id` (a UUID of version 4).
        """
        scoring = Scoring(
            items, rubrics, asking, progress, request_id, include_replies=include_replies
        )
        self._finish("ScoreAnswers", scoring, timeout)
        return scoring.whole()

    def stream_scores(
        self,
        items: Iterable[AnswerItem],
        rubrics: Iterable[Rubric | str],
        *,
        include_replies: bool = False,
        asking: Asking | None = None,
        timeout: float | None = None,
    ) -> Generator[AnswerScore, None]:
        """Yield every score as soon as it arrives, in any order; see score_answers.

        Scores that never arrived come last, as errors. Closing the generator cancels the call.
        """
        scoring = Scoring(items, rubrics, asking, include_replies=include_replies)
        deadline = self._deadline(timeout, STREAM_S)
        return run_stream(self._connection, "ScoreAnswers", scoring, deadline)

    def estimate(
        self,
        items: ToJudge,
        judge: Judge | str | None = None,
        *,
        asking: Asking | None = None,
        timeout: float | None = None,
    ) -> CostEstimate:
        """Return the most calls, tokens and money that `judge` would use; no model is asked."""
        batch = Batch(self._filled(fold(items), judge, timeout), judge, asking)
        work = (pb.EstimateBatchRequest(judge=request) for _, request in batch.requests())
        return self._estimate(work, timeout)

    def estimate_scores(
        self,
        items: Iterable[AnswerItem],
        rubrics: Iterable[Rubric | str],
        *,
        asking: Asking | None = None,
        timeout: float | None = None,
    ) -> CostEstimate:
        """Return the most calls, tokens and money that `score_answers` would use."""
        requests = Scoring(items, rubrics, asking).requests()
        work = (pb.EstimateBatchRequest(score=request) for request in requests)
        return self._estimate(work, timeout)

    def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """Return the server's version, limits, judges, models and metrics."""
        reply = self._call("GetServerInfo", pb.GetServerInfoRequest(), timeout, INFO_S)
        return read_fields(ServerInfo, reply)

    def usage(self, days: int = 31, *, timeout: float | None = None) -> TenantUsage:
        """Return your tenant's use of language models in the last `days` (1 to 366, in UTC).

        Today counts as one of them. Also returns what is left of the tenant's budgets. Usage of
        other tenants can't be read.
        """
        request = write_fields(pb.GetUsageRequest, days=days)
        return read_fields(TenantUsage, self._call("GetUsage", request, timeout, INFO_S))

    def _call(
        self, method: str, request: object, timeout: float | None, usual_s: float = COMPUTING_S
    ) -> Any:  # noqa: ANN401 - the reply of the method
        deadline = self._deadline(timeout, usual_s)
        return call(self._connection, method, request, deadline)

    def _finish(
        self, method: str, stream: Stream[Any], timeout: float | None, usual_s: float = STREAM_S
    ) -> None:
        """Run a stream to its end; the stream keeps what it receives."""
        deadline = self._deadline(timeout, usual_s)
        with closing(run_stream(self._connection, method, stream, deadline)) as replies:
            for _ in replies:
                pass

    def _in_parts(
        self, alone: str, streamed: str, stream: PartStream, timeout: float | None
    ) -> Any:  # noqa: ANN401 - the reply of either method
        """Return the reply to a request; one that does not fit into a message is sent in parts."""
        if stream.alone is not None:
            return self._call(alone, stream.alone, timeout)
        self._finish(streamed, stream, timeout, COMPUTING_S)
        return stream.reply

    def _filled(
        self, groups: Sequence[QueryGroup], judge: Judge | str | None, timeout: float | None
    ) -> Sequence[QueryGroup]:
        """Add a blank expected text to groups without one, if the judge needs none.

        Only the server knows what a judge's rubric shows, so an estimate for one short text finds
        out, if any group lacks an expected text.
        """
        known = () if isinstance(groups, Listed) else groups
        if not any(isinstance(g, QueryGroup) and not g.expected and g.open_ended for g in known):
            return groups
        probe = pb.BatchJudgeRequest(groups=[_OPEN_ENDED], judge=write_judge(judge))
        found = self._estimate([pb.EstimateBatchRequest(judge=probe)], timeout)
        return [fill_expected(group) for group in groups] if found.contexts else groups

    def _estimate(
        self, requests: Iterable[pb.EstimateBatchRequest], timeout: float | None
    ) -> CostEstimate:
        deadline, found = self._deadline(timeout, COMPUTING_S), CostEstimate()
        try:
            for request in requests:
                reply = call(self._connection, "EstimateBatch", request, deadline)
                found += read_fields(CostEstimate, reply)
        except errors.InvalidArgument as error:
            raise rename_paths(error, _OF_WORK, lambda _: "") from None
        return found
