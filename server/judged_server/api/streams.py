"""Streamed calls: chunks are judged concurrently, a bounded number at once; parts in order.

A chunk of StreamJudge that can't be judged gets its own error; only a fault of the stream itself
ends the stream. StreamEvaluate measures all its chunks at the end. StreamMetrics and
StreamTextMetrics are one request in parts, with one reply.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Sequence,
)
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from sys import getsizeof
from typing import Any, TypeVar

from judged._codec import write_fields
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2, statistics_service_pb2

from judged_server import errors
from judged_server.api.convert.judging import (
    check_unset,
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
    write_evaluation,
    write_measured,
)
from judged_server.api.convert.statistics import read_items, read_measurement, write_text_metrics
from judged_server.api.idempotency import IdempotentCalls, check_request_id
from judged_server.api.requests import (
    FIELD_BYTES,
    Admission,
    Call,
    Received,
    count_fields,
    read,
)
from judged_server.api.status import fault_of
from judged_server.domain import Group, JudgeSpec, Verdicts, check_limit, check_unique, need
from judged_server.judges.base import Caller
from judged_server.judges.catalog import JudgeCatalog
from judged_server.llm.budgets import unpriced
from judged_server.metrics.compute import join_tables
from judged_server.metrics.measures import Measure, parse_metrics
from judged_server.metrics.text.metrics import TextColumn, join_columns, measure_texts
from judged_server.scheduling.concurrency import (
    ITEM_BYTES,
    Begun,
    run_computation,
    work_in_window,
)
from judged_server.settings import Limits, Settings
from judged_server.usecases.evaluate import Evaluation, Part, PartedEvaluation
from judged_server.usecases.judge_batch import judge_batch

Answer = TypeVar("Answer")

GROUP_BYTES = 160
"""Memory kept per group, and per group and slice key, until the stream ends, besides the texts."""
VALUES_AT_ONCE = 1000
"""Queries per message of per-query values: 2 MB at most, with the longest ids and 100 metrics."""
PART_BYTES = 1000
"""Memory kept per part, and per part and metric, besides ids, messages and values."""
VALUE_BYTES = 40
"""Memory kept per value of a metric, with its bounds."""

_PLACE = re.compile(
    r"(?<![\w.])(trec\.qrels|trec\.run|(?:gains|judged|embedded)\.rankings|judged\.verdicts|items)"
    r"(\.\w+)?\[(\d+)\]"
)


@dataclass(slots=True)
class Chunks:
    """The dependencies of a stream of chunks, and its progress as replies report it."""

    call: Call
    catalog: JudgeCatalog
    admission: Admission
    settings: Settings
    idempotent_calls: IdempotentCalls
    request_id: str = ""
    contexts_received: int = 0
    contexts_done: int = 0
    chunk_ids: set[int] = field(default_factory=set)

    def shared_as(self, start: Any, field: str) -> None:  # noqa: ANN401 - either start
        """Share verdicts with retries of the stream under its request_id, if models give them."""
        asks_models = self.catalog.asks_models(start.judge.kind)
        self.request_id = start.request_id if asks_models else ""
        if start.request_id:
            check_request_id(start.request_id, field)

    async def verdicts(
        self,
        facts: Sequence[object],
        caller: Caller,
        work: Callable[[Caller], Coroutine[Any, Any, Verdicts]],
        *,
        keeps_faults: bool = False,
    ) -> Verdicts:
        """Return the verdicts of a chunk, which depend on `facts`; shared under a request_id."""
        if not self.request_id:
            return await work(caller)
        return await self.idempotent_calls.once(
            self.request_id,
            self.call,
            caller,
            facts,
            partial(work, caller),
            is_part=True,
            keeps_faults=keeps_faults,
        )

    def answers(
        self,
        requests: AsyncIterator[Received],
        begin: Callable[[Any, Received], Awaitable[Begun[Answer]]],
    ) -> AsyncGenerator[Answer, None]:
        """Yield the answer to each chunk as it is done; `begin` takes the chunk and its message.

        Raises InvalidField for a message that is no chunk, or repeats a chunk_id.
        """

        async def begun() -> AsyncIterator[Begun[Answer]]:
            async for request in requests:
                chunk = _part(request, "chunk")
                rule = f"{chunk.chunk_id} was sent before on this stream"
                need(chunk.chunk_id not in self.chunk_ids, "chunk.chunk_id", rule)
                self.chunk_ids.add(chunk.chunk_id)
                # Chunks may have no contexts, so their number is limited too.
                self.settings.check_contexts(len(self.chunk_ids), "chunk")
                yield await begin(chunk, request)

        return work_in_window(begun(), self.settings.max_chunks_in_flight)


def _part(request: Received | None, name: str) -> Any:  # noqa: ANN401 - a start or a chunk
    """Return a stream's start or its next chunk. Raises InvalidField for another message."""
    if request is None or not request.message.HasField(name):
        rule = "the first message of a stream must be a start, every other one a chunk"
        raise errors.InvalidField("message", rule)
    return getattr(request.message, name)


async def judge_stream(
    chunks: Chunks, requests: AsyncIterator[Received]
) -> AsyncIterator[pb.StreamJudgeResponse]:
    """Yield the answer to the start, then to each chunk when it is done."""
    start: pb.StreamJudgeStart = _part(await anext(requests, None), "start")
    settings, call, details = chunks.settings, chunks.call, start.include_details
    judge = chunks.catalog.choose(read(JudgeSpec, start.judge, "start.judge"), field="start.judge")
    caller = call.caller(start.asking, "start.asking", wants_details=details)
    if caller.cost_tracker.max_cost is not None and not judge.priced:
        raise unpriced("start.asking.max_cost")
    judge.check_api_keys(caller.cache)
    chunks.shared_as(start, "start.request_id")
    started = pb.StreamJudgeStarted(
        judge=write_identity(judge.identity), max_chunks_in_flight=settings.max_chunks_in_flight
    )
    yield pb.StreamJudgeResponse(started=started)

    async def judged(chunk: pb.JudgeChunk, request: Received) -> dict[str, object]:
        field = "chunk.groups"
        with chunks.admission.admit(request.memory, call.sender):
            groups = await take_groups(chunk.groups, request.size, settings, field)
            refuse_evaluation(chunk.groups, field)
            contexts = sum(group.n_contexts for group in groups)
            # The limit of contexts in a request holds for the stream as a whole.
            settings.check_contexts(chunks.contexts_received + contexts, field)
            chunks.contexts_received += contexts
            facts = (start.judge, details, start.asking.cache, *chunk.groups)
            work = partial(judge_batch, judge, groups, field)
            # The chunk's reply has the faults in it, so they are kept with it.
            verdicts = await chunks.verdicts(facts, caller, work, keeps_faults=True)
        chunks.contexts_done += contexts
        return {"verdicts": write_verdicts(verdicts), "usage": verdicts.columns.usage}

    async def answer(chunk: pb.JudgeChunk, request: Received) -> pb.StreamJudgeResponse:
        try:
            found = await judged(chunk, request)
        except Exception as error:  # noqa: BLE001 - one chunk's bug must not end the others
            found = {"error": write_fault(fault_of(error)[1])}
        done = write_fields(pb.JudgedChunk, chunk_id=chunk.chunk_id, progress=chunks, **found)
        return pb.StreamJudgeResponse(chunk=done)

    async def begin(chunk: pb.JudgeChunk, request: Received) -> Begun[pb.StreamJudgeResponse]:
        return Begun(answer(chunk, request))

    async with aclosing(chunks.answers(requests, begin)) as answers:
        async for each in answers:
            yield each


async def evaluate_stream(
    chunks: Chunks, requests: AsyncIterator[Received]
) -> AsyncIterator[pb.StreamEvaluateResponse]:
    """Yield the answer to each chunk when it is judged, then the metrics of all."""
    start: pb.StreamEvaluateStart = _part(await anext(requests, None), "start")
    options = read_options(start.options, "groups")
    details = start.include_details and start.include_verdicts
    caller = chunks.call.caller(start.asking, wants_details=details)
    run = PartedEvaluation(
        chunks.catalog,
        read(JudgeSpec, start.judge, "judge"),
        parse_metrics(start.metrics),
        options,
        caller,
        keep_verdicts=start.include_verdicts,
    )
    chunks.shared_as(start, "request_id")
    kept, judge_sent = _Kept(chunks, start.options.slice_by), False
    how = (start.include_verdicts, start.include_details, start.asking.cache)

    async def answer(
        chunk: pb.EvaluateChunk, part: Part, contexts: int
    ) -> pb.StreamEvaluateResponse:
        nonlocal judge_sent
        facts = (start.judge, how, tuple(start.metrics), *chunk.groups)
        # Faults are not kept: a retry of the evaluation asks again.
        judged = await run.judge(part, partial(chunks.verdicts, facts, caller), fault_of)
        chunks.contexts_done += contexts
        columns: dict[str, object] = {}
        if start.include_verdicts:
            found = {"verdicts": judged.verdicts, "negative_verdicts": judged.on_negatives}
            columns = {name: write_verdicts(each) for name, each in found.items() if each}
        if not judge_sent and run.identity is not None:
            columns["judge"] = write_identity(run.identity)
            judge_sent = True
        done = write_fields(
            pb.EvaluatedChunk,
            chunk_id=chunk.chunk_id,
            negatives=judged.matches,
            usage=judged.usage,
            progress=chunks,
            **columns,
        )
        return pb.StreamEvaluateResponse(chunk=done)

    async def begin(chunk: pb.EvaluateChunk, request: Received) -> Begun[pb.StreamEvaluateResponse]:
        # The next message is not read until there is room for this one.
        room, call = chunks.admission.wait_for_room, chunks.call
        with await room(request.memory, call.sender, call.kept) as admitted:
            groups, contexts = await kept.groups(chunk, request.size)
            part = await run.receive(groups, continues=chunk.continues)
            return Begun(answer(chunk, part, contexts), admitted.pop_all().close)

    with kept.of_stream, kept.of_group:
        async with aclosing(chunks.answers(requests, begin)) as answers:
            async for each in answers:
                yield each
        done = await run.measure()
        for values in _values(done) if start.options.per_query else ():
            yield pb.StreamEvaluateResponse(values=values)
        yield pb.StreamEvaluateResponse(result=write_evaluation(done))


@dataclass(slots=True)
class _Kept:
    """Reads the groups of a StreamEvaluate, and reserves the memory that is kept of them.

    `of_stream` reserves what is kept until the end: query ids and metadata for slices. `of_group`
    reserves the results of the last group, which the next chunk may continue.
    """

    chunks: Chunks
    keys: Sequence[str]
    n_groups: int = 0
    results_of_last: int = 0
    of_stream: ExitStack = field(default_factory=ExitStack)
    of_group: ExitStack = field(default_factory=ExitStack)
    bytes_of_group: int = 0

    async def groups(self, chunk: pb.EvaluateChunk, size: int) -> tuple[list[Group], int]:
        """Return the groups of a chunk of `size` bytes, and the number of their contexts.

        Raises InvalidField, LimitExceeded, and Overloaded.
        """
        chunks, continues = self.chunks, chunk.continues
        admission, call, settings = chunks.admission, chunks.call, chunks.settings
        first = max(0, self.n_groups - continues)
        result = self.results_of_last if continues else 0
        groups = await take_groups(chunk.groups, size, settings, "groups", first, result)
        self.n_groups += len(groups) - continues
        self.results_of_last = groups[-1].n_retrieved + (result if len(groups) == 1 else 0)
        contexts = sum(g.n_contexts + g.n_retrieved * len(g.negatives) for g in groups)
        chunks.contexts_received += contexts
        # Groups without contexts are kept too, so they count.
        evaluated, most = chunks.contexts_received + self.n_groups, settings.max_evaluated_contexts
        check_limit(evaluated, most, "groups and contexts", "groups")
        begun = groups[continues:]
        named = sum(len(group.query_id) for group in begun)
        named += sum(len(group.metadata.get(key, "")) for group in begun for key in self.keys)
        of_groups = named + GROUP_BYTES * (1 + len(self.keys)) * len(begun)
        self.of_stream.enter_context(admission.admit(of_groups, call.sender))
        call.kept += of_groups
        if begun:
            self.of_group.close()
            call.kept -= self.bytes_of_group
            self.bytes_of_group = 0
        if groups[-1].document_ids:
            of_results = size + FIELD_BYTES * groups[-1].n_retrieved
            self.of_group.enter_context(admission.admit(of_results, call.sender))
            self.bytes_of_group += of_results
            call.kept += of_results
        return groups, contexts


def _values(done: Evaluation) -> Iterator[metrics_pb2.PerQueryValues]:
    """Yield the per-query values in messages of a bounded size."""
    ids = [done.query_ids[row] for row in done.table.rows.tolist()]
    columns = [column.values for column in done.table.columns]
    for begin in range(0, len(ids), VALUES_AT_ONCE):
        some = slice(begin, begin + VALUES_AT_ONCE)
        values = [metrics_pb2.ValueColumn(values=column[some].tolist()) for column in columns]
        yield metrics_pb2.PerQueryValues(query_ids=ids[some], columns=values)


@dataclass
class RankingParts:
    """The parts of a StreamMetrics."""

    limits: Limits
    before: Counter[str] = field(default_factory=Counter)
    _measures: Sequence[Measure] = ()
    _rankings: Rankings | None = None
    _given: tuple[object, ...] = ()
    _whole: pb.ComputeMetricsRequest = field(default_factory=pb.ComputeMetricsRequest)
    _measured: list[Measured] = field(default_factory=list)

    def add(self, request: pb.ComputeMetricsRequest) -> int:
        """Measure a part; return how many bytes of memory are kept of it."""
        which, whole = request.WhichOneof("relevance"), self._whole
        if not self._measures:
            self._measures = parse_metrics(request.metrics)
            whole.metrics.extend(request.metrics)
            whole.options.CopyFrom(request.options)
        elif which is not None or request.metrics or request.HasField("options"):
            _check_alike(request.metrics, whole.metrics)
            _check_alike(request.options, whole.options)
        more = pb.ComputeMetricsRequest(metadata=request.metadata)
        if request.HasField("human_values"):
            first = not whole.HasField("human_values")
            need(first, "human_values", "were sent before on this stream")
            more.human_values.CopyFrom(request.human_values)
        whole.MergeFrom(more)
        raw = more.SerializeToString()
        kept = PART_BYTES + len(raw) + FIELD_BYTES * count_fields(raw, more.DESCRIPTOR)
        if which is None:
            return kept
        done = self._measure(which, request)
        self._measured.append(replace(done, judged=None))  # needed only with human labels
        ids = [*done.query_ids, *done.not_measured]
        kept += sum(map(getsizeof, ids)) + ITEM_BYTES * len(ids)
        return kept + len(whole.metrics) * (PART_BYTES + VALUE_BYTES * len(done.query_ids))

    def _measure(self, which: str, request: pb.ComputeMetricsRequest) -> Measured:
        scores = request.embedded
        given = (which, request.judged.max_grade, scores.HasField("min_score"), scores.min_score)
        check_unset(request, {"values": "are no rankings; send them to ComputeMetrics"})
        rule = "correct all rankings at once; send them to ComputeMetrics"
        check_unset(request.judged, {"human_labels": rule}, "judged")
        options = read_options(request.options, which)
        self._given = self._given or given
        _check_alike(given, self._given)
        self._rankings = Rankings(self._measures, options, self.limits, is_part=True)
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
        if self._rankings is None:
            raise errors.InvalidField("relevance", rule)
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
        return pb.StreamMetricsResponse(table=write_measured(whole, self._whole, self._rankings))

    def _check_topics(self, judged: list[str], retrieved: list[str]) -> None:
        """Raise InvalidField without qrels, and for a topic in several parts."""
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


@dataclass
class TextParts:
    """The parts of a StreamTextMetrics."""

    limits: Limits
    before: Counter[str] = field(default_factory=Counter)
    _asked: object = None
    _columns: list[tuple[TextColumn, ...]] = field(default_factory=list)

    def add(self, request: statistics_service_pb2.ComputeTextMetricsRequest) -> int:
        """Measure a part; return how many bytes of memory are kept of it."""
        check_unset(request, {"values": "are no items; send them to ComputeTextMetrics"})
        self._measurement = read_measurement(request)
        metrics, items = self._measurement.metrics, read_items(request.items, self.limits)
        request.ClearField("items")
        self._asked = self._asked or request
        _check_alike(request, self._asked)
        self._columns.append(measure_texts(items, metrics))
        self.before["items"] += len(items)
        return PART_BYTES + len(metrics) * (PART_BYTES + VALUE_BYTES * len(items))

    def reply(self) -> statistics_service_pb2.StreamTextMetricsResponse:
        """Return the metrics over all items."""
        need(self._asked is not None, "items", "must hold at least one item")
        columns = [join_columns(same) for same in zip(*self._columns, strict=True)]
        metrics = write_text_metrics(columns, self._measurement)
        return statistics_service_pb2.StreamTextMetricsResponse(metrics=metrics)


Parts = RankingParts | TextParts


async def answer_parts(
    parts: Parts,
    requests: AsyncIterator[Received],
    call: Call,
    admission: Admission,
) -> AsyncIterator[Any]:
    """Yield the one reply to a stream of parts. The next is read once one is measured.

    The paths in errors count entries over all parts.
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
    """Return an error of a part with its paths counted from the first part."""

    def moved(text: str) -> str:
        return _PLACE.sub(lambda m: f"{m[1]}{m[2] or ''}[{int(m[3]) + before[m[1]]}]", text)

    error.field, error.rule = moved(error.field), moved(error.rule)
    error.message = f"{error.field}: {error.rule}"
    error.metadata["field"] = error.field
    return error
