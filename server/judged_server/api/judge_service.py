"""JudgeService: each call admits, reads its message, works, and writes the reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

import grpc
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceServicer

from judged_server.api.convert.info import ServerFacts, write_info
from judged_server.api.convert.judging import (
    read_asking,
    read_spec,
    refuse_evaluation,
    take_groups,
)
from judged_server.api.convert.metrics import (
    compute,
    read_options,
    refuse_unused,
    write_evaluation,
    write_match,
)
from judged_server.api.convert.scoring import (
    estimate,
    read_answers,
    read_rubrics,
    write_score,
    write_started,
    write_summary,
)
from judged_server.api.convert.tenant_usage import read_days, write_usage
from judged_server.api.convert.verdicts import reply_bytes, write_verdicts
from judged_server.api.evaluate_stream import evaluate_stream
from judged_server.api.idempotency import IdempotentCalls, check_request_id
from judged_server.api.judge_stream import judge_stream
from judged_server.api.listening.admission import Admission
from judged_server.api.listening.receiving import received_bytes, received_memory
from judged_server.domain.answers import ScoreSummary
from judged_server.domain.usage import CostTracker
from judged_server.judges.base import ANONYMOUS, Caller
from judged_server.judges.catalog import JudgeCatalog
from judged_server.llm.budget.budgets import Budgets
from judged_server.metrics.measures.names import parse_metrics
from judged_server.scheduling.concurrency import ITEM_BYTES, run_by_size, run_computation
from judged_server.telemetry import access
from judged_server.tenant import current_tenant
from judged_server.usecases.estimate_batch import Estimator
from judged_server.usecases.evaluate import Evaluation, JudgedPart, evaluate
from judged_server.usecases.judge_batch import judge_batch
from judged_server.usecases.offering import Offering, Offerings
from judged_server.usecases.score_answers import Scoring
from judged_server.usecases.tenant_usage import tenant_usage

Context = grpc.aio.ServicerContext[Any, Any]
Identified = pb.BatchJudgeRequest | pb.EvaluateRequest
Reply = TypeVar("Reply", bytes, pb.EvaluateResponse)
StreamReply = TypeVar("StreamReply", pb.StreamJudgeResponse, pb.StreamEvaluateResponse)


class JudgeService(JudgeServiceServicer):
    """The calls that judge, score and measure."""

    def __init__(
        self,
        offerings: Offerings,
        estimator: Estimator,
        budgets: Budgets,
        admission: Admission,
        facts: ServerFacts,
        max_chunks_in_flight: int,
        idempotent_calls: IdempotentCalls,
    ) -> None:
        self._offerings = offerings
        self._estimator = estimator
        self._budgets = budgets
        self._admission = admission
        self._facts = facts
        self._max_chunks = max_chunks_in_flight
        self._idempotent_calls = idempotent_calls

    @property
    def _offering(self) -> Offering:
        """What the tenant of the call in work may ask for."""
        return self._offerings[current_tenant().allowed]

    @property
    def _catalog(self) -> JudgeCatalog:
        return self._offering.catalog

    @property
    def _scoring(self) -> Scoring:
        return self._offering.scoring

    def BatchJudge(  # type: ignore[override]  # the interceptor takes a reply's bytes as well
        self, request: pb.BatchJudgeRequest, context: Context
    ) -> Awaitable[bytes]:
        """Judge the groups of one request."""
        if self._catalog.asks_models(request.judge.kind):
            caller = self._caller(context, request.asking, wants_details=request.include_details)
            return self._ask(request, context, caller, partial(self._judge_to_bytes, request))
        if request.HasField("asking"):
            read_asking(request.asking)  # nobody is asked, and what is wrong is wrong
        deadlines = self._facts.deadlines
        seconds = deadlines.allowed(context, deadlines.max_unary_s)
        caller = Caller(_now() + seconds, cost_tracker=ANONYMOUS.cost_tracker)  # it spends nothing
        return self._judge_to_bytes(request, caller)

    async def _judge_to_bytes(self, request: pb.BatchJudgeRequest, caller: Caller) -> bytes:
        size = received_bytes()
        with self._admission.admit(received_memory()):
            groups = await take_groups(request.groups, size, self._facts.limits, "groups")
            refuse_evaluation(groups)
            judge = self._catalog.choose(read_spec(request.judge), groups=groups)
            verdicts = await judge_batch(judge, groups, caller=caller)
            size = ITEM_BYTES * len(verdicts.relevant)
            return await run_by_size(size, reply_bytes, verdicts, judge.identity)

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
        return self._stream(judge_stream, request_iterator, context)

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
        with self._admission.admit(received_memory()):
            measures = parse_metrics(request.metrics)
            options = read_options(request.options)
            refuse_unused(request.options, "groups")
            spec = read_spec(request.judge)
            groups = await take_groups(request.groups, size, self._facts.limits, "groups")
            done, judged = await evaluate(
                self._catalog,
                spec,
                groups,
                measures,
                options,
                keep_verdicts=request.include_verdicts,
                caller=caller,
            )
            size = ITEM_BYTES * done.counts.total
            return await run_by_size(size, _write_evaluation, request, done, judged)

    def StreamEvaluate(
        self,
        request_iterator: AsyncIterator[pb.StreamEvaluateRequest],
        context: Context,
    ) -> AsyncIterator[pb.StreamEvaluateResponse]:
        """Judge chunks as they come, and measure all of them at the end."""
        return self._stream(evaluate_stream, request_iterator, context)

    def _stream(
        self,
        work: Callable[..., AsyncIterator[StreamReply]],
        request_iterator: AsyncIterator[Any],
        context: Context,
    ) -> AsyncIterator[StreamReply]:
        deadlines = self._facts.deadlines
        return work(
            self._catalog,
            self._admission,
            self._facts.limits,
            self._max_chunks,
            request_iterator,
            _now() + deadlines.allowed(context, deadlines.max_stream_s),
            partial(access.spends, context),
            self._idempotent_calls,
        )

    def _caller(
        self,
        context: Context,
        message: groups_pb2.AskingOptions,
        *,
        wants_details: bool,
        maximum_s: float | None = None,
    ) -> Caller:
        deadlines = self._facts.deadlines
        seconds = deadlines.allowed(context, maximum_s or deadlines.max_unary_s)
        asking = read_asking(message)
        tracker = CostTracker(asking.max_cost)
        return Caller(_now() + seconds, wants_details, asking.cache, tracker)

    async def ComputeMetrics(
        self, request: pb.ComputeMetricsRequest, context: Context
    ) -> pb.ComputeMetricsResponse:
        """Measure rankings whose relevance is known."""
        with self._admission.admit(received_memory()):
            brings_values = request.WhichOneof("relevance") == "values"
            measures = parse_metrics(request.metrics, of_values=brings_values)
            options = read_options(request.options)
            limits = self._facts.limits
            table = await run_computation(compute, request, measures, options, limits)
            return pb.ComputeMetricsResponse(table=table)

    async def ScoreAnswers(
        self, request: pb.ScoreAnswersRequest, context: Context
    ) -> AsyncIterator[pb.ScoreAnswersResponse]:
        """Score answers by rubrics."""
        size, limits = received_bytes(), self._facts.limits
        with self._admission.admit(received_memory()):
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
            size += ITEM_BYTES * len(request.items)
            items = await run_by_size(size, read_answers, request.items, len(specs), limits)
            scorers = self._scoring.choose(specs)
            started = write_started(scorer.identity for scorer in scorers)
            yield pb.ScoreAnswersResponse(started=started)
            # Closed here and now, so that what it started never outlives the call.
            async with aclosing(self._scoring.score(items, scorers, caller, once)) as scores:
                async for score in scores:
                    if isinstance(score, ScoreSummary):
                        yield pb.ScoreAnswersResponse(summary=write_summary(score))
                    else:
                        yield pb.ScoreAnswersResponse(score=write_score(score))

    async def EstimateBatch(
        self, request: pb.EstimateBatchRequest, context: Context
    ) -> pb.EstimateBatchResponse:
        """Tell what work would take."""
        with self._admission.admit(received_memory()):
            limits = self._facts.limits
            return await estimate(request, self._catalog, self._scoring, self._estimator, limits)

    async def GetServerInfo(
        self, request: pb.GetServerInfoRequest, context: Context
    ) -> pb.GetServerInfoResponse:
        """Tell what the server is and offers."""
        offering = self._offering
        cards = await asyncio.to_thread(offering.embedders.cards)
        return write_info(self._facts, offering, cards)

    async def GetUsage(self, request: pb.GetUsageRequest, context: Context) -> pb.GetUsageResponse:
        """Tell what the tenant has used."""
        return write_usage(await tenant_usage(self._budgets, read_days(request)))


def _now() -> float:
    return asyncio.get_running_loop().time()


def _write_evaluation(
    request: pb.EvaluateRequest, done: Evaluation, judged: JudgedPart
) -> pb.EvaluateResponse:
    reply = write_evaluation(done, per_query=request.options.per_query)
    reply.negatives.matches.extend(map(write_match, judged.matches))
    if done.negatives is None:
        reply.ClearField("negatives")
    if request.include_verdicts and done.identity is not None and judged.verdicts is not None:
        reply.verdicts.CopyFrom(write_verdicts(judged.verdicts))
    return reply
