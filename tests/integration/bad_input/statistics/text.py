"""Bad requests to ComputeTextMetrics."""

from __future__ import annotations

from judged.v1 import metrics_pb2, statistics_service_pb2

from tests.integration.bad_input.case import LONG, NAN, case

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
    case("ComputeTextMetricsRequest.metrics", "metrics", lambda: text(metrics=[])),
    case("ComputeTextMetricsRequest.metrics", "metrics", lambda: text(metrics=["bleu"] * 101)),
    case(
        "ComputeTextMetricsRequest.metrics", "metrics[1]", lambda: text(metrics=["bleu", "rogue"])
    ),
    case("ComputeTextMetricsRequest.metrics", "metrics[0]", lambda: text(metrics=[LONG])),
    case("ComputeTextMetricsRequest.items", "items", lambda: text(items=())),
    case("ComputeTextMetricsRequest.items", "items", lambda: text("", [""] * 1_000_001)),
    case(
        "ComputeTextMetricsRequest.items",
        "items[0]",
        lambda: text(LETTERS, [LETTERS, f"b {LETTERS}"[: 1 << 20]], metrics=["rougeL"]),
    ),
    case(
        "ComputeTextMetricsRequest.interval",
        "interval.confidence",
        lambda: text(interval=metrics_pb2.IntervalOptions(confidence=NAN)),
    ),
    case(
        "ComputeTextMetricsRequest.interval",
        "interval.resamples",
        lambda: values(
            [0.0] * 500_000,
            metrics=["bleu"],
            interval=metrics_pb2.IntervalOptions(resamples=100_000),
        ),
    ),
    case(
        "ComputeTextMetricsRequest.values",
        "values",
        lambda: text(values=[metrics_pb2.ValueColumn(values=[1.0])]),
    ),
    case("ComputeTextMetricsRequest.values", "values[0].values", lambda: values([], [])),
    case("ComputeTextMetricsRequest.values", "values[1].values", lambda: values([1.0], [1.0, 0.0])),
    case("ComputeTextMetricsRequest.values", "values[1].values[0]", lambda: values([1.0], [1.5])),
    case(
        "ComputeTextMetricsRequest.values", "values[0].values[1]", lambda: values([1, -0.1], [1, 1])
    ),
    case("TextItem.hypothesis", "items[0].hypothesis", lambda: text(LONG)),
    case("TextItem.references", "items[0].references", lambda: text("a", [])),
    case("TextItem.references", "items[0].references[1]", lambda: text("a", ["", LONG])),
]

HARMLESS = {
    "ComputeTextMetricsRequest.per_item": "a switch",
}
