"""Between the messages of ComputeTextMetrics and `metrics.text`: items in, columns out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from judged._codec import read_fields, write_fields
from judged.v1 import statistics_service_pb2
from judged.values.intervals import Interval, IntervalOptions
from judged.values.metrics import TextItem

from judged_server import errors
from judged_server.api.convert.fields import need
from judged_server.api.convert.statistics import read_interval_options
from judged_server.metrics.text.metrics import (
    TextColumn,
    TextMetric,
    merge_text_values,
    parse_text_metrics,
)
from judged_server.settings import Limits
from judged_server.statistics.intervals import check_work, mean_intervals


@dataclass(frozen=True, slots=True)
class TextMeasurement:
    """What a request asks for, all but its items."""

    metrics: tuple[TextMetric, ...]
    interval: IntervalOptions | None
    per_item: bool


def read_measurement(request: statistics_service_pb2.ComputeTextMetricsRequest) -> TextMeasurement:
    """Return what to measure. Raises InvalidField for names, options, and what excludes another."""
    metrics = parse_text_metrics(request.metrics)
    if request.values and request.items:
        raise errors.InvalidField("values", "must be empty when there are items; send one of them")
    if not request.values and not request.items:
        raise errors.InvalidField("items", "must hold at least one item")
    interval = None
    if request.HasField("interval"):
        interval = read_interval_options(request.interval, "interval")
        n = len(request.values[0].values) if request.values else len(request.items)
        check_work(n, len(metrics), interval, "interval", unit="items")
    return TextMeasurement(metrics, interval, request.per_item)


def read_items(
    messages: Sequence[statistics_service_pb2.TextItem], limits: Limits, field: str = "items"
) -> list[TextItem]:
    """Return the items of a request. Raises InvalidField and LimitExceeded with the path."""
    limits.check_contexts(sum(len(message.references) for message in messages), field)
    items = []
    for i, message in enumerate(messages):
        item = read_fields(TextItem, message)
        rule = "must hold at least one reference; it may be an empty text"
        need(len(item.references) > 0, f"{field}[{i}].references", rule)
        limits.check_text(item.hypothesis, f"{field}[{i}].hypothesis")
        limits.check_texts(item.references, f"{field}[{i}].references")
        items.append(item)
    return items


def read_values(
    request: statistics_service_pb2.ComputeTextMetricsRequest, metrics: Sequence[TextMetric]
) -> tuple[TextColumn, ...]:
    """Return the columns of earlier values. Raises InvalidField with the path."""
    return merge_text_values(metrics, [column.values for column in request.values])


def write_text_metrics(
    columns: Sequence[TextColumn], asked: TextMeasurement
) -> list[statistics_service_pb2.TextMetricResult]:
    """Return means, with intervals and values where they were asked for."""
    intervals: tuple[Interval | None, ...] = (None,) * len(columns)
    if asked.interval is not None:
        check_work(len(columns[0].values), len(columns), asked.interval, "interval", unit="items")
        known = [column.known for column in columns]
        alike = len({len(values) for values in known}) == 1
        together = [np.stack(known)] if alike else [values[np.newaxis] for values in known]
        intervals = tuple(
            interval
            for values in together
            for interval in mean_intervals(values, asked.interval, "interval", unit="items")
        )
    return [
        _write_column(column, interval, per_item=asked.per_item)
        for column, interval in zip(columns, intervals, strict=True)
    ]


def _write_column(
    column: TextColumn, interval: Interval | None, *, per_item: bool
) -> statistics_service_pb2.TextMetricResult:
    parts = {"values": column.values, "precision": column.precision, "recall": column.recall}
    return write_fields(
        statistics_service_pb2.TextMetricResult,
        column,
        name=column.metric.name,
        n=len(column.known),
        interval=interval,
        without_value=len(column.values) - len(column.known),
        **{
            name: part.tolist() if per_item and part is not None else ()
            for name, part in parts.items()
        },
    )
