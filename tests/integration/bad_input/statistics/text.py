"""Bad requests to ComputeTextMetrics."""

from __future__ import annotations

from judged.v1 import metrics_pb2, statistics_service_pb2

from tests.integration.bad_input.case import LONG, NAN, Case

LETTERS = "a " * (1 << 19)
"""A text of 1 MiB with the most tokens there can be."""


def text(hypothesis: str = "a", references: object = ("a",), **changes: object):
    item = statistics_service_pb2.TextItem(hypothesis=hypothesis, references=references)
    given = {"metrics": ["bleu"], "items": [item], **changes}
    return statistics_service_pb2.ComputeTextMetricsRequest(**given)


def values(*columns: object, metrics: object = ("bleu", "rougeL"), **changes: object):
    return text(
        metrics=metrics,
        items=(),
        values=[metrics_pb2.ValueColumn(values=c) for c in columns],
        **changes,
    )


CASES = [
    Case("metrics", lambda: text(metrics=[])),
    Case("metrics", lambda: text(metrics=["bleu"] * 101)),
    Case("metrics[1]", lambda: text(metrics=["bleu", "rogue"])),
    Case("metrics[0]", lambda: text(metrics=[LONG])),
    Case("items", lambda: text(items=())),
    Case("items", lambda: text("", [""] * 1_000_001)),
    Case(
        "items[0]", lambda: text(LETTERS, [LETTERS, f"b {LETTERS}"[: 1 << 20]], metrics=["rougeL"])
    ),
    Case("interval.confidence", lambda: text(interval=metrics_pb2.IntervalOptions(confidence=NAN))),
    Case(
        "interval.resamples",
        lambda: values(
            [0.0] * 500_000,
            metrics=["bleu"],
            interval=metrics_pb2.IntervalOptions(resamples=100_000),
        ),
    ),
    Case("values", lambda: text(values=[metrics_pb2.ValueColumn(values=[1.0])])),
    Case("values[0].values", lambda: values([], [])),
    Case("values[1].values", lambda: values([1.0], [1.0, 0.0])),
    Case("values[1].values[0]", lambda: values([1.0], [1.5])),
    Case("values[0].values[1]", lambda: values([1, -0.1], [1, 1])),
    Case("items[0].hypothesis", lambda: text(LONG)),
    Case("items[0].references", lambda: text("a", [])),
    Case("items[0].references[1]", lambda: text("a", ["", LONG])),
]

HARMLESS = {
    "ComputeTextMetricsRequest.per_item": "a switch",
}
