"""Between the messages of CalibrateCascade and `statistics.calibration.frontier`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from judged.v1 import groups_pb2, statistics_service_pb2

from judged_server.api.convert.fields import optional, write
from judged_server.domain import Calibrator, stages_sha256
from judged_server.errors import InvalidField
from judged_server.statistics.calibration.cascade import FLAGGED, MISSING, PLAIN
from judged_server.statistics.calibration.frontier import (
    FrontierOptions,
    FrontierPoint,
    ScoredStage,
    StagedItems,
    frontier,
)
from judged_server.statistics.calibration.reliability import Platt


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
    items = StagedItems.build(stages, request.labels, request.clusters, request.lengths)
    found = frontier(items, options)
    keys = [stage.judge.scoring_key for stage in request.stages]
    return write(
        statistics_service_pb2.CalibrateCascadeResponse,
        found,
        frontier=[_write_point(point, keys, options) for point in found.points],
    )


def _read_options(request: statistics_service_pb2.CalibrateCascadeRequest) -> FrontierOptions:
    default = FrontierOptions()
    max_error = request.max_error if request.HasField("max_error") else default.max_error
    if not 0 < max_error < 0.5:  # NaN is in no range
        raise InvalidField("max_error", "must be above 0 and below 0.5, or be unset")
    max_share = optional(request, "max_share")
    if max_share is not None and not 0 <= max_share <= 1:
        raise InvalidField("max_share", "must lie in 0 to 1, or be unset")
    max_cost = optional(request, "max_cost")
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
    flags = np.full(len(scores), PLAIN)
    for listed, flag in (("flagged", FLAGGED), ("missing", MISSING)):
        before = -1
        for place, index in enumerate(getattr(message, listed)):
            if not before < index < len(scores):
                raise InvalidField(
                    f"{field}.{listed}[{place}]",
                    f"must be above the entry before it, and below {len(scores)}",
                )
            before = index
            flags[index] = flag
    scores[flags == MISSING] = np.nan
    name = judge.kind or f"stage {field}"
    return ScoredStage(name, scores, message.cost, shipped(judge.kind, judge.scoring_key), flags)


def _write_point(
    point: FrontierPoint, keys: Sequence[str], options: FrontierOptions
) -> statistics_service_pb2.FrontierPoint:
    calibrators = [
        Calibrator(
            keys[stage.place],
            stage.platt.slope,
            stage.platt.intercept,
            None,
            stage.accept,
            stage.reject,
        )
        for stage in point.stages
    ]
    guarantee = write(
        groups_pb2.ErrorGuarantee,
        point,
        max_error=options.max_error if point.certified else point.upper,
        confidence=options.confidence,
        n_labels=point.n_settled,
        stages_sha256=stages_sha256([(made.scoring_key, made) for made in calibrators]),
        data=[write(groups_pb2.ItemShares, each) for each in point.data],
    )
    stages = [
        statistics_service_pb2.FrontierStage(
            stage=stage.place,
            calibrator=write(groups_pb2.Calibrator, made, not_fitted=""),
            fitted=stage.fitted,
            share=stage.share,
        )
        for stage, made in zip(point.stages, calibrators, strict=True)
    ]
    return write(
        statistics_service_pb2.FrontierPoint,
        point,
        stages=stages,
        guarantee=guarantee,
    )
