"""The asynchronous client: `client.Client`'s names in the same order, on asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import cast

import grpc

from judged import errors
from judged._batching.batch import Batch, write_chunk
from judged._batching.chunks import Piece, fold
from judged._batching.estimates import ask_about_judging, ask_about_scoring, of_work, read_estimate
from judged._batching.judge_stream import JudgeStream
from judged._batching.metric_parts import Given, Parts
from judged._batching.rankings import Metadata
from judged._batching.score_stream import Tasks
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
from judged._transport.connection import AsyncConnection
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
from judged.v1 import types_pb2

_InFlight = tuple[list[Piece], "asyncio.Task[pb.BatchJudgeResponse]"]


class AsyncClient(AsyncConnection):
    """A connection to one judge daemon, opened for each event loop; close it when done."""

    async def judge(
        self,
        items: Iterable[QueryGroup] | Iterable[Context],
        judge: Judge | str | None = None,
        *,
        include_details: bool = False,
        asking: Asking | None = None,
        timeout: float = 600.0,  # noqa: ASYNC109 - sent to the server as the call's deadline
        progress: Callable[[int, int], object] | None = None,
    ) -> Verdicts:
        """Return one verdict for each context, in order; see Client.judge."""
        batch = Batch(fold(items), progress, asking, judge)
        spec = write_judge(judge)
        deadline = Deadline(timeout)
        in_flight: deque[_InFlight] = deque()
        try:
            for chunk in batch.chunks():
                sending = self._send_chunk(
                    chunk, spec, batch.asking(chunk), deadline, include_details
                )
                task = asyncio.create_task(sending)
                in_flight.append((chunk, task))
                if len(in_flight) >= CHUNKS_IN_FLIGHT:
                    await self._take(batch, in_flight.popleft())
            while in_flight:
                await self._take(batch, in_flight.popleft())
        finally:
            for _, task in in_flight:
                task.cancel()
            await asyncio.gather(*(task for _, task in in_flight), return_exceptions=True)
        return batch.verdicts()

    async def _take(self, batch: Batch, sent: _InFlight) -> None:
        chunk, task = sent
        try:
            reply = await task
        except errors.JudgedError as error:
            batch.failed(chunk, error)
        else:
            batch.answered(chunk, reply)
        finally:
            task.cancel()

    async def judge_stream(
        self,
        chunks: Iterable[Sequence[QueryGroup]],
        judge: Judge | str | None = None,
        *,
        include_details: bool = False,
        asking: Asking | None = None,
        request_id: str = "",
        timeout: float = 3600.0,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> AsyncGenerator[JudgedChunk, None]:
        """Yield every chunk's verdicts as they finish; see Client.judge_stream."""
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
                async for reply in replies:
                    if (chunk := stream.take(reply)) is not None:
                        yield chunk
                stream.ended()
            except grpc.aio.AioRpcError as failure:
                for wait in stream.waits(to_error(cast("Failure", failure), self.target)):
                    await asyncio.sleep(wait)
            finally:
                replies.cancel()

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
        timeout: float = 600.0,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> Evaluation:
        """Return metrics of groups that the server judges on the way; see Client.evaluate."""
        request = write_evaluate(
            groups := as_groups(groups),
            metrics,
            judge,
            options,
            asking,
            include_verdicts=include_verdicts,
            include_details=include_details,
        )
        reply = await self._call(self._stub.Evaluate, request, Deadline(timeout))
        return read_evaluation(reply, groups)

    async def compute_metrics(
        self,
        metrics: Sequence[str],
        relevance: Relevance,
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        *,
        metadata: Metadata | None = None,
        human_values: PerQueryValues | None = None,
        timeout: float = 120.0,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> MetricTable:
        """Return metrics of rankings whose relevance is known; see Client.compute_metrics."""
        metrics = as_metrics(metrics)
        deadline, send = Deadline(timeout), self._stub.ComputeMetrics
        given = Given(relevance, metadata or {}, human_values)
        parts = Parts.of(metrics, given, options)
        if parts is None:
            request = write_metrics(metrics, relevance, options, given.metadata, human_values)
            return read_table((await self._call(send, request, deadline)).table)
        in_flight: deque[tuple[Given, asyncio.Task[pb.ComputeMetricsResponse]]] = deque()

        async def take() -> None:
            part, task = in_flight[0]
            with parts.about(part):
                parts.answered(await task)
            in_flight.popleft()

        try:
            for part, request in parts.requests():
                in_flight.append((part, asyncio.create_task(self._call(send, request, deadline))))
                await asyncio.sleep(0)  # sends it before the next is written
                if len(in_flight) >= CHUNKS_IN_FLIGHT:
                    await take()
            while in_flight:
                await take()
        finally:
            for _, task in in_flight:
                task.cancel()
            await asyncio.gather(*(task for _, task in in_flight), return_exceptions=True)
        if (whole := parts.whole()) is None:
            return parts.table()
        part, request = whole
        with parts.about(part):
            return parts.table(await self._call(send, request, deadline))

    async def compare_runs(
        self,
        metrics: Sequence[str],
        runs: Mapping[str, RunRelevance],
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        comparison: CompareOptions = CompareOptions(),  # noqa: B008 - frozen
        *,
        qrels: Mapping[str, Mapping[str, int]] | None = None,
        timeout: float = 120.0,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> ComparedRuns:
        """Return whether runs on the same queries differ; see Client.compare_runs."""
        request = write_compare(metrics, runs, qrels, options, comparison)
        reply = await self._call(self._stub.CompareRuns, request, Deadline(timeout))
        return read_compare(reply, list(runs))

    async def compute_text_metrics(
        self,
        metrics: Sequence[str],
        items: Iterable[TextItem],
        *,
        per_item: bool = False,
        interval: IntervalOptions | None = None,
        timeout: float = 120.0,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> TextMetricTable:
        """Return metrics of texts against references; see Client.compute_text_metrics."""
        metrics = as_metrics(metrics)
        deadline = Deadline(timeout)

        async def table(request: pb.ComputeTextMetricsRequest) -> TextMetricTable:
            reply = await self._call(self._stub.ComputeTextMetrics, request, deadline)
            return read_text_metrics(reply)

        parts = split_items(items)
        if len(parts) == 1:
            request = write_text_metrics(metrics, parts[0], per_item=per_item, interval=interval)
            return await table(request)
        tables = []
        for part in parts:
            request = write_text_metrics(metrics, part, per_item=True, interval=None)
            try:
                tables.append(await table(request))
            except errors.InvalidArgument as error:
                raise of_whole(error, part) from None
        means = await table(write_text_values(metrics, tables, interval))
        return merge_text_metrics(means, tables, per_item=per_item)

    async def measure_agreement(
        self,
        ratings: RatingTable | None = None,
        systems: SystemScores | None = None,
        interval: IntervalOptions | None = None,
        *,
        timeout: float = 120.0,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> MeasuredAgreement:
        """Return how far raters, or two judges, agree; see Client.measure_agreement."""
        request = write_agreement(ratings, systems, interval)
        reply = await self._call(self._stub.MeasureAgreement, request, Deadline(timeout))
        return read_agreement(reply)

    async def calibrate(
        self,
        items: LabelledScores,
        options: CalibrateOptions = CalibrateOptions(),  # noqa: B008 - frozen
        interval: IntervalOptions | None = None,
        *,
        timeout: float = 120.0,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> Calibration:
        """Return what a judge is worth; see Client.calibrate."""
        request = write_calibrate(items, options, interval)
        reply = await self._call(self._stub.Calibrate, request, Deadline(timeout))
        return read_calibration(reply)

    async def score_answers(
        self,
        items: Iterable[AnswerItem],
        rubrics: Iterable[Rubric | str],
        *,
        include_replies: bool = False,
        asking: Asking | None = None,
        timeout: float = 3600.0,  # noqa: ASYNC109 - sent to the server as the call's deadline
        progress: Callable[[int, int], object] | None = None,
    ) -> ScoredAnswers:
        """Return the score of every item by every rubric, in order; see Client.score_answers."""
        scoring = Scoring(items, rubrics, asking, progress, include_replies=include_replies)
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
        timeout: float = 3600.0,  # noqa: ASYNC109 - sent to the server as the call's deadline
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
        timeout: float = 120.0,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> CostEstimate:
        """Return what `judge` would take at most; see Client.estimate."""
        return await self._estimate(ask_about_judging(items, judge, asking), Deadline(timeout))

    async def estimate_scores(
        self,
        items: Iterable[AnswerItem],
        rubrics: Iterable[Rubric | str],
        *,
        asking: Asking | None = None,
        timeout: float = 120.0,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> CostEstimate:
        """Return what `score_answers` would take at most; see Client.estimate_scores."""
        return await self._estimate(ask_about_scoring(items, rubrics, asking), Deadline(timeout))

    async def _estimate(
        self, requests: Iterable[pb.EstimateBatchRequest], deadline: Deadline
    ) -> CostEstimate:
        found = CostEstimate()
        try:
            for request in requests:
                reply = await self._call(self._stub.EstimateBatch, request, deadline)
                found += read_estimate(reply)
        except errors.InvalidArgument as error:
            raise of_work(error) from None
        return found

    def _scores(self, scoring: Scoring, timeout: float) -> AsyncGenerator[AnswerScore, None]:
        send = self._stub.ScoreAnswers
        return Tasks(send, Deadline(timeout), self._budget, self.target).run(scoring)

    async def server_info(
        self,
        *,
        timeout: float = 10.0,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> ServerInfo:
        """Return the server's version, limits, judges, models and metrics."""
        request = pb.GetServerInfoRequest()
        return read_info(await self._call(self._stub.GetServerInfo, request, Deadline(timeout)))

    async def _send_chunk(
        self,
        chunk: list[Piece],
        spec: types_pb2.JudgeSpec | None,
        asking: Asking | None,
        deadline: Deadline,
        include_details: bool,
    ) -> pb.BatchJudgeResponse:
        return await self._call(
            self._stub.BatchJudge,
            write_chunk(chunk, spec, asking, include_details=include_details),
            deadline,
        )
