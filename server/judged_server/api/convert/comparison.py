"""Between the messages of CompareRuns and `statistics.comparison`.

A run is measured as a ComputeMetrics request of its own, so that it means here what it means there;
the paths of faults found on the way are translated back to the runs. Qrels are read once for all
runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from judged._codec import write_fields
from judged.v1 import judge_service_pb2, metrics_pb2
from judged.v1 import statistics_service_pb2 as pb
from judged.values.comparison import CompareOptions

from judged_server.api.convert.fields import need, read
from judged_server.api.convert.metrics import compute, read_options
from judged_server.api.convert.statistics import read_interval_options
from judged_server.api.convert.topics import read_qrels
from judged_server.domain import check_names
from judged_server.errors import InvalidField, LimitExceeded
from judged_server.metrics.input.trec import Qrels
from judged_server.metrics.measures.names import Measure, parse_metrics
from judged_server.statistics.comparison import (
    RunValues,
    compare,
)

MAX_RUNS = 100
MAX_COMPARISONS = 1_000
"""Metrics times later runs: each takes some milliseconds beside the resampling."""
PERMUTATIONS = (100, 1_000_000)
MAX_MOVED = 1_000


def compared_measures(
    request: pb.CompareRunsRequest,
) -> tuple[Measure, ...]:
    """Return the measures of a request; of runs that bring values they may have names of their own.

    Raises as `parse_metrics` does.
    """
    of_values = all(run.WhichOneof("relevance") == "values" for run in request.runs)
    return parse_metrics(request.metrics, of_values=bool(request.runs) and of_values)


def check_comparison(request: pb.CompareRunsRequest, measures: Sequence[Measure]) -> None:
    """Raise InvalidField for what is wrong with a request before its runs are looked into."""
    for name in ("per_query", "slice_by"):
        if getattr(request.options, name):
            raise InvalidField(f"options.{name}", "must be left unset: CompareRuns does not use it")
    _check_runs(request.runs)
    n = len(measures) * (len(request.runs) - 1)
    if n > MAX_COMPARISONS:
        raise LimitExceeded("runs", "comparisons (metrics times later runs)", MAX_COMPARISONS, n)
    judged = request.qrels or request.HasField("qrels_columns")
    if judged and request.runs[0].WhichOneof("relevance") != "documents":
        raise InvalidField("qrels", "must be left empty: only runs with documents are judged by it")


def _check_runs(runs: Sequence[pb.ComparedRun]) -> None:
    """Raise InvalidField for too few, too many or mixed runs, and for their names."""
    if len(runs) < 2:
        raise InvalidField("runs", f"has {len(runs)} entries; a comparison needs at least 2")
    check_names([run.name for run in runs], "runs", MAX_RUNS, "runs", ".name")
    first_kind = runs[0].WhichOneof("relevance")
    for i, run in enumerate(runs):
        kind = run.WhichOneof("relevance")
        if kind is None:
            rule = "set one of judged, documents, gains or values"
            raise InvalidField(f"runs[{i}].relevance", rule)
        if kind != first_kind:
            rule = f"brings {kind}, but runs[0] {first_kind}; all runs must bring the same kind"
            raise InvalidField(f"runs[{i}].relevance", rule)
        if kind == "judged" and run.judged.HasField("human_labels"):
            rule = "must be left unset: CompareRuns corrects no means, use ComputeMetrics"
            raise InvalidField(f"runs[{i}].judged.human_labels", rule)


def read_compare_options(message: pb.CompareOptions, field: str = "comparison") -> CompareOptions:
    """Return the options, the default where a field is unset. Raises InvalidField with the path."""
    options = read(CompareOptions, message, field)
    low, high = PERMUTATIONS
    rule = f"must lie in {low} to {high}, or be unset"
    need(low <= options.permutations <= high, f"{field}.permutations", rule)
    need(options.max_moved <= MAX_MOVED, f"{field}.max_moved", f"must be at most {MAX_MOVED}")
    above = options.difference is None or 0 < options.difference < math.inf
    need(above, f"{field}.difference", "must be finite and above 0, or be unset")
    return options


def compare_runs(
    request: pb.CompareRunsRequest, measures: Sequence[Measure]
) -> pb.CompareRunsResponse:
    """Return the reply of a request. Raises InvalidField and LimitExceeded with paths."""
    check_comparison(request, measures)
    options = read_compare_options(request.comparison)
    intervals = read_interval_options(request.options.interval)
    of_documents = request.runs[0].WhichOneof("relevance") == "documents"
    qrels = read_qrels(request, "") if of_documents else None
    tables = [_measure(request, i, measures, qrels) for i in range(len(request.runs))]
    found = compare(
        [
            RunValues(
                run.name,
                list(table.query_ids),
                np.array([metric.per_query for metric in table.metrics], np.float64),
            )
            for run, table in zip(request.runs, tables, strict=True)
        ],
        options,
        intervals,
        [str(measure) for measure in measures],
    )
    for table in tables:
        table.ClearField("query_ids")
        for metric in table.metrics:
            metric.ClearField("per_query")
    return write_fields(
        pb.CompareRunsResponse, tables=tables, comparisons=found, signature=options.signature
    )


def _measure(
    request: pb.CompareRunsRequest,
    i: int,
    measures: Sequence[Measure],
    qrels: Qrels | None,
) -> metrics_pb2.MetricTable:
    """Return the table of run i with its per-query values; documents are judged by `qrels`."""
    run = request.runs[i]
    alone = judge_service_pb2.ComputeMetricsRequest(
        metrics=request.metrics, options=request.options
    )
    alone.options.per_query = True
    kind = run.WhichOneof("relevance")
    if kind == "documents":
        alone.trec.run.MergeFrom(run.documents.topics)
        if run.documents.HasField("topic_columns"):
            alone.trec.run_columns.CopyFrom(run.documents.topic_columns)
    elif kind is not None:
        getattr(alone, kind).CopyFrom(getattr(run, kind))
    options = read_options(alone.options)
    return compute(alone, measures, options, qrels=qrels, prefix=f"runs[{i}].")
