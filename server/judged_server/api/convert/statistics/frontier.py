"""Between the messages of CalibrateCascade and `statistics.calibration.frontier`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from judged.v1 import groups_pb2, statistics_service_pb2

from judged_server.api.convert.statistics.calibration import read_guarantee
from judged_server.api.convert.statistics.guarantee import write_error_guarantee
from judged_server.domain import Calibrator, ErrorGuarantee, stages_sha256
from judged_server.errors import InvalidField
from judged_server.statistics.calibration import (
    FrontierOptions,
    FrontierPoint,
    FrontierStage,
    Platt,
    ScoredStage,
    StagedItems,
    frontier,
)


def calibrate_cascade(
    request: statistics_service_pb2.CalibrateCascadeRequest,
    shipped: Callable[[str, str], Platt | None],
) -> statistics_service_pb2.CalibrateCascadeResponse:
    """Return the answer to a CalibrateCascade request. Raises InvalidField and LimitExceeded.

    `shipped` gives the calibration that comes with a judge, by its kind and scoring key.
    """
    options = _read_options(request)
    stages = [
        _read_stage(stage, f"stages[{place}]", shipped)
        for place, stage in enumerate(request.stages)
    ]
    items = StagedItems.build(stages, request.labels, request.clusters)
    found = frontier(items, options)
    keys = [stage.judge.scoring_key for stage in request.stages]
    return statistics_service_pb2.CalibrateCascadeResponse(
        frontier=[_write_point(point, keys, options) for point in found.points],
        proposed=found.proposed,
        uncertified=found.uncertified,
        n_proposing=found.n_proposing,
        n_certifying=found.n_certifying,
        n_clusters=found.n_clusters,
        signature=found.signature,
        warnings=found.warnings,
    )


def _read_options(request: statistics_service_pb2.CalibrateCascadeRequest) -> FrontierOptions:
    default = FrontierOptions()
    max_error = request.max_error if request.HasField("max_error") else default.max_error
    if not 0 < max_error < 0.5:  # NaN is in no range
        raise InvalidField("max_error", "must be above 0 and below 0.5, or be unset")
    max_share = request.max_share if request.HasField("max_share") else None
    if max_share is not None and not 0 <= max_share <= 1:
        raise InvalidField("max_share", "must lie in 0 to 1, or be unset")
    max_cost = request.max_cost if request.HasField("max_cost") else None
    if max_cost is not None and not 0 <= max_cost < float("inf"):
        raise InvalidField("max_cost", "must be a number, 0 or more, or be unset")
    confidence = request.confidence if request.HasField("confidence") else default.confidence
    if not 0 < confidence < 1:
        raise InvalidField("confidence", "must be above 0 and below 1, or be unset")
    return FrontierOptions(
        max_error,
        max_share,
        max_cost,
        request.may_abstain,
        confidence,
        read_guarantee(request),
        request.seed if request.HasField("seed") else default.seed,
    )


def _read_stage(
    message: statistics_service_pb2.ScoredStage,
    field: str,
    shipped: Callable[[str, str], Platt | None],
) -> ScoredStage:
    judge = message.judge
    if not judge.scoring_key:
        raise InvalidField(
            f"{field}.judge.scoring_key", "must be that of the judge whose scores these are"
        )
    scores = np.array(message.scores, np.float64)
    wrong = np.flatnonzero(np.isnan(scores))
    if len(wrong):
        raise InvalidField(
            f"{field}.scores[{wrong[0]}]", "must be a number; name it in missing if there is none"
        )
    before = -1
    for place, index in enumerate(message.missing):
        if not before < index < len(scores):
            raise InvalidField(
                f"{field}.missing[{place}]",
                f"must be above the entry before it, and below {len(scores)}",
            )
        before = index
        scores[index] = np.nan
    name = judge.kind or f"stage {field}"
    return ScoredStage(name, scores, message.cost, shipped(judge.kind, judge.scoring_key))


def _write_point(
    point: FrontierPoint, keys: Sequence[str], options: FrontierOptions
) -> statistics_service_pb2.FrontierPoint:
    calibrators = [_calibrator(stage, keys[stage.place]) for stage in point.stages]
    of = stages_sha256([(made.scoring_key, made) for made in calibrators])
    promised = ErrorGuarantee(
        options.max_error if point.certified else point.upper,
        options.confidence,
        point.n_settled,
        point.n_wrong,
        point.n_clusters,
        point.labels_counted,
        options.guarantee.name.lower(),
        of,
    )
    stages = [
        statistics_service_pb2.FrontierStage(
            stage=stage.place,
            calibrator=groups_pb2.Calibrator(
                scoring_key=made.scoring_key,
                slope=made.slope,
                intercept=made.intercept,
                accept=made.accept,
                reject=made.reject,
            ),
            fitted=stage.fitted,
            share=stage.share,
        )
        for stage, made in zip(point.stages, calibrators, strict=True)
    ]
    return statistics_service_pb2.FrontierPoint(
        stages=stages,
        cost=point.cost,
        settled=point.settled,
        error=point.error,
        guarantee=write_error_guarantee(promised),
        certified=point.certified,
    )


def _calibrator(stage: FrontierStage, scoring_key: str) -> Calibrator:
    platt = stage.platt
    return Calibrator(scoring_key, platt.slope, platt.intercept, None, stage.accept, stage.reject)
