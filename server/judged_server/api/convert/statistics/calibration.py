"""Between the messages of Calibrate and `statistics.calibration`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from judged.v1 import groups_pb2, statistics_service_pb2

from judged_server.api.convert.fields import optional, read_choice, write
from judged_server.api.convert.statistics.agreement import write_quality
from judged_server.api.convert.statistics.correction import read_inclusion, write_corrected
from judged_server.api.convert.statistics.intervals import read_interval_options, write_known
from judged_server.errors import InvalidField
from judged_server.statistics.calibration.calibrate import (
    Calibration,
    CalibrationOptions,
    ScoredItems,
    calibrate,
)
from judged_server.statistics.calibration.reliability import Platt
from judged_server.statistics.calibration.thresholds import Criterion

FOLDS = (2, 20)


def calibration(
    request: statistics_service_pb2.CalibrateRequest, shipped: Callable[[str, str], Platt | None]
) -> statistics_service_pb2.CalibrateResponse:
    """Return the answer to a Calibrate request. Raises InvalidField.

    `shipped` gives the calibration that comes with a judge, by its kind and scoring key.
    """
    judge = request.judge
    if request.HasField("judge") and not judge.scoring_key:
        raise InvalidField("judge.scoring_key", "must be that of the judge whose scores these are")
    options = read_calibration_options(request)
    items = ScoredItems.build(request.scores, request.labelled, request.labels, request.clusters)
    inclusion = read_inclusion(request.inclusion_probabilities, len(items.labelled))
    items = replace(items, inclusion=inclusion)
    found = calibrate(items, options, shipped(judge.kind, judge.scoring_key))
    return statistics_service_pb2.CalibrateResponse(
        quality=write_quality(found.quality),
        thresholds=[
            write(
                statistics_service_pb2.Threshold,
                threshold,
                cross_validated=write_known(threshold.cross_validated),
            )
            for threshold in found.thresholds
        ],
        prevalence=write_corrected(found.prevalence),
        agreement=write_corrected(found.agreement),
        cascade=write(statistics_service_pb2.CascadeBounds, found.cascade),
        signature=found.signature,
        reliability=_write_reliability(found, judge.scoring_key),
    )


def read_calibration_options(
    request: statistics_service_pb2.CalibrateRequest,
) -> CalibrationOptions:
    """Return the options of a request, the default where one is unset. Raises InvalidField."""
    default = CalibrationOptions()
    min_score = request.min_score if request.HasField("min_score") else default.min_score
    if not 0 <= min_score <= 1:  # NaN is in no range
        raise InvalidField("min_score", "must lie in 0 to 1, or be unset")
    given = request.HasField("precision_floor")
    floor = request.precision_floor if given else default.precision_floor
    if not 0 < floor <= 1:
        raise InvalidField("precision_floor", "must be above 0 and at most 1, or be unset")
    folds = request.folds if request.HasField("folds") else default.folds
    if not FOLDS[0] <= folds <= FOLDS[1]:
        raise InvalidField("folds", f"must lie in {FOLDS[0]} to {FOLDS[1]}, or be unset")
    max_error = request.max_error if request.HasField("max_error") else default.max_error
    if not 0 < max_error < 0.5:
        raise InvalidField("max_error", "must be above 0 and below 0.5, or be unset")
    interval = read_interval_options(request.interval, "interval")
    max_share = optional(request, "max_share")
    if max_share is not None and not 0 <= max_share <= 1:
        raise InvalidField("max_share", "must lie in 0 to 1, or be unset")
    criterion = None
    if request.HasField("criterion"):
        criterion = read_choice(request, "criterion", Criterion.KAPPA, named="ThresholdCriterion")
    return CalibrationOptions(min_score, interval, floor, folds, max_error, criterion, max_share)


def _write_reliability(found: Calibration, scoring_key: str) -> statistics_service_pb2.Reliability:
    believed = found.reliability
    return write(
        statistics_service_pb2.Reliability,
        believed,
        calibrator=groups_pb2.Calibrator(
            scoring_key=scoring_key,
            slope=believed.platt.slope,
            intercept=believed.platt.intercept,
            min_score=found.min_score,
            accept=found.accept,
            reject=found.reject,
            not_fitted=believed.not_fitted,
        ),
        bins=[write(statistics_service_pb2.ReliabilityBin, each) for each in believed.bins],
        brier=write_known(believed.brier),
        calibration_error=write_known(believed.calibration_error),
        cohen_kappa=write_known(believed.cohen_kappa),
        accuracy=write_known(believed.accuracy),
    )
