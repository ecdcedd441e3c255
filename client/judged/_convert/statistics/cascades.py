"""Between the public values of `cascades` and the messages of CalibrateCascade."""

from __future__ import annotations

from judged._codec import read_fields, write_fields
from judged._convert.statistics.agreement import numbers_of, write_identity
from judged._inputs import need_each, need_kind
from judged.errors import WrongType
from judged.v1 import statistics_service_pb2 as pb
from judged.values.calibrators import Calibrator
from judged.values.cascades import (
    CascadeFrontier,
    CascadeOptions,
    FrontierPoint,
    FrontierStage,
    ScoredStage,
    StagedLabels,
)


def write_calibrate_cascade(
    items: StagedLabels, options: CascadeOptions
) -> pb.CalibrateCascadeRequest:
    """Return the message. Raises InvalidArgument for what is no label."""
    need_kind(items, "items", StagedLabels, "StagedLabels")
    need_each(items.stages, "stages", (ScoredStage,), "ScoredStage")
    for i, label in enumerate(items.labels):
        if label not in (0, 1):
            raise WrongType.of_field(f"labels[{i}]", "must be True or False")
    stages = [
        write_fields(
            pb.ScoredStage,
            stage,
            judge=write_identity(stage.judge),
            scores=[0.0 if score is None else score for score in stage.scores],
            missing=[i for i, score in enumerate(stage.scores) if score is None],
            flagged=[i for i, flagged in enumerate(stage.flagged) if flagged],
        )
        for stage in items.stages
    ]
    return write_fields(
        pb.CalibrateCascadeRequest,
        options,
        stages=stages,
        labels=[bool(label) for label in items.labels],
        clusters=numbers_of(items.clusters),
        lengths=items.lengths,
    )


def read_frontier(message: pb.CalibrateCascadeResponse) -> CascadeFrontier:
    """Return the reply of CalibrateCascade."""
    points = tuple(_read_point(point, message.signature) for point in message.frontier)
    return read_fields(CascadeFrontier, message, points=points)


def _read_point(message: pb.FrontierPoint, made: str) -> FrontierPoint:
    stages = [
        read_fields(
            FrontierStage,
            stage,
            calibrator=read_fields(Calibrator, stage.calibrator, min_score=None, made=made),
        )
        for stage in message.stages
    ]
    return read_fields(FrontierPoint, message, stages=tuple(stages))
