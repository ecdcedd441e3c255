"""Between the public values of `agreement` and the messages of MeasureAgreement and Calibrate."""

from __future__ import annotations

from collections.abc import Sequence

from judged import errors
from judged._convert.statistics import read_corrected, read_estimate, write_interval_options
from judged._inputs import WrongType, need_kind
from judged.types.agreement import (
    Agreement,
    CalibrateOptions,
    Calibration,
    CascadeBounds,
    JudgeQuality,
    LabelledScores,
    MeasuredAgreement,
    RankAgreement,
    RatingTable,
    SystemScores,
    Threshold,
    ThresholdCriterion,
)
from judged.types.statistics import Estimate, IntervalOptions
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import statistics_pb2


def write_agreement(
    ratings: RatingTable | None, systems: SystemScores | None, interval: IntervalOptions | None
) -> pb.MeasureAgreementRequest:
    """Return the message. Raises InvalidArgument for a rating that is no category."""
    if ratings is not None:
        need_kind(ratings, "ratings", RatingTable, "a RatingTable")
    if systems is not None:
        need_kind(systems, "systems", SystemScores, "SystemScores")
    request = pb.MeasureAgreementRequest(interval=write_interval_options(interval))
    if ratings is not None:
        request.ratings.CopyFrom(_write_ratings(ratings))
    if systems is not None:
        request.systems.CopyFrom(
            pb.SystemScores(systems=systems.systems, first=systems.first, second=systems.second)
        )
    return request


def _write_ratings(table: RatingTable) -> pb.RatingTable:
    message = pb.RatingTable(
        categories=table.categories,
        level=None if table.level is None else int(table.level),  # type: ignore[arg-type]  # ours has the same numbers
    )
    places: dict[str | None, int] = {None: -1}
    for place, category in enumerate(table.categories):
        places.setdefault(category, place)
    for j, (name, ratings) in enumerate(table.ratings.items()):
        found = [places.get(rating) for rating in ratings]
        if None in found:
            raise errors.InvalidArgument.of_field(
                f"ratings.raters[{j}].ratings[{found.index(None)}]",
                "is none of the categories; add it to them, or give None for no rating",
            )
        message.raters.add(name=name, ratings=[place for place in found if place is not None])
    return message


def read_agreement(message: pb.MeasureAgreementResponse) -> MeasuredAgreement:
    """Return the reply of MeasureAgreement."""
    return MeasuredAgreement(
        _read_ratings(message.ratings) if message.HasField("ratings") else None,
        _read_systems(message.systems) if message.HasField("systems") else None,
    )


def _read_ratings(message: statistics_pb2.Agreement) -> Agreement:
    k = len(message.categories)
    cells = list(message.confusion)
    return Agreement(
        raters=list(message.raters),
        n_items=message.n_items,
        categories=list(message.categories),
        confusion=[cells[row : row + k] for row in range(0, len(cells), k)],
        observed=_read(message, "observed"),
        cohen_kappa=_read(message, "cohen_kappa"),
        linear_kappa=_read(message, "linear_kappa"),
        quadratic_kappa=_read(message, "quadratic_kappa"),
        fleiss_kappa=_read(message, "fleiss_kappa"),
        krippendorff_alpha=_read(message, "krippendorff_alpha"),
        warnings=tuple(message.warnings),
    )


def _read_systems(message: statistics_pb2.RankAgreement) -> RankAgreement:
    return RankAgreement(
        message.n_systems,
        _read(message, "kendall_tau"),
        _read(message, "tau_ap"),
        tuple(message.warnings),
    )


def write_calibrate(
    items: LabelledScores, options: CalibrateOptions, interval: IntervalOptions | None
) -> pb.CalibrateRequest:
    """Return the message. Raises InvalidArgument when there is not one label entry a score."""
    need_kind(items, "items", LabelledScores, "LabelledScores")
    for i, label in enumerate(items.labels):
        if label is not None and label not in (0, 1):
            raise WrongType.of_field(f"labels[{i}]", "must be True, False or None")
    if len(items.labels) != len(items.scores):
        raise errors.InvalidArgument.of_field(
            "labels", f"has {len(items.labels)} entries for {len(items.scores)} scores"
        )
    labelled = [i for i, label in enumerate(items.labels) if label is not None]
    return pb.CalibrateRequest(
        scores=items.scores,
        labelled=labelled,
        labels=[bool(items.labels[i]) for i in labelled],
        clusters=_numbers(items.clusters),
        min_score=options.min_score,
        interval=write_interval_options(interval),
        precision_floor=options.precision_floor,
        folds=options.folds,
        max_error=options.max_error,
    )


def _numbers(names: Sequence[str]) -> list[int]:
    """Return a number for each name, the same for the same."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(name, len(numbers)) for name in names]


def read_calibration(message: pb.CalibrateResponse) -> Calibration:
    """Return the reply of Calibrate."""
    cascade = message.cascade
    return Calibration(
        quality=_read_quality(message.quality),
        prevalence=read_corrected(message.prevalence),
        cascade=CascadeBounds(
            cascade.accept if cascade.HasField("accept") else None,
            cascade.reject if cascade.HasField("reject") else None,
            cascade.escalated,
            cascade.max_error,
        ),
        signature=message.signature,
        thresholds=tuple(
            Threshold(
                ThresholdCriterion(threshold.criterion),
                threshold.min_score if threshold.HasField("min_score") else None,
                threshold.fitted if threshold.HasField("fitted") else None,
                _read(threshold, "cross_validated"),
            )
            for threshold in message.thresholds
        ),
    )


def _read_quality(message: statistics_pb2.JudgeQuality) -> JudgeQuality:
    return JudgeQuality(
        n=message.n,
        true_positives=message.true_positives,
        false_positives=message.false_positives,
        true_negatives=message.true_negatives,
        false_negatives=message.false_negatives,
        accuracy=_read(message, "accuracy"),
        balanced_accuracy=_read(message, "balanced_accuracy"),
        cohen_kappa=_read(message, "cohen_kappa"),
        precision=_read(message, "precision"),
        recall=_read(message, "recall"),
        auc=_read(message, "auc"),
        expected_calibration_error=_read(message, "expected_calibration_error"),
        warnings=tuple(message.warnings),
    )


def _read(
    message: statistics_pb2.Agreement
    | statistics_pb2.RankAgreement
    | statistics_pb2.JudgeQuality
    | statistics_pb2.Threshold,
    name: str,
) -> Estimate | None:
    """Return an estimate, None where it is unset."""
    present: bool = message.HasField(name)  # type: ignore[arg-type]  # every caller names a field of its message
    return read_estimate(getattr(message, name)) if present else None
