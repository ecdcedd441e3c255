"""StreamEvaluate: groups in chunks, answers as they are judged, the metrics of all at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, aclosing
from functools import partial

from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2

from judged_server import errors
from judged_server.api.chunk_window import Begun, ChunkIds, work_in_window
from judged_server.api.convert.judging import (
    read_asking,
    read_spec,
    take_groups,
    write_identity,
    write_usage,
)
from judged_server.api.convert.metrics import (
    read_options,
    refuse_unused,
    write_evaluation,
    write_match,
)
from judged_server.api.convert.verdicts import write_verdicts
from judged_server.api.idempotency import IdempotentCalls, check_request_id
from judged_server.api.limits import RequestLimits
from judged_server.api.listening.admission import FIELD_BYTES, Admission
from judged_server.api.listening.receiving import received_memory
from judged_server.api.status import fault_of
from judged_server.domain import QueryGroup
from judged_server.domain.usage import CostTracker
from judged_server.judges.base import Caller
from judged_server.judges.catalog import JudgeCatalog
from judged_server.metrics.measures.names import parse_metrics
from judged_server.usecases.distinct_groups import Part
from judged_server.usecases.evaluate import Evaluation, JudgedPart, PartedEvaluation

GROUP_BYTES = 160
"""What is kept of a group to the end of its stream takes beside its id, and each key of slices."""
VALUES_BYTES = 1 << 20
"""About the size of a message of per-query values."""


async def evaluate_stream(
    catalog: JudgeCatalog,
    admission: Admission,
    limits: RequestLimits,
    window: int,
    requests: AsyncIterator[pb.StreamEvaluateRequest],
    deadline: float,
    spends: Callable[[CostTracker], object],
    idempotent_calls: IdempotentCalls,
) -> AsyncIterator[pb.StreamEvaluateResponse]:
    """Yield the answer to each chunk when it is judged, then the metrics of all.

    The caller waits until `deadline`, on the event loop's clock. `spends` gets the cost tracker of
    the stream. At most `window` chunks are read and not yet answered.
    """
    first = await anext(requests, None)
    if first is None or first.WhichOneof("message") != "start":
        raise errors.InvalidField("message", "the first message of a stream must be a start")
    start = first.start
    asking = read_asking(start.asking)
    details = start.include_details and start.include_verdicts
    caller = Caller(deadline, details, asking.cache, CostTracker(asking.max_cost))
    spends(caller.cost_tracker)
    options = read_options(start.options)
    refuse_unused(start.options, "groups")
    run = PartedEvaluation(
        catalog,
        read_spec(start.judge),
        parse_metrics(start.metrics),
        options,
        caller,
        keep_verdicts=start.include_verdicts,
    )
    identified = None
    if start.request_id:
        check_request_id(start.request_id)
        if catalog.asks_models(start.judge.kind):
            identified = idempotent_calls
    stream = _Stream(admission, limits, start, caller, run, identified)
    with stream.kept, stream.kept_of_group:
        async with aclosing(work_in_window(requests, window, stream.begin)) as answers:
            async for answer in answers:
                yield pb.StreamEvaluateResponse(chunk=answer)
        done = await run.measure()
        if start.options.per_query:
            for values in _values(done):
                yield pb.StreamEvaluateResponse(values=values)
        yield pb.StreamEvaluateResponse(result=write_evaluation(done, per_query=False))


class _Stream:
    """The chunks of one stream."""

    def __init__(
        self,
        admission: Admission,
        limits: RequestLimits,
        start: pb.StreamEvaluateStart,
        caller: Caller,
        run: PartedEvaluation,
        idempotent_calls: IdempotentCalls | None,
    ) -> None:
        self._admission = admission
        self._limits = limits
        self._start = start
        self._caller = caller
        self._run = run
        self._idempotent_calls = idempotent_calls
        self._ids = ChunkIds(limits)
        self._groups = 0
        self._results_of_last = 0
        self._received = 0
        self._done = 0
        self._told_judge = False
        self.kept = ExitStack()
        """The memory of what is kept until the end, which is named in the values of queries,"""
        self.kept_of_group = ExitStack()
        """and of the results of the last group, which may go on, and repeat them."""

    async def begin(self, request: pb.StreamEvaluateRequest) -> Begun[pb.EvaluatedChunk]:
        """Return the work on the next message. Raises InvalidField for what is no new chunk."""
        if request.WhichOneof("message") != "chunk":
            raise errors.InvalidField("message", "every message after the start must be a chunk")
        chunk = request.chunk
        self._ids.add(chunk.chunk_id)
        size = chunk.ByteSize()
        # The stream is not read until there is room.
        admitted = await self._admission.wait_for_room(received_memory())
        try:
            first = self._groups - chunk.continues
            result = self._results_of_last if chunk.continues else 0
            of_stream = ("groups", max(0, first), result)
            groups = await take_groups(chunk.groups, size, self._limits, *of_stream)
            self._groups = first + len(groups)
            begun = result if len(groups) == 1 else 0
            self._results_of_last = begun + groups[-1].n_retrieved
            contexts = sum(g.n_contexts + g.n_retrieved * len(g.negatives) for g in groups)
            self._received += contexts
            # A group without a context is kept too.
            self._limits.check_evaluated(self._received + self._groups, "groups")
            self._keep(groups, size, continues=chunk.continues)
            part = await self._run.receive(groups, continues=chunk.continues)
        except BaseException:
            admitted.close()
            raise
        answer = self._answer(chunk, part, contexts)
        return Begun(answer, admitted.close)

    def _keep(self, groups: Sequence[QueryGroup], size: int, *, continues: bool) -> None:
        """Count what is kept of a chunk of some bytes. Raises Overloaded."""
        keys = self._start.options.slice_by
        named = [
            len(group.query_id) + sum(len(group.metadata.get(key, "")) for key in keys)
            for group in groups[continues:]
        ]
        self.kept.enter_context(
            self._admission.admit(sum(named) + GROUP_BYTES * (1 + len(keys)) * len(named))
        )
        if len(groups) > continues:
            self.kept_of_group.close()
        if groups[-1].document_ids:
            self.kept_of_group.enter_context(
                self._admission.admit(size + FIELD_BYTES * groups[-1].n_retrieved)
            )

    async def _answer(
        self, chunk: pb.EvaluateChunk, part: Part, contexts: int
    ) -> pb.EvaluatedChunk:
        once = None
        if self._idempotent_calls is not None:
            once = partial(self._idempotent_calls.verdicts, self._start, chunk, self._caller)
        judged = await self._run.judge(part, once, fault_of)
        self._done += contexts
        return self._write(chunk.chunk_id, judged)

    def _write(self, chunk_id: int, judged: JudgedPart) -> pb.EvaluatedChunk:
        answer = pb.EvaluatedChunk(
            chunk_id=chunk_id,
            negatives=map(write_match, judged.matches),
            progress=pb.StreamProgress(contexts_received=self._received, contexts_done=self._done),
        )
        if not self._told_judge and self._run.identity is not None:
            answer.judge.CopyFrom(write_identity(self._run.identity))
            self._told_judge = True
        if self._start.include_verdicts and judged.verdicts is not None:
            answer.verdicts.CopyFrom(write_verdicts(judged.verdicts))
            if judged.on_negatives is not None:
                answer.negative_verdicts.CopyFrom(write_verdicts(judged.on_negatives))
        if judged.usage is not None:
            answer.usage.CopyFrom(write_usage(judged.usage))
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
