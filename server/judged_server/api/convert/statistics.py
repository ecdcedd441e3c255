"""Computes the calls of StatisticsService: converts messages for `statistics` and text metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from judged._codec import write_fields
from judged.v1 import metrics_pb2
from judged.v1 import statistics_service_pb2 as pb
from judged.v1.verdicts_pb2 import JudgeIdentity
from judged.values.agreement import MeasuredAgreement, RatingTable, SystemScores
from judged.values.choices import IntervalMethod, IntervalOptions
from judged.values.comparison import CompareOptions
from judged.values.metrics import TextItem

from judged_server.api.columns import VALUES_OF_TEXTS, read_columns, read_values
from judged_server.api.convert.judging import check_texts, check_unset
from judged_server.api.convert.metrics import (
    Rankings,
    chosen,
    read_options,
    read_qrels,
    write_table,
)
from judged_server.api.requests import check, read
from judged_server.domain import FloatArray, check_limit, check_names, need, need_all
from judged_server.judges.equivalence.judge import shipped_calibration
from judged_server.metrics.compute import with_intervals_and_slices
from judged_server.metrics.measures import parse_metrics
from judged_server.metrics.text.metrics import (
    TextColumn,
    TextMetric,
    measure_texts,
    merge_text_values,
    parse_text_metrics,
)
from judged_server.settings import Limits
from judged_server.statistics.agreement import (
    MAX_CATEGORIES,
    MAX_COMPARED,
    MAX_RATERS,
    measure_agreement,
    rank_agreement,
)
from judged_server.statistics.calibration.calibrate import (
    CalibrationOptions,
    ScoredItems,
    calibrate,
    number_clusters,
)
from judged_server.statistics.calibration.cascade import FLAGGED, MISSING, PLAIN
from judged_server.statistics.calibration.frontier import (
    FrontierOptions,
    ScoredStage,
    StagedItems,
    frontier,
)
from judged_server.statistics.calibration.reliability import Platt
from judged_server.statistics.comparison import RunValues, compare
from judged_server.statistics.intervals import check_work, mean_intervals
from judged_server.statistics.preferences import Comparisons, rank_systems
from judged_server.statistics.preferences import check_work as check_ranking

_NOT_COMPARED = dict.fromkeys(
    ("per_query", "slice_by"), "must be left unset: CompareRuns does not use it"
)
MAX_SYSTEMS = 50
RANKING_RESAMPLES = 1_000
MAX_RUNS = 100
MAX_COMPARISONS = 1_000
"""Metrics times later runs: each takes some milliseconds besides the resampling."""


def agreement(request: pb.MeasureAgreementRequest, _: Limits) -> pb.MeasureAgreementResponse:
    """Measure how well raters, or two judges' system scores, agree."""
    of_ratings, of_systems = request.HasField("ratings"), request.HasField("systems")
    need(of_ratings or of_systems, "ratings", "set ratings, systems or both")
    options = _read_percentile(request.interval)
    ratings = systems = None
    if of_ratings:
        ratings = measure_agreement(_read_ratings(request.ratings), options)
    if of_systems:
        scores = read(SystemScores, request.systems, "systems")
        check_names(scores.systems, "systems", MAX_COMPARED, "systems.systems")
        read_columns(request.systems, "systems")
        systems = rank_agreement(scores, options)
    return write_fields(pb.MeasureAgreementResponse, MeasuredAgreement(ratings, systems))


def _read_percentile(message: metrics_pb2.IntervalOptions) -> IntervalOptions:
    """Return the options of intervals of numbers other than means. Raises InvalidField."""
    options = read(IntervalOptions, message, "interval")
    rule = "must be unset or INTERVAL_METHOD_PERCENTILE: the others are for means"
    need(options.method is IntervalMethod.PERCENTILE, "interval.method", rule)
    return options


def _read_ratings(message: pb.RatingTable) -> RatingTable:
    table = read(RatingTable, message, "ratings")
    check_names(table.categories, "categories", MAX_CATEGORIES, "ratings.categories")
    raters = [rater.name for rater in message.raters]
    check_names(raters, "raters", MAX_RATERS, "ratings.raters", ".name")
    k, n = len(table.categories), len(message.raters[0].ratings)
    for place, rater in enumerate(message.raters):
        read_columns(rater, f"ratings.raters[{place}]", categories=k, items=n)
    return table


def ranking(request: pb.RankSystemsRequest, _: Limits) -> pb.RankSystemsResponse:
    """Rank systems by paired comparisons."""
    data = _read_comparisons(request)
    options = _read_percentile(request.interval)
    if not request.interval.HasField("resamples"):
        options = replace(options, resamples=RANKING_RESAMPLES)
    check_ranking(data, options, "interval.resamples")
    return write_fields(pb.RankSystemsResponse, rank_systems(data, options))


def _read_comparisons(request: pb.RankSystemsRequest) -> Comparisons:
    names = list(request.systems)
    check_names(names, "names", MAX_SYSTEMS, "systems")
    columns = read_columns(request)
    first, second = columns["first"].astype(np.int64), columns["second"].astype(np.int64)
    need_all(first != second, "second", "must be another system than the first")
    queries: dict[str, int] = {}
    query = [queries.setdefault(query_id, len(queries)) for query_id in request.query_ids]
    return Comparisons(
        np.array(query, np.int64), first, second, columns["preference"], len(queries), names
    )


def calibration(request: pb.CalibrateRequest, _: Limits) -> pb.CalibrateResponse:
    """Calibrate a judge's scores by human labels."""
    judge = request.judge
    known = _shipped(judge, "judge") if request.HasField("judge") else None
    options = read(CalibrationOptions, request, interval=_read_percentile(request.interval))
    columns = read_columns(request)
    items = ScoredItems(
        columns["scores"],
        columns["labelled"].astype(np.int64),
        np.array(request.labels, np.bool_),
        number_clusters(request.clusters) if request.clusters else None,
        columns["inclusion_probabilities"] if request.inclusion_probabilities else None,
    )
    found = calibrate(items, options, known, judge.scoring_key)
    return write_fields(pb.CalibrateResponse, found)


def _shipped(judge: JudgeIdentity, field: str) -> Platt | None:
    """Return the calibration shipped with a judge, if any. Raises InvalidField without a judge."""
    rule = "must be that of the judge whose scores these are"
    need(judge.scoring_key != "", f"{field}.scoring_key", rule)
    return shipped_calibration(judge.kind, judge.scoring_key)


def calibrate_cascade(
    request: pb.CalibrateCascadeRequest, _: Limits
) -> pb.CalibrateCascadeResponse:
    """Propose a cascade of judges from labels."""
    options = read(FrontierOptions, request)
    read_columns(request)
    n, clusters, lengths = len(request.labels), request.clusters, request.lengths
    items = StagedItems(
        tuple(_read_stage(each, f"stages[{i}]", n) for i, each in enumerate(request.stages)),
        np.array(request.labels, np.bool_),
        number_clusters(clusters) if clusters else np.arange(n),
        np.array(lengths, np.float64) if lengths else None,
    )
    found = frontier(items, options)
    return write_fields(pb.CalibrateCascadeResponse, found, frontier=found.points)


def _read_stage(message: pb.ScoredStage, field: str, n: int) -> ScoredStage:
    check(message, field)
    judge = message.judge
    known = _shipped(judge, f"{field}.judge")
    columns, flags = read_columns(message, field, labels=n), np.full(n, PLAIN)
    for listed, flag in (("flagged", FLAGGED), ("missing", MISSING)):
        flags[columns[listed].astype(np.int64)] = flag
    scores = np.where(flags == MISSING, np.nan, columns["scores"])
    name, key = judge.kind or f"stage {field}", judge.scoring_key
    return ScoredStage(name, scores, message.cost, known, flags, key)


def compare_runs(request: pb.CompareRunsRequest, limits: Limits) -> pb.CompareRunsResponse:
    """Test whether runs differ: each is measured as in ComputeMetrics; qrels are read once."""
    # Runs that bring values may use custom metric names.
    of_values = all(run.HasField("values") for run in request.runs)
    measures = parse_metrics(request.metrics, of_values=of_values)
    check_unset(request.options, _NOT_COMPARED, "options")
    kind = _kind_of(request.runs)
    n = len(measures) * (len(request.runs) - 1)
    check_limit(n, MAX_COMPARISONS, "comparisons (metrics times later runs)", "runs")
    of_documents = kind == "documents"
    if not of_documents:
        rule = "must be left empty: only runs with documents are judged by it"
        check_unset(request, {"qrels": rule, "qrels_columns": rule})
    options = read(CompareOptions, request.comparison, "comparison")
    measuring = read_options(request.options, "trec" if of_documents else kind)
    qrels = read_qrels(request, "") if of_documents else None
    tables, runs = [], []
    for i, run in enumerate(request.runs):
        done = Rankings(measures, measuring, limits, f"runs[{i}].", qrels).measure(kind, run)
        table = with_intervals_and_slices(done.table, measuring)
        tables.append(write_table(table, done.query_ids, done.counts))
        query_ids = [done.query_ids[row] for row in table.rows.tolist()]
        values = np.array([column.values for column in table.columns])
        runs.append(RunValues(run.name, query_ids, values))
    intervals = measuring.interval or IntervalOptions()
    found = compare(runs, options, intervals, [str(measure) for measure in measures])
    return write_fields(
        pb.CompareRunsResponse, tables=tables, comparisons=found, signature=options.signature
    )


def _kind_of(runs: Sequence[pb.ComparedRun]) -> str:
    """Return the kind of relevance that all runs bring.

    Raises InvalidField for too few, too many or mixed runs, and for bad names.
    """
    check_names([run.name for run in runs], "runs", MAX_RUNS, "runs", ".name")
    first = chosen(runs[0], "relevance", "runs[0]")
    for i, run in enumerate(runs):
        kind = chosen(run, "relevance", f"runs[{i}]")
        rule = f"brings {kind}, but runs[0] {first}; all runs must bring the same kind"
        need(kind == first, f"runs[{i}].relevance", rule)
        rule = "must be left unset: CompareRuns corrects no means, use ComputeMetrics"
        check_unset(run.judged, {"human_labels": rule}, f"runs[{i}].judged")
    return first


def _read_values(request: pb.ComputeTextMetricsRequest, n_metrics: int) -> list[FloatArray]:
    read_columns(request, metrics=n_metrics)
    n = len(request.values[0].values)
    return read_values(request.values, "values", VALUES_OF_TEXTS, items=n)


class TextMeasurement(NamedTuple):
    """What a request asks for, except its items."""

    metrics: tuple[TextMetric, ...]
    interval: IntervalOptions | None
    per_item: bool


def text_metrics(
    request: pb.ComputeTextMetricsRequest, limits: Limits
) -> pb.ComputeTextMetricsResponse:
    """Compare texts with references."""
    asked = read_measurement(request)
    if request.values:
        columns = merge_text_values(asked.metrics, _read_values(request, len(asked.metrics)))
    else:
        columns = measure_texts(read_items(request.items, limits), asked.metrics)
    return pb.ComputeTextMetricsResponse(metrics=write_text_metrics(columns, asked))


def read_measurement(request: pb.ComputeTextMetricsRequest) -> TextMeasurement:
    """Return what to measure. Raises InvalidField for names, options, and fields that conflict."""
    metrics, values, items = parse_text_metrics(request.metrics), request.values, request.items
    if items:
        rule = "must be empty when there are items; send one of them"
        check_unset(request, {"values": rule})
    need(bool(values or items), "items", "must hold at least one item")
    interval = None
    if request.HasField("interval"):
        interval = read(IntervalOptions, request.interval, "interval")
    return TextMeasurement(metrics, interval, request.per_item)


def read_items(messages: Sequence[pb.TextItem], limits: Limits) -> list[TextItem]:
    """Return the items of a request. Raises InvalidField and LimitExceeded with the path."""
    limits.check_contexts(sum(len(message.references) for message in messages), "items")
    items = [read(TextItem, message, f"items[{i}]") for i, message in enumerate(messages)]
    for i, item in enumerate(items):
        check_texts(item, limits, f"items[{i}]")
    return items


def write_text_metrics(
    columns: Sequence[TextColumn], asked: TextMeasurement
) -> list[pb.TextMetricResult]:
    """Return the messages of means, with intervals and values per item where requested."""
    if asked.interval is not None:
        check_work(len(columns[0].values), len(columns), asked.interval, "interval", unit="items")
    return [_write_text_column(column, asked) for column in columns]


def _write_text_column(column: TextColumn, asked: TextMeasurement) -> pb.TextMetricResult:
    interval, known = None, column.known
    if asked.interval is not None:
        (interval,) = mean_intervals(known[np.newaxis], asked.interval, "items")
    parts = zip(("values", "precision", "recall"), column.scores.T, strict=False)
    return write_fields(
        pb.TextMetricResult,
        column,
        name=column.metric.name,
        n=len(known),
        interval=interval,
        without_value=len(column.values) - len(known),
        **{name: part.tolist() if asked.per_item else () for name, part in parts},
    )
