"""Between the values of `text_metrics` and the messages, for items that fill several messages too.

The means and intervals of the whole come from the server, out of the values of the parts, so that
they are those of one call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from judged import errors
from judged._codec import write_at, write_fields
from judged._inputs import need_each
from judged._transport.status import rename_paths
from judged.v1 import metrics_pb2
from judged.v1 import statistics_service_pb2 as pb
from judged.values.intervals import IntervalOptions
from judged.values.metrics import TextItem, TextMetricResult, TextMetricTable

PART_BYTES = 8 << 20
PART_REFERENCES = 100_000

_ITEM = re.compile(r"items\[(\d+)\]")
_REFERENCES = re.compile(r"nrefs:(?:\d+|var)")


@dataclass(frozen=True, slots=True)
class TextPart:
    """Some consecutive items as messages; `start` is the place of the first in the whole."""

    start: int
    items: Sequence[pb.TextItem]


def split_items(
    items: Iterable[TextItem], part_bytes: int = PART_BYTES, part_references: int = PART_REFERENCES
) -> list[TextPart]:
    """Return the items in parts that a message holds, at least one. Raises InvalidArgument."""
    parts: list[TextPart] = []
    part: list[pb.TextItem] = []
    start = size = references = 0
    for index, item in enumerate(need_each(items, "items", (TextItem,), "TextItem")):
        message = write_at(f"items[{index}]", pb.TextItem, item)
        more, n = message.ByteSize(), len(message.references)
        if part and (size + more > part_bytes or references + n > part_references):
            parts.append(TextPart(start, part))
            part, start, size, references = [], index, 0, 0
        part.append(message)
        size += more
        references += n
    return [*parts, TextPart(start, part)]


def write_text_metrics(
    metrics: Sequence[str], part: TextPart, *, per_item: bool, interval: IntervalOptions | None
) -> pb.ComputeTextMetricsRequest:
    """Return the request for a part of the items."""
    return write_fields(
        pb.ComputeTextMetricsRequest,
        metrics=metrics,
        items=list(part.items),
        per_item=per_item,
        interval=interval,
    )


def write_text_values(
    metrics: Sequence[str], tables: Sequence[TextMetricTable], interval: IntervalOptions | None
) -> pb.ComputeTextMetricsRequest:
    """Return the request that averages the values of all parts."""
    return write_fields(
        pb.ComputeTextMetricsRequest,
        metrics=metrics,
        values=[metrics_pb2.ValueColumn(values=c.values) for c in _joined(tables)],
        interval=interval,
    )


def merge_text_metrics(
    means: TextMetricTable, tables: Sequence[TextMetricTable], *, per_item: bool
) -> TextMetricTable:
    """Return the table of the whole: the merged means and intervals, the rest from the parts."""
    merged = []
    for mean, joined in zip(means.metrics, _joined(tables), strict=True):
        whole = replace(joined, mean=mean.mean, n=mean.n, interval=mean.interval)
        if not per_item:
            whole = replace(whole, values=[], precision=[], recall=[])
        merged.append(whole)
    return TextMetricTable(merged)


def _joined(tables: Sequence[TextMetricTable]) -> list[TextMetricResult]:
    """Return the metrics of the first table with the values of all."""
    joined = []
    for column, first in enumerate(tables[0].metrics):
        same = [table.metrics[column] for table in tables]
        signature = first.signature
        if any(metric.signature != signature for metric in same):
            # They differ in the number of references only, which varies over the whole then.
            signature = _REFERENCES.sub("nrefs:var", signature)
        joined.append(
            replace(
                first,
                signature=signature,
                values=[value for metric in same for value in metric.values],
                precision=[value for metric in same for value in metric.precision],
                recall=[value for metric in same for value in metric.recall],
                without_value=sum(metric.without_value for metric in same),
                unread=sum(metric.unread for metric in same),
            )
        )
    return joined


def of_whole(error: errors.InvalidArgument, part: TextPart) -> errors.InvalidArgument:
    """Make an error about a part speak of the whole: items[0] of the second part is another."""

    def rename(match: re.Match[str]) -> str:
        return f"items[{part.start + int(match[1])}]"

    return rename_paths(error, _ITEM, rename)
