"""The asynchronous client: `client.Client`'s names in the same order, on asyncio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Self

import grpc

from judged import errors
from judged._batching import calls
from judged._batching.batch import Batch
from judged._batching.calls import Call, Calls, Result, Walk, Whole
from judged._batching.chunks import fold
from judged._batching.estimates import estimate_judging, estimate_scoring, expected_filled
from judged._batching.evaluate_stream import EvaluateStream, Progress, Record
from judged._batching.judge_stream import JudgeStream
from judged._batching.metric_parts import Given, Parts
from judged._batching.rankings import Metadata
from judged._batching.score_stream import Tasks
from judged._batching.scoring import Scoring
from judged._convert.judges import write_judge
from judged._transport.call import CallOptions
from judged._transport.connection import AsyncConnection
from judged._transport.options import COMPUTING_S, JUDGING_S, STREAM_S, BaseClient, read_options
from judged._transport.streams import run_async_stream
from judged.credentials import Credentials
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


class AsyncClient(BaseClient[AsyncConnection]):
    """A connection to one judge daemon, opened for each event loop; close it when done."""

    def __init__(
        self,
        target: str | None = None,
        *,
        credentials: Credentials | None = None,
        channel: grpc.aio.Channel | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Connect to `target` ("HOST:PORT", "unix:PATH"), else JUDGED_TARGET, else the default.

        A name of several addresses has its calls go to each in turn. `credentials` are a Token or
        Tls. `channel` takes the place of a connection of our own; it is not closed. The other
        options are those of `with_options`. Raises InvalidArgument for what can't be used.
        """
        given = read_options(timeout=timeout, max_retries=max_retries, metadata=metadata)
        connection = AsyncConnection(target, credentials=credentials, channel=channel)
        super().__init__(connection, CallOptions(**given))  # type: ignore[arg-type]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. Calls under way end with ClientUnusable, and so do later ones."""
        await self._connection.close()

    async def judge(
        self,
        items: Iterable[QueryGroup] | Iterable[Context],
        judge: Judge | str | None = None,
        *,
        include_details: bool = False,
        asking: Asking | None = None,
        request_id: str = "",
        timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the call's deadline
        progress: Callable[[int, int], object] | None = None,
    ) -> Verdicts:
        """Return one verdict for each context, in order; see Client.judge."""
        groups = await self._call_each(expected_filled(fold(items), judge), timeout)
        batch = Batch(groups, progress, asking, judge, request_id)
        requests = batch.requests(write_judge(judge), include_details=include_details)
        deadline, send = self._deadline(timeout, JUDGING_S), self._connection.judging.BatchJudge
        async with aclosing(
            self._connection.send_all(send, requests, deadline, batch.ahead)
        ) as sent:
            async for chunk, answer in sent:
                try:
                    reply = await answer
                except errors.JudgedError as error:
                    batch.failed(chunk, error)
                else:
                    batch.answered(chunk, reply)
        return batch.verdicts()

    async def judge_stream(
        self,
        chunks: Iterable[Sequence[QueryGroup]],
        judge: Judge | str | None = None,
        *,
        include_details: bool = False,
        asking: Asking | None = None,
        request_id: str = "",
        timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> AsyncGenerator[JudgedChunk, None]:
        """Yield every chunk's verdicts as they finish; see Client.judge_stream."""
        stream = JudgeStream(
            *(chunks, judge, asking, self._deadline(timeout, STREAM_S), self._connection.budget),
            include_details=include_details,
            request_id=request_id,
        )
        replies = run_async_stream(self._connection, lambda to: to.judging.StreamJudge, stream)
        async with aclosing(replies) as judged:
            async for chunk in judged:
                yield chunk

    async def evaluate(
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
        timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the call's deadline
        progress: Progress | None = None,
    ) -> Evaluation:
        """Return metrics of groups that the server judges on the way; see Client.evaluate."""
        if isinstance(groups, Sequence):
            groups = await self._call_each(expected_filled(groups, judge), timeout)
        stream = EvaluateStream(
            *(groups, metrics, judge, options, asking),
            *(self._deadline(timeout, STREAM_S), self._connection.budget),
            include_verdicts=include_verdicts,
            include_details=include_details,
            record=record,
            progress=progress,
        )
        async for _ in run_async_stream(
            self._connection, lambda to: to.judging.StreamEvaluate, stream
        ):
            pass  # the stream keeps what it is told
        return stream.evaluation()

    async def compute_metrics(
        self,
        metrics: Sequence[str],
        relevance: Relevance,
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        *,
        metadata: Metadata | None = None,
        human_values: PerQueryValues | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> MetricTable:
        """Return metrics of rankings whose relevance is known; see Client.compute_metrics."""
        parts = Parts(metrics, Given(relevance, metadata or {}, human_values), options)
        deadline = self._deadline(timeout, COMPUTING_S)
        send = self._connection.judging.ComputeMetrics
        async with aclosing(self._connection.send_all(send, parts.requests(), deadline)) as sent:
            async for part, reply in sent:
                with parts.about(part):
                    parts.answered(await reply)
        if (whole := parts.whole()) is None:
            return parts.table()
        part, request = whole
        with parts.about(part):
            return parts.table(await self._connection.call(send, request, deadline))

    async def compare_runs(
        self,
        metrics: Sequence[str],
        runs: Mapping[str, RunRelevance],
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        comparison: CompareOptions = CompareOptions(),  # noqa: B008 - frozen
        *,
        qrels: Mapping[str, Mapping[str, int]] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> ComparedRuns:
        """Return whether runs on the same queries differ; see Client.compare_runs."""
        call = calls.compare_runs(metrics, runs, qrels, options, comparison)
        return await self._call(call, timeout)

    async def compute_text_metrics(
        self,
        metrics: Sequence[str],
        items: Iterable[TextItem],
        *,
        per_item: bool = False,
        interval: IntervalOptions | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> TextMetricTable:
        """Return metrics of texts against references; see Client.compute_text_metrics."""
        steps = calls.text_metrics(metrics, items, per_item=per_item, interval=interval)
        return await self._call_each(steps, timeout)

    async def measure_agreement(
        self,
        ratings: RatingTable | None = None,
        systems: SystemScores | None = None,
        interval: IntervalOptions | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> MeasuredAgreement:
        """Return how far raters, or two judges, agree; see Client.measure_agreement."""
        return await self._call(calls.measure_agreement(ratings, systems, interval), timeout)

    async def calibrate(
        self,
        items: LabelledScores,
        options: CalibrateOptions = CalibrateOptions(),  # noqa: B008 - frozen
        interval: IntervalOptions | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> Calibration:
        """Return what a judge is worth; see Client.calibrate."""
        return await self._call(calls.calibrate(items, options, interval), timeout)

    async def calibrate_cascade(
        self,
        items: StagedLabels,
        options: CascadeOptions = CascadeOptions(),  # noqa: B008 - frozen
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> CascadeFrontier:
        """Return the cascades worth having; see Client.calibrate_cascade."""
        return await self._call(calls.calibrate_cascade(items, options), timeout)

    async def rank_systems(
        self,
        comparisons: Sequence[PairedComparison],
        interval: IntervalOptions | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> SystemRanking:
        """Return systems in the order of paired comparisons; see Client.rank_systems."""
        return await self._call(calls.rank_systems(comparisons, interval), timeout)

    async def score_answers(
        self,
        items: Iterable[AnswerItem],
        rubrics: Iterable[Rubric | str],
        *,
        include_replies: bool = False,
        asking: Asking | None = None,
        request_id: str = "",
        timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the call's deadline
        progress: Callable[[int, int], object] | None = None,
    ) -> ScoredAnswers:
        """Return the score of every item by every rubric, in order; see Client.score_answers."""
        scoring = Scoring(
            items, rubrics, asking, progress, request_id, include_replies=include_replies
        )
        async for _ in self._scores(scoring, timeout):
            pass  # the parts keep them
        return scoring.whole()

    async def stream_scores(
        self,
        items: Iterable[AnswerItem],
        rubrics: Iterable[Rubric | str],
        *,
        include_replies: bool = False,
        asking: Asking | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> AsyncGenerator[AnswerScore, None]:
        """Yield every score as soon as it is there, in any order; see Client.stream_scores."""
        scoring = Scoring(items, rubrics, asking, include_replies=include_replies)
        async with aclosing(self._scores(scoring, timeout)) as scores:
            async for score in scores:
                yield score

    async def estimate(
        self,
        items: Iterable[QueryGroup] | Iterable[Context],
        judge: Judge | str | None = None,
        *,
        asking: Asking | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> CostEstimate:
        """Return what `judge` would take at most; see Client.estimate."""
        return await self._call_each(estimate_judging(items, judge, asking), timeout)

    async def estimate_scores(
        self,
        items: Iterable[AnswerItem],
        rubrics: Iterable[Rubric | str],
        *,
        asking: Asking | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> CostEstimate:
        """Return what `score_answers` would take at most; see Client.estimate_scores."""
        return await self._call_each(estimate_scoring(items, rubrics, asking), timeout)

    async def server_info(
        self,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> ServerInfo:
        """Return the server's version, limits, judges, models and metrics."""
        return await self._call(calls.server_info(), timeout)

    async def usage(
        self,
        days: int = 31,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> TenantUsage:
        """Return what your tenant asked of language models in so many days; see Client.usage."""
        return await self._call(calls.usage(days), timeout)

    async def _call(self, call: Call[Result], timeout: float | None) -> Result:  # noqa: ASYNC109 - as above
        send = call.method(self._connection)
        deadline = self._deadline(timeout, call.usual_s)
        return call.read(await self._connection.call(send, call.request, deadline))

    async def _call_each(self, steps: Calls[Result, Whole], timeout: float | None) -> Whole:  # noqa: ASYNC109 - as above
        """Return the result of calls that are made one after the other, in one deadline."""
        deadline = self._deadline(timeout, COMPUTING_S)
        walk = Walk(steps)
        while (call := walk.step) is not None:
            send = call.method(self._connection)
            try:
                reply = await self._connection.call(send, call.request, deadline)
            except errors.JudgedError as error:
                walk.failed(error)
            else:
                walk.answered(call.read(reply))
        return walk.whole

    def _scores(self, scoring: Scoring, timeout: float | None) -> AsyncGenerator[AnswerScore, None]:
        send = self._connection.judging.ScoreAnswers
        deadline = self._deadline(timeout, STREAM_S)
        return Tasks(send, deadline, self._connection.budget, self.target).run(scoring)
