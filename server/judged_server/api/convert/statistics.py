"""Between the messages of StatisticsService and `statistics`: agreement, calibration, rankings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

import numpy as np
from judged._codec import write_fields
from judged.v1 import metrics_pb2
from judged.v1 import statistics_service_pb2 as pb
from judged.values.agreement import MeasuredAgreement, RatingTable, SystemScores
from judged.values.calibrators import Calibrator, ErrorGuarantee, stages_sha256
from judged.values.intervals import IntervalMethod, IntervalOptions

from judged_server.api.convert.fields import need, read
from judged_server.domain import FloatArray, check_names
from judged_server.statistics.agreement import measure_agreement
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
from judged_server.statistics.calibration.reliability import Platt
from judged_server.statistics.preferences import Comparisons, check_work, rank_systems
from judged_server.statistics.rank_correlation import rank_agreement

SYSTEMS = (2, 50)
RANKING_RESAMPLES = 1_000

Shipped = Callable[[str, str], Platt | None]
"""The calibration that comes with a judge, by its kind and scoring key."""


def read_interval_options(
    message: metrics_pb2.IntervalOptions, field: str = "options.interval"
) -> IntervalOptions:
    """Return the options, the default where a field is unset. Raises InvalidField with the path."""
    options = read(IntervalOptions, message, field)
    in_range = 0.5 <= options.confidence <= 0.9999  # here and below: NaN is in no range
    need(in_range, f"{field}.confidence", "must lie in 0.5 to 0.9999, or be unset")
    in_range = 100 <= options.resamples <= 100_000
    need(in_range, f"{field}.resamples", "must lie in 100 to 100000, or be unset")
    return options


def agreement(request: pb.MeasureAgreementRequest) -> pb.MeasureAgreementResponse:
    """Return the answer to a MeasureAgreement request. Raises InvalidField."""
    of_ratings, of_systems = request.HasField("ratings"), request.HasField("systems")
    need(of_ratings or of_systems, "ratings", "set ratings, systems or both")
    options = read_interval_options(request.interval, "interval")
    ratings = systems = None
    if of_ratings:
        ratings = measure_agreement(read(RatingTable, request.ratings, "ratings"), options)
    if of_systems:
        systems = rank_agreement(read(SystemScores, request.systems, "systems"), options)
    return write_fields(pb.MeasureAgreementResponse, MeasuredAgreement(ratings, systems))


def ranking(request: pb.RankSystemsRequest) -> pb.RankSystemsResponse:
    """Return the reply of a request. Raises InvalidField."""
    data = _read_comparisons(request)
    options = read_interval_options(request.interval, "interval")
    rule = "must be unset or INTERVAL_METHOD_PERCENTILE: strengths are no means"
    need(options.method is IntervalMethod.PERCENTILE, "interval.method", rule)
    if not request.interval.HasField("resamples"):
        options = replace(options, resamples=RANKING_RESAMPLES)
    check_work(data, options, "interval.resamples")
    return write_fields(pb.RankSystemsResponse, rank_systems(data, options))


def _read_comparisons(request: pb.RankSystemsRequest) -> Comparisons:
    names, n = request.systems, len(request.query_ids)
    low, high = SYSTEMS
    need(low <= len(names) <= high, "systems", f"must hold {low} to {high} names, not {len(names)}")
    check_names(names, "names", high, "systems")
    need(n > 0, "query_ids", "must hold at least one comparison")
    for field in ("first", "second", "preference"):
        column = getattr(request, field)
        need(len(column) == n, field, f"has {len(column)} entries for {n} query_ids")
    first, second = np.array(request.first, np.int64), np.array(request.second, np.int64)
    for field, column in (("first", first), ("second", second)):
        _need_all(column < len(names), field, f"must be a place in systems, 0 to {len(names) - 1}")
    _need_all(first != second, "second", "must be another system than the first")
    preference = np.array(request.preference, np.float64)
    _need_all((preference >= 0) & (preference <= 1), "preference", "must be from 0 to 1")
    queries: dict[str, int] = {}
    query = [queries.setdefault(query_id, len(queries)) for query_id in request.query_ids]
    return Comparisons(
        np.array(query, np.int64), first, second, preference, len(queries), list(names)
    )


def _need_all(good: np.ndarray[tuple[int], np.dtype[np.bool_]], field: str, rule: str) -> None:
    if not good.all():
        need(False, f"{field}[{int(good.argmin())}]", rule)


def calibration(request: pb.CalibrateRequest, shipped: Shipped) -> pb.CalibrateResponse:
    """Return the answer to a Calibrate request. Raises InvalidField."""
    judge = request.judge
    rule = "must be that of the judge whose scores these are"
    need(not request.HasField("judge") or judge.scoring_key != "", "judge.scoring_key", rule)
    options = read_calibration_options(request)
    items = ScoredItems.build(request.scores, request.labelled, request.labels, request.clusters)
    inclusion = read_inclusion(request.inclusion_probabilities, len(items.labelled))
    items = replace(items, inclusion=inclusion)
    known = shipped(judge.kind, judge.scoring_key)
    found = calibrate(items, options, known, judge.scoring_key)
    return write_fields(pb.CalibrateResponse, found)


def read_calibration_options(request: pb.CalibrateRequest) -> CalibrationOptions:
    """Return the options of a request, the default where one is unset. Raises InvalidField."""
    interval = read_interval_options(request.interval, "interval")
    options = read(CalibrationOptions, request, interval=interval)
    need(0 <= options.min_score <= 1, "min_score", "must lie in 0 to 1, or be unset")
    rule = "must be above 0 and at most 1, or be unset"
    need(0 < options.precision_floor <= 1, "precision_floor", rule)
    need(2 <= options.folds <= 20, "folds", "must lie in 2 to 20, or be unset")
    _check_bounds(options)
    return options


def _check_bounds(options: CalibrationOptions | FrontierOptions) -> None:
    rule = "must be above 0 and below 0.5, or be unset"
    need(0 < options.max_error < 0.5, "max_error", rule)
    share = options.max_share
    need(share is None or 0 <= share <= 1, "max_share", "must lie in 0 to 1, or be unset")


def read_inclusion(
    probabilities: Sequence[float], n_labelled: int, field: str = ""
) -> FloatArray | None:
    """Return with which probability each label was drawn; None where all had the same.

    Raises InvalidField at `inclusion_probabilities` of the field for another number of them, and
    below it for one that is not above 0 and at most 1.
    """
    name = f"{field}.inclusion_probabilities".lstrip(".")
    if not probabilities:
        return None
    n = len(probabilities)
    need(n == n_labelled, name, f"has {n} entries for {n_labelled} labels")
    values = np.array(probabilities, np.float64)
    _need_all((values > 0) & (values <= 1), name, "must be above 0 and at most 1")
    return values


def calibrate_cascade(
    request: pb.CalibrateCascadeRequest, shipped: Shipped
) -> pb.CalibrateCascadeResponse:
    """Return the answer to a CalibrateCascade request. Raises InvalidField and LimitExceeded."""
    options = read(FrontierOptions, request)
    _check_bounds(options)
    cost = options.max_cost
    need(cost is None or 0 <= cost < inf, "max_cost", "must be a number, 0 or more, or be unset")
    rule = "must be above 0 and below 1, or be unset"
    need(0 < options.confidence < 1, "confidence", rule)
    stages = [
        _read_stage(stage, f"stages[{place}]", shipped)
        for place, stage in enumerate(request.stages)
    ]
    items = StagedItems.build(stages, request.labels, request.clusters, request.lengths)
    found = frontier(items, options)
    keys = [stage.judge.scoring_key for stage in request.stages]
    points = [_write_point(point, keys, options) for point in found.points]
    return write_fields(pb.CalibrateCascadeResponse, found, frontier=points)


def _read_stage(message: pb.ScoredStage, field: str, shipped: Shipped) -> ScoredStage:
    judge = message.judge
    rule = "must be that of the judge whose scores these are"
    need(judge.scoring_key != "", f"{field}.judge.scoring_key", rule)
    scores = np.array(message.scores, np.float64)
    rule = "must be a number; name it in missing if there is none"
    _need_all(~np.isnan(scores), f"{field}.scores", rule)
    flags = np.full(len(scores), PLAIN)
    for listed, flag in (("flagged", FLAGGED), ("missing", MISSING)):
        before = -1
        for place, index in enumerate(getattr(message, listed)):
            rule = f"must be above the entry before it, and below {len(scores)}"
            need(before < index < len(scores), f"{field}.{listed}[{place}]", rule)
            before = index
            flags[index] = flag
    scores[flags == MISSING] = np.nan
    name = judge.kind or f"stage {field}"
    return ScoredStage(name, scores, message.cost, shipped(judge.kind, judge.scoring_key), flags)


def _write_point(
    point: FrontierPoint, keys: Sequence[str], options: FrontierOptions
) -> pb.FrontierPoint:
    made = [
        Calibrator(
            keys[stage.place],
            stage.platt.slope,
            stage.platt.intercept,
            accept=stage.accept,
            reject=stage.reject,
        )
        for stage in point.stages
    ]
    guarantee = ErrorGuarantee(
        options.max_error if point.certified else point.upper,
        options.confidence,
        point.n_settled,
        point.n_wrong,
        point.n_clusters,
        point.labels_counted,
        stages_sha256([(each.scoring_key, each) for each in made]),
        point.data,
        point.labels_needed,
    )
    stages = [
        write_fields(pb.FrontierStage, stage, stage=stage.place, calibrator=each)
        for stage, each in zip(point.stages, made, strict=True)
    ]
    return write_fields(pb.FrontierPoint, point, stages=stages, guarantee=guarantee)
