"""Between the messages of Calibrate and `metrics.calibration`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace

from judged.v1 import groups_pb2, statistics_service_pb2

from judged_server.api.convert.statistics.agreement import put, write_quality
from judged_server.api.convert.statistics.correction import read_inclusion, write_corrected
from judged_server.api.convert.statistics.intervals import read_interval_options
from judged_server.errors import InvalidField
from judged_server.statistics.calibration import (
    Calibration,
    CalibrationOptions,
    CascadeBounds,
    Criterion,
    Guarantee,
    Platt,
    ScoredItems,
    Threshold,
    calibrate,
)

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
    items = ScoredItems.build(
        request.scores, request.labelled, request.labels, request.clusters, request.strata
    )
    inclusion = read_inclusion(request.inclusion_probabilities, len(items.labelled))
    items = replace(items, inclusion=inclusion)
    found = calibrate(items, options, shipped(judge.kind, judge.scoring_key))
    return statistics_service_pb2.CalibrateResponse(
        quality=write_quality(found.quality),
        thresholds=[_write_threshold(threshold) for threshold in found.thresholds],
        prevalence=write_corrected(found.prevalence),
        agreement=write_corrected(found.agreement),
        cascade=_write_cascade(found.cascade),
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
    max_share = request.max_share if request.HasField("max_share") else None
    if max_share is not None and not 0 <= max_share <= 1:
        raise InvalidField("max_share", "must lie in 0 to 1, or be unset")
    return CalibrationOptions(
        *(min_score, interval, floor, folds, max_error, _criterion(request), max_share),
        read_guarantee(request),
    )


def _criterion(request: statistics_service_pb2.CalibrateRequest) -> Criterion:
    if not request.HasField("criterion"):
        return CalibrationOptions().criterion
    if request.criterion not in {int(known) for known in Criterion}:
        raise InvalidField("criterion", "must be one of ThresholdCriterion, or be unset")
    return Criterion(request.criterion)


def read_guarantee(
    request: statistics_service_pb2.CalibrateRequest
    | statistics_service_pb2.CalibrateCascadeRequest,
) -> Guarantee:
    """Return how a request allows for clusters. Raises InvalidField."""
    if not request.HasField("guarantee"):
        return CalibrationOptions().guarantee
    if request.guarantee not in {int(known) for known in Guarantee}:
        raise InvalidField("guarantee", "must be one of CascadeGuarantee, or be unset")
    return Guarantee(request.guarantee)


def _write_reliability(found: Calibration, scoring_key: str) -> statistics_service_pb2.Reliability:
    believed = found.reliability
    message = statistics_service_pb2.Reliability(
        calibrator=groups_pb2.Calibrator(
            scoring_key=scoring_key,
            slope=believed.platt.slope,
            intercept=believed.platt.intercept,
            min_score=found.min_score,
            accept=found.accept,
            reject=found.reject,
        ),
        fitted=believed.fitted,
        n_labels=believed.n_labels,
        n_clusters=believed.n_clusters,
        bins=[statistics_service_pb2.ReliabilityBin(**asdict(each)) for each in believed.bins],
        warnings=believed.warnings,
    )
    put(message, "brier", believed.brier)
    put(message, "calibration_error", believed.calibration_error)
    put(message, "cohen_kappa", believed.cohen_kappa)
    return message


def _write_threshold(found: Threshold) -> statistics_service_pb2.Threshold:
    message = statistics_service_pb2.Threshold(
        criterion=int(found.criterion),  # type: ignore[arg-type]  # ours has the same numbers
        min_score=found.min_score,
        fitted=found.fitted,
    )
    put(message, "cross_validated", found.cross_validated)
    return message


def _write_cascade(found: CascadeBounds) -> statistics_service_pb2.CascadeBounds:
    return statistics_service_pb2.CascadeBounds(
        accept=found.accept,
        reject=found.reject,
        escalated=found.escalated,
        max_error=found.max_error,
        labels_counted=found.labels_counted,
        design_effect=found.design_effect,
        uncertified_accept=found.uncertified_accept,
        uncertified_reject=found.uncertified_reject,
    )
