"""The calls of the contract: each reads its message, does the work, and writes the reply.

The memory of a message is reserved by its call (`Receiver.first`), that of streams in `streams`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

from google.protobuf.message import Message
from judged._codec import write_fields
from judged.v1 import judge_service_pb2 as pb
from judged.values.judges import Asking
from judged.values.scores import AnswerItem, Rubric

from judged_server.api.convert.info import write_info
from judged_server.api.convert.judging import (
    read_answers,
    refuse_evaluation,
    take_groups,
    write_identity,
    write_score,
    write_verdicts,
)
from judged_server.api.convert.metrics import (
    chosen,
    compute,
    read_options,
    write_evaluation,
)
from judged_server.api.convert.statistics import (
    agreement,
    calibrate_cascade,
    calibration,
    compare_runs,
    ranking,
    text_metrics,
)
from judged_server.api.idempotency import IdempotentCalls, check_request_id
from judged_server.api.requests import (
    Admission,
    Call,
    Received,
    check,
    read,
    read_alike,
)
from judged_server.api.streams import (
    Chunks,
    Parts,
    RankingParts,
    TextParts,
    answer_parts,
    evaluate_stream,
    judge_stream,
)
from judged_server.domain import Group, JudgeSpec, ScoreSummary, counts_of
from judged_server.judges.base import Caller, Judge
from judged_server.judges.llm.answers import AnswerScorer
from judged_server.llm.budgets import Budgets, unpriced
from judged_server.metrics.measures import parse_metrics
from judged_server.scheduling.concurrency import (
    COLUMN_BYTES,
    ITEM_BYTES,
    run_by_size,
    run_computation,
)
from judged_server.settings import Limits, Settings
from judged_server.usecases.evaluate import PartedEvaluation
from judged_server.usecases.judge_batch import Estimator, check_groups_fit, judge_batch
from judged_server.usecases.offering import Offering, Offerings
from judged_server.usecases.tenant_usage import tenant_usage

DEFAULT_DAYS = 31
VERSION = version("judged")


def _computed(compute: Callable[[Any, Limits], Message]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return the method of a call that only computes: it judges nothing and asks no model."""

    async def method(self: Servicer, request: Message, _: Call) -> Message:
        return await run_computation(compute, request, self.settings)

    return method


def _chunked(answer: Callable[[Chunks, AsyncIterator[Received]], Any]) -> Callable[..., Any]:
    """Return the method of a stream of chunks."""

    def method(self: Servicer, requests: AsyncIterator[Received], call: Call) -> Any:  # noqa: ANN401
        how = self.admission, self.settings, self.idempotent_calls
        return answer(Chunks(call, self._offering(call).catalog, *how), requests)

    return method


def _in_parts(parts: Callable[[Limits], Parts]) -> Callable[..., Any]:
    """Return the method of a stream that sends one request in parts."""

    def method(self: Servicer, requests: AsyncIterator[Received], call: Call) -> Any:  # noqa: ANN401
        return answer_parts(parts(self.settings), requests, call, self.admission)

    return method


@dataclass(frozen=True)
class Servicer:
    """Implements the calls of both services, under their names in the contract."""

    offerings: Offerings
    estimator: Estimator
    budgets: Budgets
    admission: Admission
    settings: Settings
    idempotent_calls: IdempotentCalls

    ComputeMetrics = _computed(compute)
    CompareRuns = _computed(compare_runs)
    ComputeTextMetrics = _computed(text_metrics)
    MeasureAgreement = _computed(agreement)
    Calibrate = _computed(calibration)
    CalibrateCascade = _computed(calibrate_cascade)
    RankSystems = _computed(ranking)
    StreamMetrics = _in_parts(RankingParts)
    StreamTextMetrics = _in_parts(TextParts)
    StreamJudge = _chunked(judge_stream)
    StreamEvaluate = _chunked(evaluate_stream)

    def _offering(self, call: Call) -> Offering:
        """Return what the tenant of a call may ask for."""
        return self.offerings[call.tenant.allowed]

    async def BatchJudge(self, request: pb.BatchJudgeRequest, call: Call) -> bytes:
        """Judge the groups of one request."""

        async def work(caller: Caller) -> bytes:
            judge, groups = await self._to_judge(request, call.size, call)
            verdicts = await judge_batch(judge, groups, caller=caller)
            of_each = ITEM_BYTES if request.include_details else COLUMN_BYTES
            return await _written(
                of_each * len(verdicts.relevant),
                lambda: write_fields(
                    pb.BatchJudgeResponse,
                    verdicts=write_verdicts(verdicts),
                    judge=write_identity(judge.identity),
                    counts=counts_of(verdicts),
                    usage=verdicts.columns.usage,
                ),
            )

        return await self._once(request, call, work, wants_details=request.include_details)

    async def _to_judge(
        self, request: pb.BatchJudgeRequest, size: int, call: Call, path: str = ""
    ) -> tuple[Judge, list[Group]]:
        """Return the judge and groups of a request of `size` bytes; `path` prefixes field paths."""
        groups = await take_groups(request.groups, size, self.settings, f"{path}groups")
        refuse_evaluation(request.groups, f"{path}groups")
        spec = read_alike(JudgeSpec, request.judge, f"{path}judge")
        return self._offering(call).catalog.choose(spec, f"{path}judge", groups), groups

    async def Evaluate(self, request: pb.EvaluateRequest, call: Call) -> bytes:
        """Judge, match and measure the groups of one request."""

        async def work(caller: Caller) -> bytes:
            measures = parse_metrics(request.metrics)
            options = read_options(request.options, "groups")
            spec = read_alike(JudgeSpec, request.judge, "judge")
            groups = await take_groups(request.groups, call.size, self.settings, "groups")
            catalog, keeps = self._offering(call).catalog, request.include_verdicts
            run = PartedEvaluation(catalog, spec, measures, options, caller, keeps)
            done, judged = await run.whole(groups)
            verdicts = judged.verdicts if request.include_verdicts and done.identity else None
            per_query = request.options.per_query
            return await _written(
                ITEM_BYTES * done.counts.total,
                lambda: write_evaluation(done, per_query=per_query, verdicts=verdicts),
            )

        wants_details = request.include_details and request.include_verdicts
        return await self._once(request, call, work, wants_details=wants_details)

    async def _once(
        self,
        request: pb.BatchJudgeRequest | pb.EvaluateRequest,
        call: Call,
        work: Callable[[Caller], Coroutine[Any, Any, bytes]],
        *,
        wants_details: bool,
    ) -> bytes:
        """Return what `work` does; where models are asked, one result per request_id."""
        spends = self._offering(call).catalog.asks_models(request.judge.kind)
        caller = call.caller(request.asking, wants_details=wants_details, spends=spends)
        if not (spends and request.request_id):
            return await work(caller)
        check_request_id(request.request_id)
        # The work may outlive this call, so it reserves the memory; `once` sets the cost tracker.
        call.room.close()
        call.cost_tracker = None

        async def admitted() -> bytes:
            with self.admission.admit(call.memory, call.sender):
                return await work(caller)

        once = self.idempotent_calls.once
        return await once(request.request_id, call, caller, (request,), admitted)

    async def ScoreAnswers(
        self, request: pb.ScoreAnswersRequest, call: Call
    ) -> AsyncIterator[pb.ScoreAnswersResponse]:
        """Score answers by rubrics."""
        caller = call.caller(request.asking, wants_details=request.include_replies)
        if request.request_id:
            check_request_id(request.request_id)
        items, scorers = await self._to_score(request, call.size, call)
        judges = [write_identity(scorer.identity) for scorer in scorers]
        yield pb.ScoreAnswersResponse(started=pb.ScoringStarted(judges=judges))

        shared = None
        if request.request_id:
            once = self.idempotent_calls.once
            shared = partial(once, request.request_id, call, caller, is_part=True)
        scoring = self._offering(call).scoring
        # Closed at once, so that the tasks it started never outlive the call.
        async with aclosing(scoring.score(items, scorers, caller, shared)) as scores:
            async for score in scores:
                if isinstance(score, ScoreSummary):
                    yield write_fields(pb.ScoreAnswersResponse, summary=score)
                else:
                    yield pb.ScoreAnswersResponse(score=write_score(score))

    async def _to_score(
        self, request: pb.ScoreAnswersRequest, size: int, call: Call, path: str = ""
    ) -> tuple[list[AnswerItem], list[AnswerScorer]]:
        """Return items and scorers of a request of `size` bytes; `path` prefixes field paths."""
        check(request, path[:-1])
        specs = [
            read(Rubric, each, f"{path}rubrics[{i}]") for i, each in enumerate(request.rubrics)
        ]
        size += ITEM_BYTES * len(request.items)
        how = request.items, len(specs), self.settings, f"{path}items"
        items = await run_by_size(size, read_answers, *how)
        return items, self._offering(call).scoring.choose(specs, f"{path}rubrics")

    async def EstimateBatch(
        self, request: pb.EstimateBatchRequest, call: Call
    ) -> pb.EstimateBatchResponse:
        """Estimate the cost of a request. Raises what the request itself would."""
        which = chosen(request, "work")
        path, asking = f"{which}.", getattr(request, which).asking
        asked = read(Asking, asking, f"{path}asking")
        if which == "judge":
            judge, groups = await self._to_judge(request.judge, call.size, call, path)
            check_groups_fit(judge, groups, f"{path}groups")
            priced = judge.priced
            estimate = partial(self.estimator.judging, judge, groups)
        else:
            items, scorers = await self._to_score(request.score, call.size, call, path)
            priced = all(scorer.asked.priced for scorer in scorers)
            estimate = partial(self.estimator.scoring, items, scorers)
        if asked.max_cost is not None and not priced:
            raise unpriced(f"{path}asking.max_cost")
        return write_fields(pb.EstimateBatchResponse, await estimate(mode=asked.cache))

    async def GetServerInfo(
        self, _: pb.GetServerInfoRequest, call: Call
    ) -> pb.GetServerInfoResponse:
        """Return the server's version, limits and offering."""
        offering = self._offering(call)
        cards = await asyncio.to_thread(offering.embedders.cards)
        return write_info(VERSION, self.settings, offering, cards)

    async def GetUsage(self, request: pb.GetUsageRequest, _: Call) -> pb.GetUsageResponse:
        """Return the tenant's usage of language models."""
        check(request, "")
        usage = await tenant_usage(self.budgets, request.days or DEFAULT_DAYS)
        return write_fields(pb.GetUsageResponse, usage)


async def _written(size: int, write: Callable[[], Message]) -> bytes:
    """Serialize a reply of about `size` bytes; large ones on a thread."""
    return await run_by_size(size, lambda: write().SerializeToString())
