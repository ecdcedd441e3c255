"""Between the messages of Calibrate and `metrics.calibration`."""

from __future__ import annotations

from judged.v1 import judge_service_pb2 as pb
from judged.v1 import statistics_pb2

from judged_server.api.convert.agreement import put, write_quality
from judged_server.api.convert.correction import write_corrected
from judged_server.api.convert.statistics import read_interval_options
from judged_server.errors import InvalidField
from judged_server.statistics.calibration import (
    CalibrationOptions,
    CascadeBounds,
    ScoredItems,
    Threshold,
    calibrate,
)

FOLDS = (2, 20)


def calibration(request: pb.CalibrateRequest) -> pb.CalibrateResponse:
    """Return the answer to a Calibrate request. Raises InvalidField."""
    options = read_calibration_options(request)
    items = ScoredItems.build(request.scores, request.labelled, request.labels, request.clusters)
    found = calibrate(items, options)
    return pb.CalibrateResponse(
        quality=write_quality(found.quality),
        thresholds=[_write_threshold(threshold) for threshold in found.thresholds],
        prevalence=write_corrected(found.prevalence),
        cascade=_write_cascade(found.cascade),
        signature=found.signature,
    )


def read_calibration_options(request: pb.CalibrateRequest) -> CalibrationOptions:
    """Return the options of a request, the default where one is unset. Raises InvalidField."""
    default = CalibrationOptions()
    min_score = request.min_score if request.HasField("min_score") else default.min_score
    if not 0 <= min_score <= 1:  # NaN is in no range
        raise InvalidField("min_score", "must lie in 0 to 1, or be unset")
    floor = default.precision_floor
    if request.HasField("precision_floor"):
        floor = request.precision_floor
    if not 0 < floor <= 1:
        raise InvalidField("precision_floor", "must be above 0 and at most 1, or be unset")
    folds = request.folds if request.HasField("folds") else default.folds
    if not FOLDS[0] <= folds <= FOLDS[1]:
        raise InvalidField("folds", f"must lie in {FOLDS[0]} to {FOLDS[1]}, or be unset")
    max_error = request.max_error if request.HasField("max_error") else default.max_error
    if not 0 < max_error < 0.5:
        raise InvalidField("max_error", "must be above 0 and below 0.5, or be unset")
    interval = read_interval_options(request.interval, "interval")
    return CalibrationOptions(min_score, interval, floor, folds, max_error)


def _write_threshold(found: Threshold) -> statistics_pb2.Threshold:
    message = statistics_pb2.Threshold(
        criterion=int(found.criterion),  # type: ignore[arg-type]  # ours has the same numbers
        min_score=found.min_score,
        fitted=found.fitted,
    )
    put(message, "cross_validated", found.cross_validated)
    return message


def _write_cascade(found: CascadeBounds) -> statistics_pb2.CascadeBounds:
    return statistics_pb2.CascadeBounds(
        accept=found.accept,
        reject=found.reject,
        escalated=found.escalated,
        max_error=found.max_error,
    )
