"""StreamJudge: chunks in, answers out as they finish, a bounded number in work.

A chunk that can't be judged gets its own error; only a fault of the stream itself ends it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from functools import partial

from judged.v1 import judge_service_pb2 as pb

from judged_server import errors
from judged_server.api.chunk_window import Begun, ChunkIds, work_in_window
from judged_server.api.convert.judging import (
    read_asking,
    read_spec,
    refuse_evaluation,
    take_groups,
    write_identity,
    write_usage,
)
from judged_server.api.convert.verdicts import write_fault, write_verdicts
from judged_server.api.idempotency import (
    IdempotentCalls,
    check_request_id,
    chunk_request,
)
from judged_server.api.limits import RequestLimits
from judged_server.api.listening.admission import Admission
from judged_server.api.listening.receiving import received_memory
from judged_server.api.status import fault_of
from judged_server.domain import QueryGroup
from judged_server.domain.usage import CostTracker
from judged_server.judges.base import Caller, Judge
from judged_server.judges.catalog import JudgeCatalog
from judged_server.llm.budget.budgets import unpriced
from judged_server.scheduling.concurrency import run_by_size
from judged_server.usecases.judge_batch import judge_batch


async def judge_stream(
    catalog: JudgeCatalog,
    admission: Admission,
    limits: RequestLimits,
    window: int,
    requests: AsyncIterator[pb.StreamJudgeRequest],
    deadline: float,
    spends: Callable[[CostTracker], object] = lambda _: None,
    idempotent_calls: IdempotentCalls | None = None,
) -> AsyncIterator[pb.StreamJudgeResponse]:
    """Yield the answer to the start, then to each chunk when it is done.

    The caller waits until `deadline`, on the event loop's clock; its work is batch work.
    `spends` gets the cost tracker of the stream. `idempotent_calls` knows the chunks of streams
    that have a request_id.

    At most `window` chunks are read and not yet answered.
    """
    first = await anext(requests, None)
    if first is None or first.WhichOneof("message") != "start":
        raise errors.InvalidField("message", "the first message of a stream must be a start")
    judge = catalog.choose(read_spec(first.start.judge, "start.judge"), field="start.judge")
    asking = read_asking(first.start.asking, "start.asking")
    if asking.max_cost is not None and not judge.priced:
        raise unpriced("start.asking.max_cost")
    judge.check_api_keys(asking.cache)
    identified = None
    if first.start.request_id and catalog.asks_models(first.start.judge.kind):
        check_request_id(first.start.request_id, "start.request_id")
        identified = idempotent_calls
    started = pb.StreamJudgeStarted(
        judge=write_identity(judge.identity), max_chunks_in_flight=window
    )
    yield pb.StreamJudgeResponse(started=started)
    caller = Caller(
        deadline, first.start.include_details, asking.cache, CostTracker(asking.max_cost)
    )
    spends(caller.cost_tracker)
    stream = _Stream(admission, limits, judge, caller, first.start, identified)
    async with aclosing(work_in_window(requests, window, stream.begin)) as answers:
        async for answer in answers:
            yield pb.StreamJudgeResponse(chunk=answer)


class _Stream:
    """The chunks of one stream."""

    def __init__(
        self,
        admission: Admission,
        limits: RequestLimits,
        judge: Judge,
        caller: Caller,
        start: pb.StreamJudgeStart,
        idempotent_calls: IdempotentCalls | None,
    ) -> None:
        self._start = start
        self._idempotent_calls = idempotent_calls
        self._admission = admission
        self._limits = limits
        self._judge = judge
        self._caller = caller
        self._received = 0
        self._done = 0
        self._ids = ChunkIds(limits)

    async def begin(self, request: pb.StreamJudgeRequest) -> Begun[pb.JudgedChunk]:
        """Return the work on the next message. Raises InvalidField for what is no new chunk."""
        if request.WhichOneof("message") != "chunk":
            raise errors.InvalidField("message", "every message after the start must be a chunk")
        self._ids.add(request.chunk.chunk_id)
        return Begun(self._answer(request.chunk))

    async def _answer(self, chunk: pb.JudgeChunk) -> pb.JudgedChunk:
        answer = pb.JudgedChunk(chunk_id=chunk.chunk_id)
        try:
            size = chunk.ByteSize()
            with self._admission.admit(received_memory()):
                groups = await take_groups(chunk.groups, size, self._limits, "chunk.groups")
                refuse_evaluation(groups, "chunk.groups")
                contexts = sum(group.n_contexts for group in groups)
                # A stream as a whole keeps the limit of a request.
                self._limits.check_contexts(self._received + contexts, "chunk.groups")
                self._received += contexts
                work = partial(self._judged, groups)
                if self._idempotent_calls is None:
                    answer.MergeFrom(await work(self._caller))
                else:
                    request = await run_by_size(size, chunk_request, self._start, chunk)
                    answer.MergeFrom(
                        await self._idempotent_calls.reply(request, None, self._caller, work)
                    )
                self._done += contexts
        except Exception as error:  # noqa: BLE001 - one chunk's bug must not end the others
            answer.error.CopyFrom(write_fault(fault_of(error)[1]))
        answer.progress.contexts_received = self._received
        answer.progress.contexts_done = self._done
        return answer

    async def _judged(self, groups: Sequence[QueryGroup], caller: Caller) -> pb.JudgedChunk:
        verdicts = await judge_batch(self._judge, groups, "chunk.groups", caller)
        answer = pb.JudgedChunk(verdicts=write_verdicts(verdicts))
        if verdicts.columns.usage is not None:
            answer.usage.CopyFrom(write_usage(verdicts.columns.usage))
        return answer
