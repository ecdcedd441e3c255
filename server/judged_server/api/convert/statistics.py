"""Between the messages of StatisticsService and `statistics`, and texts that are measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from judged._codec import write_fields
from judged.v1 import statistics_service_pb2 as pb
from judged.values.agreement import MeasuredAgreement, RatingTable, SystemScores
from judged.values.calibrators import Calibrator, ErrorGuarantee, stages_sha256
from judged.values.choices import IntervalMethod, IntervalOptions
from judged.values.comparison import CompareOptions
from judged.values.metrics import TextItem

from judged_server.api.convert.judging import check_texts, read_inclusion
from judged_server.api.convert.metrics import (
    Rankings,
    read_options,
    read_qrels,
    write_table,
)
from judged_server.api.requests import need_within, read
from judged_server.domain import FloatArray, check_names, need, need_all, need_length
from judged_server.errors import LimitExceeded
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
from judged_server.statistics.agreement import measure_agreement, rank_agreement
from judged_server.statistics.calibration.calibrate import (
    CalibrationOptions,
    ScoredItems,
    calibrate,
)
from judged_server.statistics.calibration.cascade import FLAGGED, MISSING, PLAIN
from judged_server.statistics.calibration.frontier import (
    FrontierOptions,
    FrontierPoint,
    ScoredStage,
    StagedItems,
    frontier,
)
from judged_server.statistics.comparison import RunValues, compare
from judged_server.statistics.intervals import check_work, mean_intervals
from judged_server.statistics.preferences import Comparisons, rank_systems
from judged_server.statistics.preferences import check_work as check_ranking

MAX_SYSTEMS = 50
RANKING_RESAMPLES = 1_000
MAX_RUNS = 100
MAX_COMPARISONS = 1_000
"""Metrics times later runs: each takes some milliseconds beside the resampling."""


def agreement(request: pb.MeasureAgreementRequest, _: Limits) -> pb.MeasureAgreementResponse:
    """Tell how far raters, or two judges, agree."""
    of_ratings, of_systems = request.HasField("ratings"), request.HasField("systems")
    need(of_ratings or of_systems, "ratings", "set ratings, systems or both")
    options = read(IntervalOptions, request.interval, "interval")
    ratings = systems = None
    if of_ratings:
        ratings = measure_agreement(read(RatingTable, request.ratings, "ratings"), options)
    if of_systems:
        systems = rank_agreement(read(SystemScores, request.systems, "systems"), options)
    return write_fields(pb.MeasureAgreementResponse, MeasuredAgreement(ratings, systems))


def ranking(request: pb.RankSystemsRequest, _: Limits) -> pb.RankSystemsResponse:
    """Rank systems by paired comparisons."""
    data = _read_comparisons(request)
    options = read(IntervalOptions, request.interval, "interval")
    rule = "must be unset or INTERVAL_METHOD_PERCENTILE: strengths are no means"
    need(options.method is IntervalMethod.PERCENTILE, "interval.method", rule)
    if not request.interval.HasField("resamples"):
        options = replace(options, resamples=RANKING_RESAMPLES)
    check_ranking(data, options, "interval.resamples")
    return write_fields(pb.RankSystemsResponse, rank_systems(data, options))


def _read_comparisons(request: pb.RankSystemsRequest) -> Comparisons:
    names, n = list(request.systems), len(request.query_ids)
    check_names(names, "names", MAX_SYSTEMS, "systems")
    need(n > 0, "query_ids", "must hold at least one comparison")
    places = f"[0, {len(names) - 1}]"
    columns: dict[str, FloatArray] = {}
    for field, bounds in (("first", places), ("second", places), ("preference", "[0, 1]")):
        column = columns[field] = np.array(getattr(request, field), np.float64)
        need_length(column, n, field, "query_ids")
        need_within(column, bounds, field)
    first, second = columns["first"].astype(np.int64), columns["second"].astype(np.int64)
    need_all(first != second, "second", "must be another system than the first")
    queries: dict[str, int] = {}
    query = [queries.setdefault(query_id, len(queries)) for query_id in request.query_ids]
    return Comparisons(
        np.array(query, np.int64), first, second, columns["preference"], len(queries), names
    )


def calibration(request: pb.CalibrateRequest, _: Limits) -> pb.CalibrateResponse:
    """Hold a judge's scores against human labels."""
    judge = request.judge
    rule = "must be that of the judge whose scores these are"
    need(not request.HasField("judge") or judge.scoring_key != "", "judge.scoring_key", rule)
    options = read(CalibrationOptions, request)
    items = ScoredItems.build(request.scores, request.labelled, request.labels, request.clusters)
    inclusion = read_inclusion(request.inclusion_probabilities, len(items.labelled))
    items = replace(items, inclusion=inclusion)
    known = shipped_calibration(judge.kind, judge.scoring_key)
    found = calibrate(items, options, known, judge.scoring_key)
    return write_fields(pb.CalibrateResponse, found)


def calibrate_cascade(
    request: pb.CalibrateCascadeRequest, _: Limits
) -> pb.CalibrateCascadeResponse:
    """Propose a cascade of judges from labels."""
    options = read(FrontierOptions, request)
    stages = [_read_stage(stage, f"stages[{i}]") for i, stage in enumerate(request.stages)]
    items = StagedItems.build(stages, request.labels, request.clusters, request.lengths)
    found = frontier(items, options)
    keys = [stage.judge.scoring_key for stage in request.stages]
    points = [_write_point(point, keys, options) for point in found.points]
    return write_fields(pb.CalibrateCascadeResponse, found, frontier=points)


def _read_stage(message: pb.ScoredStage, field: str) -> ScoredStage:
    judge = message.judge
    rule = "must be that of the judge whose scores these are"
    need(judge.scoring_key != "", f"{field}.judge.scoring_key", rule)
    scores = np.array(message.scores, np.float64)
    rule = "must be a number; name it in missing if there is none"
    need_all(~np.isnan(scores), f"{field}.scores", rule)
    flags = np.full(len(scores), PLAIN)
    rule = f"must be above the entry before it, and below {len(scores)}"
    for listed, flag in (("flagged", FLAGGED), ("missing", MISSING)):
        places = np.array(getattr(message, listed), np.int64)
        good = (np.diff(places, prepend=-1) > 0) & (places < len(scores))
        need_all(good, f"{field}.{listed}", rule)
        flags[places] = flag
    scores[flags == MISSING] = np.nan
    known = shipped_calibration(judge.kind, judge.scoring_key)
    return ScoredStage(judge.kind or f"stage {field}", scores, message.cost, known, flags)


def _write_point(
    point: FrontierPoint, keys: Sequence[str], options: FrontierOptions
) -> pb.FrontierPoint:
    made = []
    for stage in point.stages:
        fitted, key = stage.platt, keys[stage.place]
        calibrator = Calibrator(
            key, fitted.slope, fitted.intercept, accept=stage.accept, reject=stage.reject
        )
        made.append((stage, calibrator))
    guarantee = ErrorGuarantee(
        options.max_error if point.certified else point.upper,
        options.confidence,
        point.n_settled,
        point.n_wrong,
        point.n_clusters,
        point.labels_counted,
        stages_sha256([(each.scoring_key, each) for _, each in made]),
        point.data,
        point.labels_needed,
    )
    stages = [
        write_fields(pb.FrontierStage, stage, stage=stage.place, calibrator=each)
        for stage, each in made
    ]
    return write_fields(pb.FrontierPoint, point, stages=stages, guarantee=guarantee)


def compare_runs(request: pb.CompareRunsRequest, limits: Limits) -> pb.CompareRunsResponse:
    """Test whether runs differ: each is measured as ComputeMetrics would, by qrels read once."""
    kinds = [run.WhichOneof("relevance") for run in request.runs]
    # Runs that bring values may have names of their own.
    measures = parse_metrics(request.metrics, of_values={*kinds} == {"values"})
    rule = "must be left unset: CompareRuns does not use it"
    need(not request.options.per_query, "options.per_query", rule)
    need(not request.options.slice_by, "options.slice_by", rule)
    kind = _kind_of(request.runs, kinds)
    n = len(measures) * (len(kinds) - 1)
    if n > MAX_COMPARISONS:
        raise LimitExceeded("runs", "comparisons (metrics times later runs)", MAX_COMPARISONS, n)
    has_qrels, of_documents = request.HasField("qrels_columns"), kind == "documents"
    rule = "must be left empty: only runs with documents are judged by it"
    need(of_documents or not (request.qrels or has_qrels), "qrels", rule)
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


def _kind_of(runs: Sequence[pb.ComparedRun], kinds: Sequence[str | None]) -> str:
    """Return what all runs bring.

    Raises InvalidField for too few, too many or mixed runs, and for their names.
    """
    check_names([run.name for run in runs], "runs", MAX_RUNS, "runs", ".name")
    for i, kind in enumerate(kinds):
        rule = "set one of judged, documents, gains or values"
        need(kind is not None, f"runs[{i}].relevance", rule)
        rule = f"brings {kind}, but runs[0] {kinds[0]}; all runs must bring the same kind"
        need(kind == kinds[0], f"runs[{i}].relevance", rule)
        rule = "must be left unset: CompareRuns corrects no means, use ComputeMetrics"
        labels = runs[i].judged.HasField("human_labels")
        need(not labels, f"runs[{i}].judged.human_labels", rule)
    return str(kinds[0])


class TextMeasurement(NamedTuple):
    """What a request asks for, all but its items."""

    metrics: tuple[TextMetric, ...]
    interval: IntervalOptions | None
    per_item: bool


def text_metrics(
    request: pb.ComputeTextMetricsRequest, limits: Limits
) -> pb.ComputeTextMetricsResponse:
    """Compare texts with references."""
    asked = read_measurement(request)
    if request.values:
        columns = merge_text_values(asked.metrics, [column.values for column in request.values])
    else:
        columns = measure_texts(read_items(request.items, limits), asked.metrics)
    return pb.ComputeTextMetricsResponse(metrics=write_text_metrics(columns, asked))


def read_measurement(request: pb.ComputeTextMetricsRequest) -> TextMeasurement:
    """Return what to measure. Raises InvalidField for names, options, and what excludes another."""
    metrics, values, items = parse_text_metrics(request.metrics), request.values, request.items
    rule = "must be empty when there are items; send one of them"
    need(not (values and items), "values", rule)
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
    """Return means, with intervals and values where they were asked for."""
    if asked.interval is not None:
        check_work(len(columns[0].values), len(columns), asked.interval, "interval", unit="items")
    return [_write_text_column(column, asked) for column in columns]


def _write_text_column(column: TextColumn, asked: TextMeasurement) -> pb.TextMetricResult:
    interval, known = None, column.known
    if asked.interval is not None:
        (interval,) = mean_intervals(known[np.newaxis], asked.interval, "interval", unit="items")
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
