"""Bad options of ComputeMetrics, and those that would change nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2

from tests.integration.bad_input.case import NAN, Case
from tests.integration.bad_input.statistics.metrics import compute, gain, judged, trec, values


def interval(**options: object) -> pb.ComputeMetricsRequest:
    return trec(interval=metrics_pb2.IntervalOptions(**options))


def many_values(n: int, **options: object) -> pb.ComputeMetricsRequest:
    ids = [str(i) for i in range(n)]
    request = values(ids, [0.5] * n)
    request.options.CopyFrom(metrics_pb2.MetricOptions(**options))
    for i in ids:
        request.metadata.add(query_id=i, metadata={"id": i})
    return request


def gains_with(options: metrics_pb2.MetricOptions) -> pb.ComputeMetricsRequest:
    return compute(options, gains=metrics_pb2.GainRankings(rankings=[gain()]))


def values_with(options: metrics_pb2.MetricOptions) -> pb.ComputeMetricsRequest:
    request = values(("1",), [0.5])
    request.options.CopyFrom(options)
    return request


def trec_with(options: metrics_pb2.MetricOptions) -> pb.ComputeMetricsRequest:
    request = trec()
    request.options.CopyFrom(options)
    return request


QRELS = {"qrels": metrics_pb2.QrelsOptions(complete=True)}
VERDICTS = {"verdicts": metrics_pb2.VerdictOptions(matching=1)}
GAINS = {"gains": metrics_pb2.GainOptions(no_gold=1)}
STRICT = {"verdicts": metrics_pb2.VerdictOptions(strict_duplicates=True)}
_USELESS: list[
    tuple[Callable[[metrics_pb2.MetricOptions], pb.ComputeMetricsRequest], str, dict[str, Any]]
] = [
    (judged, "qrels", QRELS),
    (judged, "gains", GAINS),
    (judged, "verdicts.strict_duplicates", STRICT),
    (gains_with, "qrels", QRELS),
    (gains_with, "verdicts", VERDICTS),
    (values_with, "verdicts", VERDICTS),
    (values_with, "qrels", QRELS),
    (values_with, "gains", GAINS),
    (trec_with, "verdicts", VERDICTS),
    (trec_with, "gains", GAINS),
]
"""Options that would change nothing, with what they are given for."""

CASES = [
    *[
        Case(
            f"options.{name}",
            partial(ask, metrics_pb2.MetricOptions(**options)),
        )
        for ask, name, options in _USELESS
    ],
    Case(
        "options.gains.no_gold",
        lambda: gains_with(metrics_pb2.MetricOptions(gains=metrics_pb2.GainOptions(no_gold=7))),
    ),
    *[
        Case(
            f"options.{name}",
            partial(ask, metrics_pb2.MetricOptions(**options)),
        )
        for ask, name, options in (
            (trec_with, "verdicts", VERDICTS),
            (judged, "qrels", QRELS),
            (judged, "gains", GAINS),
        )
    ],
    Case("options.qrels.relevance_level", lambda: trec(relevance_level=0)),
    Case("options.qrels.max_documents", lambda: trec(max_documents=0)),
    Case("options.interval.method", lambda: interval(method=0)),
    Case("options.interval.method", lambda: interval(method=9)),
    Case("options.interval.confidence", lambda: interval(confidence=NAN)),
    Case("options.interval.resamples", lambda: interval(resamples=99)),
    Case(
        "options.interval.resamples",
        lambda: many_values(20_001, interval=metrics_pb2.IntervalOptions(resamples=100_000)),
    ),
    Case("options.slice_by[1]", lambda: trec(slice_by=["a", "a"])),
    Case("options.slice_by[0]", lambda: trec(slice_by=[""])),
    Case("options.slice_by[16]", lambda: trec(slice_by=[str(i) for i in range(17)])),
    Case("options.slice_by[1]", lambda: many_values(1_000, slice_by=["none", "id"])),
    Case("options.qrels.unjudged", lambda: trec(unjudged=0)),
]

HARMLESS = {"IntervalOptions.seed": "every seed is one"}
