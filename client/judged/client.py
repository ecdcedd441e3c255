# Generated from client/judged/aio.py by proto/sync.py. Do not edit.
"""The synchronous client: one method a call of the service, each awaited."""

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
"""Where the work stands in a message of EstimateBatch; errors speak of the work alone."""
_OPEN_ENDED = groups_pb2.QueryGroup(retrieved=["text"])


class Client(BaseClient[Connection, grpc.Channel]):
    """A connection to one judge daemon; close it when done.

    Threads and event loops may share it.
    """

    _connection_class = Connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Calls under way end with ClientUnusable, and so do later ones."""
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
        """Return one verdict for each context, in order, however many there are.

        Large batches travel in chunks, several at once. A chunk that fails for good gives its
        contexts the status ERROR; the call raises when the request is wrong or nothing was
        answered. `progress` is called with (contexts done, contexts in all). `include_details` asks
        how a language model came to each verdict, `asking` says how models are asked. A call that
        is made again within 10 minutes with the same `request_id` (a UUID of version 4) and all
        else the same gets the replies to the first, those under way included. Which model made the
        texts is not known here: `judged.evaluation.check_circular` warns where it judges its own.
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
        """Yield the verdicts of each chunk, in order, as soon as they are there.

        Each is judged as by `judge`, a few at once; ids count them from 0. One that fails for good
        has an `error`.
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
        """Return metrics of groups that the server judges on the way, however many there are.

        Groups with relevant ids are matched by id; when all are, no judge is asked and the result
        names none. Metrics of the families `_exact` and `_similarity` ask their own judges; the one
        given is asked only if another metric, a negative reference, or `include_verdicts` needs it.
        Contexts that could not be judged have the status ERROR, which widens the bounds; the call
        raises when the request is wrong or nothing was judged, and its error then has the verdicts
        that are there as `verdicts`. A stream that breaks is sent again while `timeout` lasts. For
        that, groups that can be read only once are kept in memory.

        `progress` is called with (contexts done, contexts in all). `record` is told the groups as
        they were judged, those of negatives behind the others, and their verdicts with details. The
        offsets of the verdicts are those of the groups without their repeated results.
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
        """Return metrics of rankings whose relevance is known, however many topics there are.

        `metadata` maps query ids to what is known of the query, for `slice_by`.
        `human_values` are what people's labels make of some of the queries, drawn at random: every
        mean then also comes corrected. Labels of judged rankings belong into these instead.
        """
        stream = PartStream(
            partial(metric_parts, metrics, relevance, options, metadata or {}, human_values),
            pb.StreamMetricsRequest,
            relevance,
        )
        reply = self._in_parts("ComputeMetrics", "StreamMetrics", stream, timeout)
        return read_fields(MetricTable, reply.table)

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
        """Return whether runs on the same queries differ, each later one against the first.

        `runs` maps the name of a run to what it brings, all of them the same kind; `qrels` judges
        those that bring documents. Everything travels in one message: measure what is larger with
        `compute_metrics` and compare the values.
        """
        request = write_compare(metrics, runs, qrels, options, comparison)
        reply = self._call("CompareRuns", request, timeout)
        return read_compare(reply, list(runs))

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
        """Return how far raters agree on items, or two judges on the order of systems, or both."""
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
        """Return a judge's worth: its quality, thresholds, cascade bounds, corrected prevalence."""
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
        """Return the cascades of judges that labels find worth having, and the one proposed."""
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
        """Return systems in the order of paired comparisons: Bradley-Terry with Davidson's ties."""
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
        """Return the score of every item by every rubric, in this order, however many there are.

        Large inputs travel in parts, one after the other. Scores that never came have the status
        ERROR; the call raises when the request is wrong or nothing was answered. `progress` is
        called with (scores done, scores in all). `include_replies` asks for the models' replies.
        For 10 minutes no score is paid twice under one `request_id` (a UUID of version 4).
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
        """Yield every score as soon as it is there, in any order; see score_answers.

        Those that never came are last, as errors. To leave early ends what is still asked.
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
        """Return what `judge` would take of calls, tokens and money at most; nothing is asked."""
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
        """Return what `score_answers` would take of calls, tokens and money at most."""
        requests = Scoring(items, rubrics, asking).requests()
        work = (pb.EstimateBatchRequest(score=request) for request in requests)
        return self._estimate(work, timeout)

    def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """Return the server's version, limits, judges, models and metrics."""
        reply = self._call("GetServerInfo", pb.GetServerInfoRequest(), timeout, INFO_S)
        return read_fields(ServerInfo, reply)

    def usage(self, days: int = 31, *, timeout: float | None = None) -> TenantUsage:
        """Return what your tenant asked of language models in so many days (1 to 366, in UTC).

        Today is among them. It also has what is left of the tenant's budgets. Nobody can ask for
        another tenant's.
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
        """Run a stream that keeps what it is told."""
        deadline = self._deadline(timeout, usual_s)
        with closing(run_stream(self._connection, method, stream, deadline)) as replies:
            for _ in replies:
                pass

    def _in_parts(
        self, alone: str, streamed: str, stream: PartStream, timeout: float | None
    ) -> Any:  # noqa: ANN401 - the reply of either method
        """Return the reply to a request, which is sent in parts where it takes several."""
        if stream.alone is not None:
            return self._call(alone, stream.alone, timeout)
        self._finish(streamed, stream, timeout, COMPUTING_S)
        return stream.reply

    def _filled(
        self, groups: Sequence[QueryGroup], judge: Judge | str | None, timeout: float | None
    ) -> Sequence[QueryGroup]:
        """Return groups with a blank expected text where none is given and the judge needs none.

        Only the server knows what a judge's rubric shows, so it is asked, with one short text,
        where any group needs to know.
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
