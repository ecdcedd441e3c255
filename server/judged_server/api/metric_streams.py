"""StreamMetrics and StreamTextMetrics: a request in parts, each measured as it comes, one reply."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace
from functools import reduce
from operator import add
from sys import getsizeof
from typing import Any, Protocol, TypeVar

from judged.v1 import judge_service_pb2 as pb
from judged.v1 import statistics_service_pb2

from judged_server import errors
from judged_server.api.convert.metrics import (
    Measured,
    measure,
    read_options,
    refuse_unused,
    write_measured,
)
from judged_server.api.convert.text_metrics import (
    read_items,
    read_measurement,
    write_text_metrics,
)
from judged_server.api.requests import FIELD_BYTES, Admission, Call, Received
from judged_server.domain import check_unique
from judged_server.metrics.compute import join_tables
from judged_server.metrics.measures.names import parse_metrics
from judged_server.metrics.text.metrics import TextColumn, join_columns, measure_texts
from judged_server.scheduling.concurrency import ITEM_BYTES, run_computation
from judged_server.settings import Limits

PART_BYTES = 1000
"""What is kept of a part takes, and of each of its metrics, beside what has a size of its own,"""
VALUE_BYTES = 40
"""and each value of a metric, with its bounds."""

_PLACE = re.compile(
    r"(?<![\w.])(trec\.qrels|trec\.run|(?:gains|judged|embedded)\.rankings|judged\.verdicts|items)"
    r"(\.\w+)?\[(\d+)\]"
)

Reply_co = TypeVar("Reply_co", covariant=True)


class Parts(Protocol[Reply_co]):
    """What the parts of one request come to."""

    def add(self, request: Any) -> int:  # noqa: ANN401 - a part of either stream
        """Measure the next part; return how many bytes are kept of it."""
        ...

    def reply(self) -> Reply_co:
        """Return the answer to all parts."""
        ...


async def answer_parts(
    parts: Parts[Reply_co],
    requests: AsyncIterator[Received],
    call: Call,
    admission: Admission,
) -> AsyncIterator[Reply_co]:
    """Yield the one reply to a stream of parts. The next is read when one is measured."""
    with ExitStack() as kept:
        async for request in requests:
            with await admission.wait_for_room(request.memory, call.sender, call.kept):
                size = await run_computation(parts.add, request.message.part)
            kept.enter_context(admission.admit(size, call.sender))
            call.kept += size
        yield await run_computation(parts.reply)


class RankingParts:
    """The parts of a StreamMetrics."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._asked: pb.ComputeMetricsRequest | None = None
        self._input: tuple[object, ...] | None = None
        self._whole = pb.ComputeMetricsRequest()
        self._measured: list[Measured] = []
        self._before: Counter[str] = Counter()

    def add(self, request: pb.ComputeMetricsRequest) -> int:
        """Measure a part. Raises InvalidField, whose paths count entries over all parts."""
        which = request.WhichOneof("relevance")
        asked = pb.ComputeMetricsRequest(metrics=request.metrics, options=request.options)
        if self._asked is None:
            self._asked = asked
            self._measures = parse_metrics(request.metrics)
            self._options = read_options(request.options)
            self._whole.options.CopyFrom(request.options)
        if which is not None or request.metrics or request.HasField("options"):
            _check_alike(asked, self._asked)
        self._whole.metadata.extend(request.metadata)
        if request.HasField("human_values"):
            if self._whole.HasField("human_values"):
                raise errors.InvalidField("human_values", "were sent before on this stream")
            self._whole.human_values.CopyFrom(request.human_values)
        kept = _kept_bytes(request)
        if which is None:
            return kept
        try:
            done = self._measure(which, request)
        except errors.InvalidField as error:
            raise _of_stream(error, self._before) from None
        self._measured.append(replace(done, judged=None))  # which only human labels need
        ids = [*done.query_ids, *done.not_measured]
        if (fit := done.table.id_fit) is not None:
            ids += fit.expected_id, fit.retrieved_id
        kept += sum(map(getsizeof, ids)) + ITEM_BYTES * len(ids)
        return kept + len(self._measures) * (PART_BYTES + VALUE_BYTES * len(done.query_ids))

    def _measure(self, which: str, request: pb.ComputeMetricsRequest) -> Measured:
        scores = request.embedded
        given = (which, request.judged.max_grade, scores.HasField("min_score"), scores.min_score)
        if which == "values":
            raise errors.InvalidField("values", "are no rankings; send them to ComputeMetrics")
        if request.judged.HasField("human_labels"):
            rule = "correct all rankings at once; send them to ComputeMetrics"
            raise errors.InvalidField("judged.human_labels", rule)
        refuse_unused(request.options, which)
        if self._input is None:
            self._input = given
        _check_alike(given, self._input)
        done = measure(request, self._measures, self._options, self._limits, is_part=True)
        if which == "trec":
            self._before["trec.qrels"] += len(done.query_ids)
            self._before["trec.run"] += len(done.not_measured)
        else:
            self._before[f"{which}.rankings"] += len(done.query_ids)
            self._before["judged.verdicts"] += 0 if done.counts is None else done.counts.total
        return done

    def reply(self) -> pb.StreamMetricsResponse:
        """Return the table of all parts."""
        if self._asked is None or self._input is None:
            rule = "set one of judged, trec, gains or embedded in some part"
            raise errors.InvalidField("relevance", rule)
        parts = self._measured
        query_ids = [query_id for part in parts for query_id in part.query_ids]
        others = [query_id for part in parts for query_id in part.not_measured]
        if self._input[0] == "trec":
            self._check_topics(query_ids, others)
        else:
            check_unique(query_ids, f"{self._input[0]}.rankings[{{}}].query_id")
        table = join_tables([part.table for part in parts], [len(part.query_ids) for part in parts])
        counts = [part.counts for part in parts if part.counts is not None]
        whole = Measured(table, query_ids, reduce(add, counts) if counts else None, others)
        written = write_measured(whole, self._whole, self._measures, self._options)
        return pb.StreamMetricsResponse(table=written)

    def _check_topics(self, judged: list[str], retrieved: list[str]) -> None:
        """Refuse no qrels, and a topic that is in several parts."""
        if not judged:
            raise errors.InvalidField("trec.qrels", "must hold at least one topic")
        check_unique(judged, "trec.qrels[{}].query_id")
        check_unique(retrieved, "trec.run[{}].query_id")
        known, place = set(judged), 0
        for part in self._measured:
            own = set(part.query_ids)
            for query_id in part.not_measured:
                if query_id in known and query_id not in own:
                    rule = "is a topic whose qrels are in another part; send both in one"
                    raise errors.InvalidField(f"trec.run[{place}].query_id", rule)
                place += 1


class TextParts:
    """The parts of a StreamTextMetrics."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._asked: statistics_service_pb2.ComputeTextMetricsRequest | None = None
        self._columns: list[tuple[TextColumn, ...]] = []
        self._before: Counter[str] = Counter()

    def add(self, request: statistics_service_pb2.ComputeTextMetricsRequest) -> int:
        """Measure a part. Raises InvalidField, whose paths count items over all parts."""
        if request.values:
            raise errors.InvalidField("values", "are no items; send them to ComputeTextMetrics")
        asked = statistics_service_pb2.ComputeTextMetricsRequest(
            metrics=request.metrics, per_item=request.per_item
        )
        if request.HasField("interval"):
            asked.interval.CopyFrom(request.interval)
        self._asked = self._asked or asked
        _check_alike(asked, self._asked)
        self._measurement = read_measurement(request)
        try:
            items = read_items(request.items, self._limits)
            self._columns.append(measure_texts(items, self._measurement.metrics))
        except errors.InvalidField as error:
            raise _of_stream(error, self._before) from None
        self._before["items"] += len(items)
        metrics = len(self._measurement.metrics)
        return PART_BYTES + metrics * (PART_BYTES + VALUE_BYTES * len(items))

    def reply(self) -> statistics_service_pb2.StreamTextMetricsResponse:
        """Return the metrics over all items."""
        if self._asked is None:
            raise errors.InvalidField("items", "must hold at least one item")
        columns = [join_columns(same) for same in zip(*self._columns, strict=True)]
        metrics = write_text_metrics(columns, self._measurement)
        return statistics_service_pb2.StreamTextMetricsResponse(metrics=metrics)


def _kept_bytes(request: pb.ComputeMetricsRequest) -> int:
    """Return what is kept of a part beside its measures: metadata and human values."""
    metadata, human = request.metadata, request.human_values
    fields = len(human.query_ids) + sum(1 + len(each.metadata) for each in metadata)
    size = human.ByteSize() + sum(each.ByteSize() for each in metadata)
    return PART_BYTES + size + FIELD_BYTES * fields


def _check_alike(given: object, first: object) -> None:
    if given != first:
        rule = "must have the metrics, options and kind of relevance of the parts before"
        raise errors.InvalidField("part", rule)


def _of_stream(error: errors.InvalidField, before: Counter[str]) -> errors.InvalidField:
    """Return an error about a part whose paths count entries from the first part."""

    def moved(text: str) -> str:
        return _PLACE.sub(lambda m: f"{m[1]}{m[2] or ''}[{int(m[3]) + before[m[1]]}]", text)

    error.field, error.rule = moved(error.field), moved(error.rule)
    error.message = f"{error.field}: {error.rule}"
    error.metadata["field"] = error.field
    return error
