"""JudgeService: each call as codec, engine, codec.

Owns the order of the steps of a call and nothing else: what surrounds a call is `rpc.guard`, what
a message means is in the codecs, the work is in `engine` and `metrics`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceServicer

from judged_server.domain import JudgeIdentity, QueryGroup, Verdicts
from judged_server.engine.admission import Admission
from judged_server.engine.engine import Engine
from judged_server.engine.evaluation import Evaluation, evaluate
from judged_server.metrics import parse_metrics
from judged_server.off_loop import off_loop_if
from judged_server.ports import Embedders
from judged_server.rpc.info_codec import ServerFacts, write_info
from judged_server.rpc.intake import take_groups
from judged_server.rpc.judging_codec import (
    read_spec,
    refuse_relevant_ids,
    write_counts,
    write_identity,
    write_verdicts,
)
from judged_server.rpc.metrics_codec import compute, read_options, write_table
from judged_server.rpc.stream import judge_stream

Context = grpc.aio.ServicerContext[Any, Any]

LARGE_METRICS_BYTES = 1 << 16
"""A ComputeMetrics request above this is worked off the event loop."""
LARGE_VERDICTS = 50_000
"""Verdicts above this number are written off the event loop."""


class JudgeService(JudgeServiceServicer):
    """The calls of the contract over one engine."""

    def __init__(
        self,
        engine: Engine,
        embedders: Embedders,
        admission: Admission,
        facts: ServerFacts,
        max_chunks_in_flight: int,
    ) -> None:
        self._engine = engine
        self._embedders = embedders
        self._admission = admission
        self._facts = facts
        self._max_chunks = max_chunks_in_flight

    async def BatchJudge(
        self, request: pb.BatchJudgeRequest, context: Context
    ) -> pb.BatchJudgeResponse:
        """Judge the groups of one request."""
        size = request.ByteSize()
        with self._admission.admit(size):
            spec = read_spec(request.judge)
            groups = await take_groups(request.groups, size, self._facts.limits, "groups")
            refuse_relevant_ids(groups)
            judge = self._engine.choose(spec, groups)
            verdicts = await self._engine.judge(judge, groups)
            large = len(verdicts.relevant) > LARGE_VERDICTS
            return await off_loop_if(large, _write_batch, verdicts, judge.identity)

    def StreamJudge(
        self,
        request_iterator: AsyncIterator[pb.StreamJudgeRequest],
        context: Context,
    ) -> AsyncIterator[pb.StreamJudgeResponse]:
        """Judge chunks as they come."""
        return judge_stream(
            self._engine, self._admission, self._facts.limits, self._max_chunks, request_iterator
        )

    async def Evaluate(self, request: pb.EvaluateRequest, context: Context) -> pb.EvaluateResponse:
        """Judge, match and measure the groups of one request."""
        size = request.ByteSize()
        with self._admission.admit(size):
            measures = parse_metrics(request.metrics)
            options = read_options(request.options)
            spec = read_spec(request.judge)
            groups = await take_groups(request.groups, size, self._facts.limits, "groups")
            done = await evaluate(self._engine, spec, groups, measures, options)
            large = len(done.verdicts.relevant) > LARGE_VERDICTS
            return await off_loop_if(large, _write_evaluation, request, groups, done)

    async def ComputeMetrics(
        self,
        request: pb.ComputeMetricsRequest,
        context: Context,
    ) -> pb.ComputeMetricsResponse:
        """Measure rankings whose relevance is known."""
        size = request.ByteSize()
        with self._admission.admit(size):
            measures = parse_metrics(request.metrics)
            options = read_options(request.options)
            table = await off_loop_if(
                size > LARGE_METRICS_BYTES, compute, request, measures, options
            )
            return pb.ComputeMetricsResponse(table=table)

    async def GetServerInfo(
        self,
        request: pb.GetServerInfoRequest,
        context: Context,
    ) -> pb.GetServerInfoResponse:
        """Tell what the server is and offers."""
        catalog = self._engine.catalog
        cards = await asyncio.to_thread(self._embedders.cards)
        return write_info(self._facts, catalog.default, catalog.offers(), cards)


def _write_batch(verdicts: Verdicts, identity: JudgeIdentity) -> pb.BatchJudgeResponse:
    return pb.BatchJudgeResponse(
        verdicts=write_verdicts(verdicts),
        judge=write_identity(identity),
        counts=write_counts(verdicts),
    )


def _write_evaluation(
    request: pb.EvaluateRequest, groups: Sequence[QueryGroup], done: Evaluation
) -> pb.EvaluateResponse:
    reply = pb.EvaluateResponse(
        table=write_table(
            done.table,
            [group.query_id for group in groups],
            per_query=request.options.per_query,
            verdicts=done.verdicts,
        )
    )
    if done.identity is not None:
        reply.judge.CopyFrom(write_identity(done.identity))
    if request.include_verdicts:
        reply.verdicts.CopyFrom(write_verdicts(done.verdicts))
    return reply
