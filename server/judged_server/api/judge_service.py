"""JudgeService: each call admits, reads its message, works, and writes the reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

import grpc
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import statistics_pb2 as st
from judged.v1 import types_pb2
from judged.v1.judge_service_pb2_grpc import JudgeServiceServicer

from judged_server.answers import ScoreSummary
from judged_server.api.convert.agreement import agreement
from judged_server.api.convert.asking import read_asking, write_usage
from judged_server.api.convert.calibration import calibration
from judged_server.api.convert.comparison import compare_runs
from judged_server.api.convert.estimate import estimate
from judged_server.api.convert.golden import write_negatives
from judged_server.api.convert.info import ServerFacts, write_info
from judged_server.api.convert.judging import (
    LARGE_BYTES,
    LARGE_GROUPS,
    read_spec,
    refuse_evaluation,
    take_groups,
    write_counts,
    write_identity,
)
from judged_server.api.convert.metrics import compute, read_options, refuse_unused, write_table
from judged_server.api.convert.scoring import read_answers, read_rubrics, write_score, write_summary
from judged_server.api.convert.text_metrics import (
    read_items,
    read_measurement,
    read_values,
    write_text_metrics,
)
from judged_server.api.convert.verdict_encoder import reply_bytes, write_verdicts
from judged_server.api.idempotency import IdempotentCalls, check_request_id
from judged_server.api.interceptor import received_bytes
from judged_server.api.judge_stream import judge_stream
from judged_server.domain import QueryGroup
from judged_server.embedding.base import Embedders
from judged_server.judges.base import ANONYMOUS, Caller
from judged_server.judges.catalog import JudgeCatalog
from judged_server.metrics import parse_metrics
from judged_server.metrics.text import finish, measure_texts
from judged_server.telemetry import access
from judged_server.threads import run_computation, run_in_thread_if, run_steps
from judged_server.usecases.admission import Admission
from judged_server.usecases.estimate_batch import Estimator
from judged_server.usecases.evaluate import Evaluation, evaluate
from judged_server.usecases.judge_batch import judge_batch
from judged_server.usecases.score_answers import Scoring

Context = grpc.aio.ServicerContext[Any, Any]
Identified = pb.BatchJudgeRequest | pb.EvaluateRequest
Reply = TypeVar("Reply", bytes, pb.EvaluateResponse)

LARGE_METRICS_BYTES = 1 << 16
"""A ComputeMetrics request above this is worked off the event loop,"""
LARGE_EMBEDDED_BYTES = 1 << 11
"""and so is one above this with vectors: 2 kB may hold 65,000 pairs of them."""
LARGE_TEXT_METRICS_BYTES = 1 << 14
"""A ComputeTextMetrics request above this takes turns with others, off the event loop."""
LONG_STATISTICS_BYTES, LONG_RESAMPLES = 1 << 14, 100_000
"""Statistics of a message above this, or of more resamples, are worked where computations are that
take seconds; below they take some tenths of one."""
LARGE_VERDICTS = 50_000
"""Verdicts above this number are written off the event loop."""


class JudgeService(JudgeServiceServicer):
    """The calls of the contract over one engine."""

    def __init__(
        self,
        catalog: JudgeCatalog,
        scoring: Scoring,
        estimator: Estimator,
        embedders: Embedders,
        admission: Admission,
        facts: ServerFacts,
        max_chunks_in_flight: int,
        idempotent_calls: IdempotentCalls,
    ) -> None:
        self._catalog = catalog
        self._scoring = scoring
        self._estimator = estimator
        self._embedders = embedders
        self._admission = admission
        self._facts = facts
        self._max_chunks = max_chunks_in_flight
        self._idempotent_calls = idempotent_calls

    def BatchJudge(  # type: ignore[override]  # the interceptor takes a reply's bytes as well
        self, request: pb.BatchJudgeRequest, context: Context
    ) -> Awaitable[bytes]:
        """Judge the groups of one request."""
        if self._catalog.asks_models(request.judge.kind):
            caller = self._caller(context, request.asking, wants_details=request.include_details)
            return self._ask(request, context, caller, partial(self._judge_to_bytes, request))
        if request.HasField("asking"):
            read_asking(request.asking)  # nobody is asked, and what is wrong is wrong
        return self._judge_to_bytes(request)

    async def _judge_to_bytes(
        self, request: pb.BatchJudgeRequest, caller: Caller = ANONYMOUS
    ) -> bytes:
        size = received_bytes()
        with self._admission.admit(size):
            groups = await take_groups(request.groups, size, self._facts.limits, "groups")
            refuse_evaluation(groups)
            judge = self._catalog.choose(read_spec(request.judge), groups=groups)
            verdicts = await judge_batch(judge, groups, caller=caller)
            if len(verdicts.relevant) > LARGE_VERDICTS:
                return await asyncio.to_thread(reply_bytes, verdicts, judge.identity)
            return reply_bytes(verdicts, judge.identity)

    async def _ask(
        self,
        request: Identified,
        context: Context,
        caller: Caller,
        work: Callable[[Caller], Coroutine[Any, Any, Reply]],
    ) -> Reply:
        """Return what `work` does; once for all requests that have the same request_id."""
        if request.request_id:
            check_request_id(request.request_id)
            return await self._idempotent_calls.reply(request, context, caller, work)
        access.spends(context, caller.cost_tracker)
        return await work(caller)

    def StreamJudge(
        self,
        request_iterator: AsyncIterator[pb.StreamJudgeRequest],
        context: Context,
    ) -> AsyncIterator[pb.StreamJudgeResponse]:
        """Judge chunks as they come."""
        deadlines = self._facts.deadlines
        return judge_stream(
            self._catalog,
            self._admission,
            self._facts.limits,
            self._max_chunks,
            request_iterator,
            _now() + deadlines.allowed(context, deadlines.max_stream_s),
            partial(access.spends, context),
            self._idempotent_calls,
        )

    async def Evaluate(self, request: pb.EvaluateRequest, context: Context) -> pb.EvaluateResponse:
        """Judge, match and measure the groups of one request."""
        caller = self._caller(
            context,
            request.asking,
            wants_details=request.include_details and request.include_verdicts,
        )
        if self._catalog.asks_models(request.judge.kind):
            return await self._ask(request, context, caller, partial(self._evaluate, request))
        return await self._evaluate(request, caller)

    async def _evaluate(self, request: pb.EvaluateRequest, caller: Caller) -> pb.EvaluateResponse:
        size = received_bytes()
        with self._admission.admit(size):
            measures = parse_metrics(request.metrics)
            options = read_options(request.options)
            refuse_unused(request.options, "groups")
            spec = read_spec(request.judge)
            groups = await take_groups(request.groups, size, self._facts.limits, "groups")
            done = await evaluate(
                self._catalog,
                spec,
                groups,
                measures,
                options,
                keep_verdicts=request.include_verdicts,
                caller=caller,
            )
            large = done.n_verdicts > LARGE_VERDICTS
            return await run_in_thread_if(large, _write_evaluation, request, groups, done)

    def _caller(
        self,
        context: Context,
        message: types_pb2.AskingOptions,
        *,
        wants_details: bool,
        maximum_s: float | None = None,
    ) -> Caller:
        deadlines = self._facts.deadlines
        seconds = deadlines.allowed(context, maximum_s or deadlines.max_unary_s)
        asking = read_asking(message)
        return Caller(_now() + seconds, wants_details, asking.cache, asking.max_cost)

    async def ComputeMetrics(
        self,
        request: pb.ComputeMetricsRequest,
        context: Context,
    ) -> pb.ComputeMetricsResponse:
        """Measure rankings whose relevance is known."""
        size = received_bytes()
        with self._admission.admit(size):
            measures = parse_metrics(request.metrics)
            options = read_options(request.options)
            # An interval or a correction takes 5 ms and more, and seconds at worst.
            corrected = request.HasField("human_values") or request.judged.HasField("human_labels")
            heavy = size > LARGE_METRICS_BYTES or options.interval is not None or corrected
            heavy = heavy or (request.HasField("embedded") and size > LARGE_EMBEDDED_BYTES)
            work = partial(compute, request, measures, options, self._facts.limits)
            if not heavy:
                return pb.ComputeMetricsResponse(table=work())
            long = corrected or _is_long(size, request.options.interval)
            table = await run_computation(long, work)
            return pb.ComputeMetricsResponse(table=table)

    async def CompareRuns(
        self,
        request: pb.CompareRunsRequest,
        context: Context,
    ) -> pb.CompareRunsResponse:
        """Test whether runs differ."""
        size = received_bytes()
        with self._admission.admit(size):
            measures = parse_metrics(request.metrics)
            long = _is_long(size, request.options.interval, request.comparison.permutations)
            return await run_computation(long, compare_runs, request, measures)

    async def ComputeTextMetrics(
        self,
        request: pb.ComputeTextMetricsRequest,
        context: Context,
    ) -> pb.ComputeTextMetricsResponse:
        """Compare texts with references."""
        size = received_bytes()
        with self._admission.admit(size):
            asked = read_measurement(request)
            large = size > LARGE_TEXT_METRICS_BYTES
            if request.values:
                columns = await run_in_thread_if(large, read_values, request, asked.metrics)
            else:
                items = await run_in_thread_if(large, read_items, request.items, self._facts.limits)
                steps = measure_texts(items, asked.metrics)
                columns = await run_steps(steps) if large else finish(steps)
            if not large and asked.interval is None:
                return write_text_metrics(columns, asked)
            long = _is_long(size, request.interval)
            return await run_computation(long, write_text_metrics, columns, asked)

    async def MeasureAgreement(
        self,
        request: pb.MeasureAgreementRequest,
        context: Context,
    ) -> pb.MeasureAgreementResponse:
        """Tell how far raters, or two judges, agree."""
        size = received_bytes()
        with self._admission.admit(size):
            return await run_computation(_is_long(size, request.interval), agreement, request)

    async def Calibrate(
        self,
        request: pb.CalibrateRequest,
        context: Context,
    ) -> pb.CalibrateResponse:
        """Hold a judge's scores against human labels."""
        size = received_bytes()
        with self._admission.admit(size):
            return await run_computation(_is_long(size, request.interval), calibration, request)

    async def ScoreAnswers(
        self,
        request: pb.ScoreAnswersRequest,
        context: Context,
    ) -> AsyncIterator[pb.ScoreAnswersResponse]:
        """Score answers by rubrics."""
        size, limits = received_bytes(), self._facts.limits
        with self._admission.admit(size):
            caller = self._caller(
                context,
                request.asking,
                wants_details=request.include_replies,
                maximum_s=self._facts.deadlines.max_stream_s,
            )
            access.spends(context, caller.cost_tracker)
            once = None
            if request.request_id:
                check_request_id(request.request_id)
                once = partial(self._idempotent_calls.score, request.request_id, caller)
            specs = read_rubrics(request.rubrics)
            large = size > LARGE_BYTES or len(request.items) > LARGE_GROUPS
            items = await run_in_thread_if(large, read_answers, request.items, len(specs), limits)
            scorers = self._scoring.choose(specs)
            # Closed here and now, so that what it started never outlives the call.
            async with aclosing(self._scoring.score(items, scorers, caller, once)) as scores:
                async for score in scores:
                    if isinstance(score, ScoreSummary):
                        yield pb.ScoreAnswersResponse(summary=write_summary(score))
                    else:
                        yield pb.ScoreAnswersResponse(score=write_score(score))

    async def EstimateBatch(
        self,
        request: pb.EstimateBatchRequest,
        context: Context,
    ) -> pb.EstimateBatchResponse:
        """Tell what work would take."""
        with self._admission.admit(received_bytes()):
            limits = self._facts.limits
            return await estimate(request, self._catalog, self._scoring, self._estimator, limits)

    async def GetServerInfo(
        self,
        request: pb.GetServerInfoRequest,
        context: Context,
    ) -> pb.GetServerInfoResponse:
        """Tell what the server is and offers."""
        catalog = self._catalog
        cards = await asyncio.to_thread(self._embedders.cards)
        offers = [*catalog.offers(), self._scoring.offer()]
        return write_info(self._facts, catalog.default, offers, cards)


def _is_long(size: int, interval: st.IntervalOptions, permutations: int = 0) -> bool:
    """Say whether a computation of a message of `size` bytes may take more than a moment."""
    drawn = max(interval.resamples, permutations)
    return size > LONG_STATISTICS_BYTES or drawn > LONG_RESAMPLES


def _now() -> float:
    return asyncio.get_running_loop().time()


def _write_evaluation(
    request: pb.EvaluateRequest, groups: Sequence[QueryGroup], done: Evaluation
) -> pb.EvaluateResponse:
    reply = pb.EvaluateResponse(
        table=write_table(
            done.table,
            [group.query_id for group in groups],
            per_query=request.options.per_query,
            verdicts=None,
        )
    )
    reply.table.counts.verdicts.CopyFrom(write_counts(*done.judged))
    if done.negatives is not None:
        counts = write_counts(done.negatives.verdicts)
        reply.negatives.CopyFrom(write_negatives(done.negatives, counts))
    if done.identity is not None:
        reply.judge.CopyFrom(write_identity(done.identity))
    if request.include_verdicts and done.verdicts is not None:
        reply.verdicts.CopyFrom(write_verdicts(done.verdicts))
    if done.usage is not None:
        reply.usage.CopyFrom(write_usage(done.usage))
    return reply
