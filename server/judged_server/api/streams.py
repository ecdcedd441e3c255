"""StreamJudge and StreamEvaluate: chunks in, answers out as they finish, a bounded number in work.

A chunk of StreamJudge that can't be judged gets its own error; only a fault of the stream itself
ends it. StreamEvaluate measures all of its chunks at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from judged._codec import write_fields
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2, verdicts_pb2

from judged_server import errors
from judged_server.api.convert.judging import (
    read_asking,
    read_spec,
    refuse_evaluation,
    take_groups,
    write_identity,
)
from judged_server.api.convert.metrics import (
    read_options,
    refuse_unused,
    write_evaluation,
    write_match,
)
from judged_server.api.convert.verdicts import write_fault, write_verdicts
from judged_server.api.idempotency import (
    IdempotentCalls,
    check_request_id,
    digest_of,
)
from judged_server.api.requests import FIELD_BYTES, Admission, Call, Received
from judged_server.api.status import fault_of
from judged_server.domain import QueryGroup, Verdicts
from judged_server.judges.base import Caller, Judge
from judged_server.judges.catalog import JudgeCatalog
from judged_server.llm.budget.budgets import unpriced
from judged_server.metrics.measures.names import parse_metrics
from judged_server.scheduling.concurrency import run_by_size
from judged_server.settings import Settings
from judged_server.usecases.distinct_groups import Part
from judged_server.usecases.evaluate import Evaluation, JudgedPart, PartedEvaluation
from judged_server.usecases.judge_batch import judge_batch

GROUP_BYTES = 160
"""What is kept of a group to the end of its stream takes beside its id, and each key of slices."""
VALUES_BYTES = 1 << 20
"""About the size of a message of per-query values."""

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(slots=True)
class Parts:
    """What a stream works with, and how far it is."""

    call: Call
    catalog: JudgeCatalog
    admission: Admission
    settings: Settings
    idempotent_calls: IdempotentCalls
    received: int = 0
    done: int = 0
    chunk_ids: set[int] = field(default_factory=set)

    def chunk_of(self, request: Any) -> Any:  # noqa: ANN401 - a request of either stream
        """Return the chunk of a message after the start. Raises InvalidField for no new chunk."""
        if request.WhichOneof("message") != "chunk":
            raise errors.InvalidField("message", "every message after the start must be a chunk")
        chunk_id = request.chunk.chunk_id
        if chunk_id in self.chunk_ids:
            rule = f"{chunk_id} was sent before on this stream"
            raise errors.InvalidField("chunk.chunk_id", rule)
        self.chunk_ids.add(chunk_id)
        # Chunks without a context are legal, so chunks have a bound of their own.
        self.settings.check_contexts(len(self.chunk_ids), "chunk")
        return request.chunk

    async def verdicts(
        self,
        request_id: str,
        facts: Sequence[object],
        chunk: pb.JudgeChunk | pb.EvaluateChunk,
        caller: Caller,
        work: Callable[[Caller], Coroutine[Any, Any, Verdicts]],
    ) -> Verdicts:
        """Return the verdicts of a chunk; shared where there is a request_id.

        `facts` are all that they depend on beside its groups. A chunk of StreamJudge is the reply
        to it and is kept as it is; an evaluation that goes on asks again for what failed.
        """
        if not request_id:
            return await work(caller)
        digest = await run_by_size(chunk.ByteSize(), lambda: digest_of(*facts, *chunk.groups))
        return await self.idempotent_calls.part(
            request_id,
            digest,
            self.call,
            caller,
            lambda: work(caller),
            keeps_faults=isinstance(chunk, pb.JudgeChunk),
        )

    def progress(self) -> pb.StreamProgress:
        """Return how far the stream is."""
        return pb.StreamProgress(contexts_received=self.received, contexts_done=self.done)


async def _start_of(requests: AsyncIterator[Received]) -> Any:  # noqa: ANN401 - either start
    """Return the start of a stream. Raises InvalidField where its first message is none."""
    first = await anext(requests, None)
    if first is None or first.message.WhichOneof("message") != "start":
        raise errors.InvalidField("message", "the first message of a stream must be a start")
    return first.message.start


async def judge_stream(
    parts: Parts, requests: AsyncIterator[Received]
) -> AsyncIterator[pb.StreamJudgeResponse]:
    """Yield the answer to the start, then to each chunk when it is done."""
    start: pb.StreamJudgeStart = await _start_of(requests)
    judge = parts.catalog.choose(read_spec(start.judge, "start.judge"), field="start.judge")
    asking = read_asking(start.asking, "start.asking")
    if asking.max_cost is not None and not judge.priced:
        raise unpriced("start.asking.max_cost")
    judge.check_api_keys(asking.cache)
    request_id = start.request_id if parts.catalog.asks_models(start.judge.kind) else ""
    if request_id:
        check_request_id(request_id, "start.request_id")
    window = parts.settings.max_chunks_in_flight
    started = pb.StreamJudgeStarted(
        judge=write_identity(judge.identity), max_chunks_in_flight=window
    )
    yield pb.StreamJudgeResponse(started=started)
    caller = parts.call.caller(asking, wants_details=start.include_details)
    parts.call.cost_tracker = caller.cost_tracker
    facts = (start.judge, start.include_details, start.asking.cache)

    async def begin(request: Received) -> Begun[pb.JudgedChunk]:
        chunk = parts.chunk_of(request.message)
        share = partial(parts.verdicts, request_id, facts, chunk, caller)
        return Begun(_judged_chunk(parts, judge, chunk, request, share))

    async with aclosing(work_in_window(requests, window, begin)) as answers:
        async for answer in answers:
            yield pb.StreamJudgeResponse(chunk=answer)


async def _judged_chunk(
    parts: Parts,
    judge: Judge,
    chunk: pb.JudgeChunk,
    request: Received,
    share: Callable[..., Awaitable[Verdicts]],
) -> pb.JudgedChunk:
    answer = pb.JudgedChunk(chunk_id=chunk.chunk_id)
    try:
        with parts.admission.admit(request.memory, parts.call.sender):
            groups = await take_groups(chunk.groups, request.size, parts.settings, "chunk.groups")
            refuse_evaluation(groups, "chunk.groups")
            contexts = sum(group.n_contexts for group in groups)
            # A stream as a whole keeps the limit of a request.
            parts.settings.check_contexts(parts.received + contexts, "chunk.groups")
            parts.received += contexts

            async def work(caller: Caller) -> Verdicts:
                return await judge_batch(judge, groups, "chunk.groups", caller)

            verdicts = await share(work)
            answer.verdicts.CopyFrom(write_verdicts(verdicts))
            if verdicts.columns.usage is not None:
                answer.usage.CopyFrom(write_fields(verdicts_pb2.Usage, verdicts.columns.usage))
            parts.done += contexts
    except Exception as error:  # noqa: BLE001 - one chunk's bug must not end the others
        answer.error.CopyFrom(write_fault(fault_of(error)[1]))
    answer.progress.CopyFrom(parts.progress())
    return answer


async def evaluate_stream(
    parts: Parts, requests: AsyncIterator[Received]
) -> AsyncIterator[pb.StreamEvaluateResponse]:
    """Yield the answer to each chunk when it is judged, then the metrics of all."""
    start: pb.StreamEvaluateStart = await _start_of(requests)
    details = start.include_details and start.include_verdicts
    caller = parts.call.caller(read_asking(start.asking), wants_details=details)
    parts.call.cost_tracker = caller.cost_tracker
    options = read_options(start.options)
    refuse_unused(start.options, "groups")
    run = PartedEvaluation(
        parts.catalog,
        read_spec(start.judge),
        parse_metrics(start.metrics),
        options,
        caller,
        keep_verdicts=start.include_verdicts,
    )
    if start.request_id:
        check_request_id(start.request_id)
    stream = _EvaluateStream(parts, start, caller, run)
    window = parts.settings.max_chunks_in_flight
    with stream.kept, stream.kept_of_group:
        async with aclosing(work_in_window(requests, window, stream.begin)) as answers:
            async for answer in answers:
                yield pb.StreamEvaluateResponse(chunk=answer)
        done = await run.measure()
        if start.options.per_query:
            for values in _values(done):
                yield pb.StreamEvaluateResponse(values=values)
        yield pb.StreamEvaluateResponse(result=write_evaluation(done, per_query=False))


class _EvaluateStream:
    """The chunks of one StreamEvaluate."""

    def __init__(
        self, parts: Parts, start: pb.StreamEvaluateStart, caller: Caller, run: PartedEvaluation
    ) -> None:
        self._parts = parts
        self._start = start
        self._caller = caller
        self._run = run
        asks_models = parts.catalog.asks_models(start.judge.kind)
        self._request_id = start.request_id if asks_models else ""
        self._groups = 0
        self._results_of_last = 0
        self._told_judge = False
        self.kept = ExitStack()
        """The memory of what is kept until the end, which is named in the values of queries,"""
        self.kept_of_group = ExitStack()
        """and of the results of the last group, which may go on, and repeat them."""

    async def begin(self, request: Received) -> Begun[pb.EvaluatedChunk]:
        """Return the work on the next message. Raises InvalidField for what is no new chunk."""
        parts, chunk = self._parts, self._parts.chunk_of(request.message)
        # The stream is not read until there is room.
        call = parts.call
        admitted = await parts.admission.wait_for_room(request.memory, call.sender, call.kept)
        try:
            first = self._groups - chunk.continues
            result = self._results_of_last if chunk.continues else 0
            of_stream = ("groups", max(0, first), result)
            groups = await take_groups(chunk.groups, request.size, parts.settings, *of_stream)
            self._groups = first + len(groups)
            begun = result if len(groups) == 1 else 0
            self._results_of_last = begun + groups[-1].n_retrieved
            contexts = sum(g.n_contexts + g.n_retrieved * len(g.negatives) for g in groups)
            parts.received += contexts
            # A group without a context is kept too.
            parts.settings.check_evaluated(parts.received + self._groups, "groups")
            self._keep(groups, request.size, continues=chunk.continues)
            part = await self._run.receive(groups, continues=chunk.continues)
        except BaseException:
            admitted.close()
            raise
        return Begun(self._answer(chunk, part, contexts), admitted.close)

    def _keep(self, groups: Sequence[QueryGroup], size: int, *, continues: bool) -> None:
        """Count what is kept of a chunk of some bytes. Raises Overloaded."""
        admission, sender = self._parts.admission, self._parts.call.sender
        keys = self._start.options.slice_by
        named = [
            len(group.query_id) + sum(len(group.metadata.get(key, "")) for key in keys)
            for group in groups[continues:]
        ]
        of_groups = sum(named) + GROUP_BYTES * (1 + len(keys)) * len(named)
        self.kept.enter_context(admission.admit(of_groups, sender))
        self._parts.call.kept += of_groups
        if len(groups) > continues:
            self.kept_of_group.close()
        if groups[-1].document_ids:
            of_results = size + FIELD_BYTES * groups[-1].n_retrieved
            self.kept_of_group.enter_context(admission.admit(of_results, sender))

    async def _answer(
        self, chunk: pb.EvaluateChunk, part: Part, contexts: int
    ) -> pb.EvaluatedChunk:
        start = self._start
        kept = (start.include_verdicts, start.include_details, start.asking.cache)
        facts = (start.judge, kept, tuple(start.metrics))
        once = partial(self._parts.verdicts, self._request_id, facts, chunk, self._caller)
        judged = await self._run.judge(part, once, fault_of)
        self._parts.done += contexts
        return self._write(chunk.chunk_id, judged)

    def _write(self, chunk_id: int, judged: JudgedPart) -> pb.EvaluatedChunk:
        answer = pb.EvaluatedChunk(
            chunk_id=chunk_id,
            negatives=map(write_match, judged.matches),
            progress=self._parts.progress(),
        )
        if not self._told_judge and self._run.identity is not None:
            answer.judge.CopyFrom(write_identity(self._run.identity))
            self._told_judge = True
        if self._start.include_verdicts and judged.verdicts is not None:
            answer.verdicts.CopyFrom(write_verdicts(judged.verdicts))
            if judged.on_negatives is not None:
                answer.negative_verdicts.CopyFrom(write_verdicts(judged.on_negatives))
        if judged.usage is not None:
            answer.usage.CopyFrom(write_fields(verdicts_pb2.Usage, judged.usage))
        return answer


def _values(done: Evaluation) -> Sequence[metrics_pb2.PerQueryValues]:
    """Return the per-query values in messages of a bounded size."""
    ids = [done.query_ids[row] for row in done.table.rows.tolist()]
    columns = [column.values for column in done.table.columns]
    longest = max(map(len, ids), default=0)
    at_once = max(1, VALUES_BYTES // (longest + 4 + 8 * len(columns)))
    return [
        metrics_pb2.PerQueryValues(
            query_ids=ids[begin : begin + at_once],
            columns=[
                metrics_pb2.ValueColumn(values=values[begin : begin + at_once].tolist())
                for values in columns
            ],
        )
        for begin in range(0, len(ids), at_once)
    ]


@dataclass(frozen=True, slots=True)
class Begun(Generic[Answer]):
    """Work on a chunk, and what to do once it has ended.

    `ended` is called once however the work ends: cancelled before its first step too, when nothing
    of the coroutine runs, not even a `finally`.
    """

    work: Coroutine[Any, Any, Answer]
    ended: Callable[[], None] = lambda: None


async def work_in_window(
    requests: AsyncIterator[Request],
    window: int,
    begin: Callable[[Request], Awaitable[Begun[Answer]]],
) -> AsyncGenerator[Answer, None]:
    """Yield what the work on each request returns, as it finishes.

    `begin` takes the requests one after the other and returns the work, which then runs beside
    others. At most `window` requests are read and not yet answered: reading stops until one answer
    has been taken, so neither a fast sender nor a slow reader makes the server hold more than that.
    A failure ends all work and is raised.
    """
    slots = asyncio.Semaphore(window)
    answers: asyncio.Queue[Answer | None] = asyncio.Queue(window + 1)

    async def work_on(begun: Begun[Answer]) -> None:
        answers.put_nowait(await begun.work)

    async def read() -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    await slots.acquire()
                    request = await anext(requests, None)
                    if request is None:
                        break
                    begun = await begin(request)
                    task = tasks.create_task(work_on(begun))
                    task.add_done_callback(partial(_end, begun))
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        except asyncio.CancelledError as cancelled:
            # The frame of TaskGroup keeps it (CPython 3.11), and it kept that frame and its tasks.
            cancelled.__traceback__ = None
            raise
        finally:
            # The queue has a place for this beside one for each slot, so it never blocks.
            answers.put_nowait(None)

    reader = asyncio.create_task(read())
    try:
        while (answer := await answers.get()) is not None:
            yield answer
            slots.release()
        await reader
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


def _end(begun: Begun[Any], _: asyncio.Task[None]) -> None:
    begun.work.close()  # it may never have started
    begun.ended()
