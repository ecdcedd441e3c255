"""JudgeService: each call reads its message, is admitted, works, and writes the reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from functools import partial
from importlib.metadata import version
from typing import Any

from judged._codec import write_fields
from judged.v1 import judge_service_pb2 as pb

from judged_server.api import streams
from judged_server.api.convert.info import read_days, write_info
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
from judged_server.api.convert.verdicts import reply_bytes, write_verdicts
from judged_server.api.idempotency import IdempotentCalls, check_request_id, digest_of
from judged_server.api.metric_streams import RankingParts, answer_parts
from judged_server.api.requests import Admission, Call, Received
from judged_server.domain import AnswerScore, ScoreSummary
from judged_server.judges.base import Caller
from judged_server.llm.budget.budgets import Budgets
from judged_server.metrics.measures.names import parse_metrics
from judged_server.scheduling.concurrency import ITEM_BYTES, run_by_size, run_computation
from judged_server.settings import Settings
from judged_server.usecases.estimate_batch import Estimator
from judged_server.usecases.evaluate import Evaluation, JudgedPart, evaluate
from judged_server.usecases.judge_batch import judge_batch
from judged_server.usecases.offering import Offering, Offerings
from judged_server.usecases.tenant_usage import tenant_usage

VERSION = version("judged")


class JudgeService:
    """The calls that judge, score and measure."""

    def __init__(
        self,
        offerings: Offerings,
        estimator: Estimator,
        budgets: Budgets,
        admission: Admission,
        settings: Settings,
        idempotent_calls: IdempotentCalls,
    ) -> None:
        self._offerings = offerings
        self._estimator = estimator
        self._budgets = budgets
        self._admission = admission
        self._settings = settings
        self._idempotent_calls = idempotent_calls

    def _offering(self, call: Call) -> Offering:
        """Return what the tenant of a call may ask for."""
        return self._offerings[call.tenant.allowed]

    async def BatchJudge(self, request: pb.BatchJudgeRequest, call: Call) -> bytes:
        """Judge the groups of one request."""
        return await self._once(
            request, call, request.include_details, partial(self._judge, request, call)
        )

    async def _judge(self, request: pb.BatchJudgeRequest, call: Call, caller: Caller) -> bytes:
        with self._admission.admit(call.memory, call.sender):
            groups = await take_groups(request.groups, call.size, self._settings, "groups")
            refuse_evaluation(groups)
            judge = self._offering(call).catalog.choose(read_spec(request.judge), groups=groups)
            verdicts = await judge_batch(judge, groups, caller=caller)
            size = ITEM_BYTES * len(verdicts.relevant)
            return await run_by_size(size, reply_bytes, verdicts, judge.identity)

    async def Evaluate(self, request: pb.EvaluateRequest, call: Call) -> bytes:
        """Judge, match and measure the groups of one request."""
        wants_details = request.include_details and request.include_verdicts
        return await self._once(
            request, call, wants_details, partial(self._evaluate, request, call)
        )

    async def _evaluate(self, request: pb.EvaluateRequest, call: Call, caller: Caller) -> bytes:
        with self._admission.admit(call.memory, call.sender):
            measures = parse_metrics(request.metrics)
            options = read_options(request.options)
            refuse_unused(request.options, "groups")
            spec = read_spec(request.judge)
            groups = await take_groups(request.groups, call.size, self._settings, "groups")
            done, judged = await evaluate(
                self._offering(call).catalog,
                spec,
                groups,
                measures,
                options,
                keep_verdicts=request.include_verdicts,
                caller=caller,
            )
            size = ITEM_BYTES * done.counts.total
            return await run_by_size(size, _evaluation_bytes, request, done, judged)

    async def _once(
        self,
        request: pb.BatchJudgeRequest | pb.EvaluateRequest,
        call: Call,
        wants_details: bool,
        work: Callable[[Caller], Coroutine[Any, Any, bytes]],
    ) -> bytes:
        """Return what `work` does; once for all requests to models of the same request_id."""
        asks_models = self._offering(call).catalog.asks_models(request.judge.kind)
        asking = read_asking(request.asking)
        caller = call.caller(asking, wants_details=wants_details, spends=asks_models)
        if asks_models:
            if request.request_id:
                check_request_id(request.request_id)
                return await self._idempotent_calls.reply(request, call, caller, work)
            call.cost_tracker = caller.cost_tracker
        return await work(caller)

    def StreamJudge(
        self, requests: AsyncIterator[Received], call: Call
    ) -> AsyncIterator[pb.StreamJudgeResponse]:
        """Judge chunks as they come."""
        return streams.judge_stream(self._parts(call), requests)

    def StreamEvaluate(
        self, requests: AsyncIterator[Received], call: Call
    ) -> AsyncIterator[pb.StreamEvaluateResponse]:
        """Judge chunks as they come, and measure all of them at the end."""
        return streams.evaluate_stream(self._parts(call), requests)

    def _parts(self, call: Call) -> streams.Parts:
        catalog = self._offering(call).catalog
        return streams.Parts(call, catalog, self._admission, self._settings, self._idempotent_calls)

    async def ComputeMetrics(
        self, request: pb.ComputeMetricsRequest, call: Call
    ) -> pb.ComputeMetricsResponse:
        """Measure rankings whose relevance is known."""
        with self._admission.admit(call.memory, call.sender):
            brings_values = request.WhichOneof("relevance") == "values"
            measures = parse_metrics(request.metrics, of_values=brings_values)
            options = read_options(request.options)
            table = await run_computation(compute, request, measures, options, self._settings)
            return pb.ComputeMetricsResponse(table=table)

    def StreamMetrics(
        self, requests: AsyncIterator[Received], call: Call
    ) -> AsyncIterator[pb.StreamMetricsResponse]:
        """Measure rankings that come in parts."""
        return answer_parts(RankingParts(self._settings), requests, call, self._admission)

    async def ScoreAnswers(
        self, request: pb.ScoreAnswersRequest, call: Call
    ) -> AsyncIterator[pb.ScoreAnswersResponse]:
        """Score answers by rubrics."""
        with self._admission.admit(call.memory, call.sender):
            caller = call.caller(read_asking(request.asking), wants_details=request.include_replies)
            call.cost_tracker = caller.cost_tracker
            if request.request_id:
                check_request_id(request.request_id)
            specs = read_rubrics(request.rubrics)
            size = call.size + ITEM_BYTES * len(request.items)
            items = await run_by_size(size, read_answers, request.items, len(specs), self._settings)
            scoring = self._offering(call).scoring
            scorers = scoring.choose(specs)
            started = write_started(scorer.identity for scorer in scorers)
            yield pb.ScoreAnswersResponse(started=started)

            async def once(
                facts: object, work: Callable[[], Coroutine[Any, Any, AnswerScore]]
            ) -> AnswerScore:
                calls, digest = self._idempotent_calls, digest_of(facts)
                return await calls.part(request.request_id, digest, call, caller, work)

            shared = once if request.request_id else None
            # Closed here and now, so that what it started never outlives the call.
            async with aclosing(scoring.score(items, scorers, caller, shared)) as scores:
                async for score in scores:
                    if isinstance(score, ScoreSummary):
                        yield pb.ScoreAnswersResponse(summary=write_summary(score))
                    else:
                        yield pb.ScoreAnswersResponse(score=write_score(score))

    async def EstimateBatch(
        self, request: pb.EstimateBatchRequest, call: Call
    ) -> pb.EstimateBatchResponse:
        """Tell what work would take."""
        with self._admission.admit(call.memory, call.sender):
            offering = self._offering(call)
            return await estimate(
                request, offering.catalog, offering.scoring, self._estimator, self._settings
            )

    async def GetServerInfo(
        self, _: pb.GetServerInfoRequest, call: Call
    ) -> pb.GetServerInfoResponse:
        """Tell what the server is and offers."""
        offering = self._offering(call)
        cards = await asyncio.to_thread(offering.embedders.cards)
        return write_info(VERSION, self._settings, offering, cards)

    async def GetUsage(self, request: pb.GetUsageRequest, _: Call) -> pb.GetUsageResponse:
        """Tell what the tenant has used."""
        usage = await tenant_usage(self._budgets, read_days(request))
        return write_fields(pb.GetUsageResponse, usage)


def _evaluation_bytes(request: pb.EvaluateRequest, done: Evaluation, judged: JudgedPart) -> bytes:
    reply = write_evaluation(done, per_query=request.options.per_query)
    reply.negatives.matches.extend(map(write_match, judged.matches))
    if done.negatives is None:
        reply.ClearField("negatives")
    if request.include_verdicts and done.identity is not None and judged.verdicts is not None:
        reply.verdicts.CopyFrom(write_verdicts(judged.verdicts))
    return reply.SerializeToString()
