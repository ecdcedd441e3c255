"""Streamed calls: chunks judged side by side, a bounded number at once; parts measured in order.

A chunk of StreamJudge that can't be judged gets its own error; only a fault of the stream itself
ends it. StreamEvaluate measures all of its chunks at the end. StreamMetrics and StreamTextMetrics
are one request in parts, with one reply.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from sys import getsizeof
from typing import Any

from judged._codec import write_fields
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2, statistics_service_pb2

from judged_server import errors
from judged_server.api.convert.judging import (
    read_spec,
    refuse_evaluation,
    take_groups,
    write_fault,
    write_identity,
    write_verdicts,
)
from judged_server.api.convert.metrics import (
    Measured,
    Rankings,
    read_options,
    refuse_unused,
    write_evaluation,
    write_measured,
)
from judged_server.api.convert.statistics import read_items, read_measurement, write_text_metrics
from judged_server.api.idempotency import IdempotentCalls, check_request_id, digest_of
from judged_server.api.requests import FIELD_BYTES, Admission, Call, Received
from judged_server.api.status import fault_of
from judged_server.domain import QueryGroup, Verdicts, check_unique, need
from judged_server.judges.base import Caller
from judged_server.judges.catalog import JudgeCatalog
from judged_server.llm.budgets import unpriced
from judged_server.metrics.compute import join_tables
from judged_server.metrics.measures.names import parse_metrics
from judged_server.metrics.text.metrics import TextColumn, join_columns, measure_texts
from judged_server.scheduling.concurrency import (
    ITEM_BYTES,
    Begun,
    run_by_size,
    run_computation,
    work_in_window,
)
from judged_server.settings import Limits, Settings
from judged_server.usecases.evaluate import Evaluation, Part, PartedEvaluation
from judged_server.usecases.judge_batch import judge_batch

GROUP_BYTES = 160
"""What is kept of a group to the end of its stream takes beside its id, and each key of slices."""
VALUES_BYTES = 1 << 20
"""About the size of a message of per-query values."""
PART_BYTES = 1000
"""What is kept of a part takes, and of each of its metrics, beside what has a size of its own,"""
VALUE_BYTES = 40
"""and each value of a metric, with its bounds."""

_PLACE = re.compile(
    r"(?<![\w.])(trec\.qrels|trec\.run|(?:gains|judged|embedded)\.rankings|judged\.verdicts|items)"
    r"(\.\w+)?\[(\d+)\]"
)


@dataclass(slots=True)
class Chunks:
    """What a stream of chunks works with, and how far it is."""

    call: Call
    catalog: JudgeCatalog
    admission: Admission
    settings: Settings
    idempotent_calls: IdempotentCalls
    request_id: str = ""
    received: int = 0
    done: int = 0
    chunk_ids: set[int] = field(default_factory=set)

    async def start(self, requests: AsyncIterator[Received]) -> Any:  # noqa: ANN401 - either start
        """Return the start of a stream. Raises InvalidField where its first message is none."""
        first = await anext(requests, None)
        if first is None or first.message.WhichOneof("message") != "start":
            raise errors.InvalidField("message", "the first message of a stream must be a start")
        return first.message.start

    def shared_as(self, start: Any, field: str) -> None:  # noqa: ANN401 - either start
        """Share verdicts with other tries of the stream, where models give them."""
        asks_models = self.catalog.asks_models(start.judge.kind)
        self.request_id = start.request_id if asks_models else ""
        if start.request_id:
            check_request_id(start.request_id, field)

    def chunk_of(self, request: Any) -> Any:  # noqa: ANN401 - a request of either stream
        """Return the chunk of a message after the start. Raises InvalidField for no new chunk."""
        is_chunk = request.WhichOneof("message") == "chunk"
        need(is_chunk, "message", "every message after the start must be a chunk")
        chunk_id = request.chunk.chunk_id
        rule = f"{chunk_id} was sent before on this stream"
        need(chunk_id not in self.chunk_ids, "chunk.chunk_id", rule)
        self.chunk_ids.add(chunk_id)
        # Chunks without a context are legal, so chunks have a bound of their own.
        self.settings.check_contexts(len(self.chunk_ids), "chunk")
        return request.chunk

    async def verdicts(
        self,
        facts: Sequence[object],
        chunk: pb.JudgeChunk | pb.EvaluateChunk,
        caller: Caller,
        work: Callable[[Caller], Coroutine[Any, Any, Verdicts]],
    ) -> Verdicts:
        """Return the verdicts of a chunk; shared where there is a request_id.

        `facts` are all that they depend on beside its groups. A chunk of StreamJudge is the reply
        to it and is kept as it is; an evaluation that goes on asks again for what failed.
        """
        if not self.request_id:
            return await work(caller)
        digest = await run_by_size(chunk.ByteSize(), lambda: digest_of(*facts, *chunk.groups))
        return await self.idempotent_calls.once(
            f"{self.request_id}/{digest.hex()}",
            digest,
            self.call,
            caller,
            lambda: work(caller),
            keeps_faults=isinstance(chunk, pb.JudgeChunk),
        )

    def progress(self) -> pb.StreamProgress:
        """Return how far the stream is."""
        return pb.StreamProgress(contexts_received=self.received, contexts_done=self.done)


async def judge_stream(
    chunks: Chunks, requests: AsyncIterator[Received]
) -> AsyncIterator[pb.StreamJudgeResponse]:
    """Yield the answer to the start, then to each chunk when it is done."""
    start: pb.StreamJudgeStart = await chunks.start(requests)
    settings, call, details = chunks.settings, chunks.call, start.include_details
    spec = read_spec(start.judge, "start.judge")
    judge = chunks.catalog.choose(spec, field="start.judge")
    caller = call.caller(start.asking, "start.asking", wants_details=details)
    if caller.cost_tracker.max_cost is not None and not judge.priced:
        raise unpriced("start.asking.max_cost")
    judge.check_api_keys(caller.cache)
    chunks.shared_as(start, "start.request_id")
    started = pb.StreamJudgeStarted(
        judge=write_identity(judge.identity), max_chunks_in_flight=settings.max_chunks_in_flight
    )
    yield pb.StreamJudgeResponse(started=started)

    async def judged(chunk: pb.JudgeChunk, request: Received) -> tuple[Verdicts, int]:
        field = "chunk.groups"
        with chunks.admission.admit(request.memory, call.sender):
            groups = await take_groups(chunk.groups, request.size, settings, field)
            refuse_evaluation(groups, field)
            contexts = sum(group.n_contexts for group in groups)
            # A stream as a whole keeps the limit of a request.
            settings.check_contexts(chunks.received + contexts, field)
            chunks.received += contexts
            facts = (start.judge, details, start.asking.cache)
            work = partial(judge_batch, judge, groups, field)
            return await chunks.verdicts(facts, chunk, caller, work), contexts

    async def answer(chunk: pb.JudgeChunk, request: Received) -> pb.JudgedChunk:
        found: dict[str, object]
        try:
            verdicts, contexts = await judged(chunk, request)
            found = {"verdicts": write_verdicts(verdicts), "usage": verdicts.columns.usage}
            chunks.done += contexts
        except Exception as error:  # noqa: BLE001 - one chunk's bug must not end the others
            found = {"error": write_fault(fault_of(error)[1])}
        progress = chunks.progress()
        return write_fields(pb.JudgedChunk, chunk_id=chunk.chunk_id, progress=progress, **found)

    async def begun() -> AsyncIterator[Begun[pb.JudgedChunk]]:
        async for request in requests:
            yield Begun(answer(chunks.chunk_of(request.message), request))

    async with aclosing(work_in_window(begun(), settings.max_chunks_in_flight)) as answers:
        async for each in answers:
            yield pb.StreamJudgeResponse(chunk=each)


async def evaluate_stream(
    chunks: Chunks, requests: AsyncIterator[Received]
) -> AsyncIterator[pb.StreamEvaluateResponse]:
    """Yield the answer to each chunk when it is judged, then the metrics of all."""
    start: pb.StreamEvaluateStart = await chunks.start(requests)
    options = read_options(start.options)
    refuse_unused(start.options, "groups")
    details = start.include_details and start.include_verdicts
    caller = chunks.call.caller(start.asking, wants_details=details)
    run = PartedEvaluation(
        chunks.catalog,
        read_spec(start.judge),
        parse_metrics(start.metrics),
        options,
        caller,
        keep_verdicts=start.include_verdicts,
    )
    chunks.shared_as(start, "request_id")
    kept, told_judge = _Kept(chunks, start.options.slice_by), False

    async def answer(chunk: pb.EvaluateChunk, part: Part, contexts: int) -> pb.EvaluatedChunk:
        nonlocal told_judge
        how = (start.include_verdicts, start.include_details, start.asking.cache)
        facts = (start.judge, how, tuple(start.metrics))
        judged = await run.judge(part, partial(chunks.verdicts, facts, chunk, caller), fault_of)
        chunks.done += contexts
        columns: dict[str, object] = {}
        if start.include_verdicts:
            found = {"verdicts": judged.verdicts, "negative_verdicts": judged.on_negatives}
            columns = {name: write_verdicts(each) for name, each in found.items() if each}
        if not told_judge and run.identity is not None:
            columns["judge"] = write_identity(run.identity)
            told_judge = True
        return write_fields(
            pb.EvaluatedChunk,
            chunk_id=chunk.chunk_id,
            negatives=judged.matches,
            usage=judged.usage,
            progress=chunks.progress(),
            **columns,
        )

    async def begun() -> AsyncIterator[Begun[pb.EvaluatedChunk]]:
        async for request in requests:
            chunk = chunks.chunk_of(request.message)
            # The stream is not read until there is room.
            room = chunks.admission.wait_for_room
            admitted = await room(request.memory, chunks.call.sender, chunks.call.kept)
            try:
                groups, contexts = await kept.groups(chunk, request.size)
                part = await run.receive(groups, continues=chunk.continues)
            except BaseException:
                admitted.close()
                raise
            yield Begun(answer(chunk, part, contexts), admitted.close)

    with kept.of_stream, kept.of_group:
        window = chunks.settings.max_chunks_in_flight
        async with aclosing(work_in_window(begun(), window)) as answers:
            async for each in answers:
                yield pb.StreamEvaluateResponse(chunk=each)
        done = await run.measure()
        for values in _values(done) if start.options.per_query else ():
            yield pb.StreamEvaluateResponse(values=values)
        yield pb.StreamEvaluateResponse(result=write_evaluation(done, per_query=False))


class _Kept:
    """Reads the groups of a StreamEvaluate, and counts the memory of what is kept of them."""

    def __init__(self, chunks: Chunks, keys: Sequence[str]) -> None:
        self._chunks = chunks
        self._keys = keys
        self._groups = 0
        self._results_of_last = 0
        self.of_stream = ExitStack()
        """The memory of what is kept until the end, which is named in the values of queries,"""
        self.of_group = ExitStack()
        """and of the results of the last group, which may go on, and repeat them."""

    async def groups(self, chunk: pb.EvaluateChunk, size: int) -> tuple[list[QueryGroup], int]:
        """Return the groups of a chunk of some bytes, and how many contexts they have.

        Raises InvalidField, LimitExceeded, and Overloaded.
        """
        chunks, continues = self._chunks, chunk.continues
        admission, call, settings = chunks.admission, chunks.call, chunks.settings
        first, result = self._groups - continues, self._results_of_last if continues else 0
        place = ("groups", max(0, first), result)
        groups = await take_groups(chunk.groups, size, settings, *place)
        self._groups = first + len(groups)
        self._results_of_last = groups[-1].n_retrieved + (result if len(groups) == 1 else 0)
        contexts = sum(g.n_contexts + g.n_retrieved * len(g.negatives) for g in groups)
        chunks.received += contexts
        # A group without a context is kept too.
        settings.check_evaluated(chunks.received + self._groups, "groups")
        begun = groups[continues:]
        named = sum(len(group.query_id) for group in begun)
        named += sum(len(group.metadata.get(key, "")) for group in begun for key in self._keys)
        of_groups = named + GROUP_BYTES * (1 + len(self._keys)) * len(begun)
        self.of_stream.enter_context(admission.admit(of_groups, call.sender))
        call.kept += of_groups
        if begun:
            self.of_group.close()
        if groups[-1].document_ids:
            of_results = size + FIELD_BYTES * groups[-1].n_retrieved
            self.of_group.enter_context(admission.admit(of_results, call.sender))
        return groups, contexts


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


class RankingParts:
    """The parts of a StreamMetrics."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._asked: object = None
        self._given: tuple[object, ...] = ()
        self._whole = pb.ComputeMetricsRequest()
        self._measured: list[Measured] = []
        self.before: Counter[str] = Counter()

    def add(self, request: pb.ComputeMetricsRequest) -> int:
        """Measure a part; return how many bytes are kept of it."""
        which = request.WhichOneof("relevance")
        asked = pb.ComputeMetricsRequest(metrics=request.metrics, options=request.options)
        if self._asked is None:
            self._asked = asked
            measures, options = parse_metrics(request.metrics), read_options(request.options)
            self._rankings = Rankings(measures, options, self._limits, is_part=True)
            self._whole.options.CopyFrom(request.options)
        if which is not None or request.metrics or request.HasField("options"):
            _check_alike(asked, self._asked)
        self._whole.metadata.extend(request.metadata)
        if request.HasField("human_values"):
            first = not self._whole.HasField("human_values")
            need(first, "human_values", "were sent before on this stream")
            self._whole.human_values.CopyFrom(request.human_values)
        human = request.human_values
        fields = len(human.query_ids) + sum(1 + len(each.metadata) for each in request.metadata)
        size = human.ByteSize() + sum(each.ByteSize() for each in request.metadata)
        kept = PART_BYTES + size + FIELD_BYTES * fields
        if which is None:
            return kept
        done = self._measure(which, request)
        self._measured.append(replace(done, judged=None))  # which only human labels need
        ids = [*done.query_ids, *done.not_measured]
        if (fit := done.table.id_fit) is not None:
            ids += fit.expected_id, fit.retrieved_id
        kept += sum(map(getsizeof, ids)) + ITEM_BYTES * len(ids)
        metrics = len(self._rankings.measures)
        return kept + metrics * (PART_BYTES + VALUE_BYTES * len(done.query_ids))

    def _measure(self, which: str, request: pb.ComputeMetricsRequest) -> Measured:
        scores = request.embedded
        given = (which, request.judged.max_grade, scores.HasField("min_score"), scores.min_score)
        need(which != "values", "values", "are no rankings; send them to ComputeMetrics")
        rule = "correct all rankings at once; send them to ComputeMetrics"
        need(not request.judged.HasField("human_labels"), "judged.human_labels", rule)
        refuse_unused(request.options, which)
        self._given = self._given or given
        _check_alike(given, self._given)
        done = self._rankings.measure(which, request)
        if which == "trec":
            self.before["trec.qrels"] += len(done.query_ids)
            self.before["trec.run"] += len(done.not_measured)
        else:
            self.before[f"{which}.rankings"] += len(done.query_ids)
            self.before["judged.verdicts"] += 0 if done.counts is None else done.counts.total
        return done

    def reply(self) -> pb.StreamMetricsResponse:
        """Return the table of all parts."""
        rule = "set one of judged, trec, gains or embedded in some part"
        need(bool(self._given), "relevance", rule)
        parts, which = self._measured, self._given[0]
        query_ids = [query_id for part in parts for query_id in part.query_ids]
        others = [query_id for part in parts for query_id in part.not_measured]
        if which == "trec":
            self._check_topics(query_ids, others)
        else:
            check_unique(query_ids, f"{which}.rankings[{{}}].query_id")
        table = join_tables([part.table for part in parts], [len(part.query_ids) for part in parts])
        counts = [part.counts for part in parts if part.counts is not None]
        whole = Measured(table, query_ids, reduce(add, counts) if counts else None, others)
        how = self._rankings.measures, self._rankings.options
        return pb.StreamMetricsResponse(table=write_measured(whole, self._whole, *how))

    def _check_topics(self, judged: list[str], retrieved: list[str]) -> None:
        """Refuse no qrels, and a topic that is in several parts."""
        need(bool(judged), "trec.qrels", "must hold at least one topic")
        check_unique(judged, "trec.qrels[{}].query_id")
        check_unique(retrieved, "trec.run[{}].query_id")
        known, place = set(judged), 0
        for part in self._measured:
            own = set(part.query_ids)
            for query_id in part.not_measured:
                rule = "is a topic whose qrels are in another part; send both in one"
                together = query_id not in known or query_id in own
                need(together, f"trec.run[{place}].query_id", rule)
                place += 1


class TextParts:
    """The parts of a StreamTextMetrics."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._asked: object = None
        self._columns: list[tuple[TextColumn, ...]] = []
        self.before: Counter[str] = Counter()

    def add(self, request: statistics_service_pb2.ComputeTextMetricsRequest) -> int:
        """Measure a part; return how many bytes are kept of it."""
        need(not request.values, "values", "are no items; send them to ComputeTextMetrics")
        asked = type(request)()
        asked.CopyFrom(request)
        asked.ClearField("items")
        self._asked = self._asked or asked
        _check_alike(asked, self._asked)
        self._measurement = read_measurement(request)
        metrics = self._measurement.metrics
        items = read_items(request.items, self._limits)
        self._columns.append(measure_texts(items, metrics))
        self.before["items"] += len(items)
        return PART_BYTES + len(metrics) * (PART_BYTES + VALUE_BYTES * len(items))

    def reply(self) -> statistics_service_pb2.StreamTextMetricsResponse:
        """Return the metrics over all items."""
        need(self._asked is not None, "items", "must hold at least one item")
        columns = [join_columns(same) for same in zip(*self._columns, strict=True)]
        metrics = write_text_metrics(columns, self._measurement)
        return statistics_service_pb2.StreamTextMetricsResponse(metrics=metrics)


async def answer_parts(
    parts: RankingParts | TextParts,
    requests: AsyncIterator[Received],
    call: Call,
    admission: Admission,
) -> AsyncIterator[Any]:
    """Yield the one reply to a stream of parts. The next is read when one is measured.

    The paths of faults count entries over all parts.
    """
    with ExitStack() as kept:
        async for request in requests:
            with await admission.wait_for_room(request.memory, call.sender, call.kept):
                try:
                    size = await run_computation(parts.add, request.message.part)
                except errors.InvalidField as error:
                    raise _of_stream(error, parts.before) from None
            kept.enter_context(admission.admit(size, call.sender))
            call.kept += size
        yield await run_computation(parts.reply)


def _check_alike(given: object, first: object) -> None:
    rule = "must have the metrics, options and kind of relevance of the parts before"
    need(given == first, "part", rule)


def _of_stream(error: errors.InvalidField, before: Counter[str]) -> errors.InvalidField:
    """Return an error about a part whose paths count entries from the first part."""

    def moved(text: str) -> str:
        return _PLACE.sub(lambda m: f"{m[1]}{m[2] or ''}[{int(m[3]) + before[m[1]]}]", text)

    error.field, error.rule = moved(error.field), moved(error.rule)
    error.message = f"{error.field}: {error.rule}"
    error.metadata["field"] = error.field
    return error
