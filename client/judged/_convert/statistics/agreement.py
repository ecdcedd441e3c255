"""Between the public values of `agreement` and the messages of MeasureAgreement and Calibrate."""

from __future__ import annotations

from collections.abc import Sequence

from judged import errors
from judged._convert.intervals import read_corrected, read_estimate, write_interval_options
from judged._inputs import need_kind
from judged.errors import WrongType
from judged.types.calibrators import Calibrator
from judged.types.intervals import Estimate, IntervalOptions
from judged.types.judges import JudgeIdentity
from judged.types.statistics.agreement import (
    Agreement,
    CalibrateOptions,
    Calibration,
    CascadeBounds,
    JudgeQuality,
    LabelledScores,
    MeasuredAgreement,
    RankAgreement,
    RatingTable,
    Reliability,
    ReliabilityBin,
    SystemScores,
    Threshold,
    ThresholdCriterion,
)
from judged.v1 import statistics_service_pb2, verdicts_pb2


def write_agreement(
    ratings: RatingTable | None, systems: SystemScores | None, interval: IntervalOptions | None
) -> statistics_service_pb2.MeasureAgreementRequest:
    """Return the message. Raises InvalidArgument for a rating that is no category."""
    if ratings is not None:
        need_kind(ratings, "ratings", RatingTable, "a RatingTable")
    if systems is not None:
        need_kind(systems, "systems", SystemScores, "SystemScores")
    request = statistics_service_pb2.MeasureAgreementRequest(
        interval=write_interval_options(interval)
    )
    if ratings is not None:
        request.ratings.CopyFrom(_write_ratings(ratings))
    if systems is not None:
        request.systems.CopyFrom(
            statistics_service_pb2.SystemScores(
                systems=systems.systems, first=systems.first, second=systems.second
            )
        )
    return request


def _write_ratings(table: RatingTable) -> statistics_service_pb2.RatingTable:
    message = statistics_service_pb2.RatingTable(
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


def read_agreement(message: statistics_service_pb2.MeasureAgreementResponse) -> MeasuredAgreement:
    """Return the reply of MeasureAgreement."""
    return MeasuredAgreement(
        _read_ratings(message.ratings) if message.HasField("ratings") else None,
        _read_systems(message.systems) if message.HasField("systems") else None,
    )


def _read_ratings(message: statistics_service_pb2.Agreement) -> Agreement:
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


def _read_systems(message: statistics_service_pb2.RankAgreement) -> RankAgreement:
    return RankAgreement(
        message.n_systems,
        _read(message, "kendall_tau"),
        _read(message, "tau_ap"),
        tuple(message.warnings),
    )


def write_calibrate(
    items: LabelledScores, options: CalibrateOptions, interval: IntervalOptions | None
) -> statistics_service_pb2.CalibrateRequest:
    """Return the message. Raises InvalidArgument when there is not one label entry a score."""
    need_kind(items, "items", LabelledScores, "LabelledScores")
    for i, label in enumerate(items.labels):
        if label is not None and label not in (0, 1):
            raise WrongType.of_field(f"labels[{i}]", "must be True, False or None")
    if len(items.labels) != len(items.scores):
        raise errors.InvalidArgument.of_field(
            "labels", f"has {len(items.labels)} entries for {len(items.scores)} scores"
        )
    inclusion = items.inclusion_probabilities
    if len(inclusion) not in {0, len(items.scores)}:
        raise errors.InvalidArgument.of_field(
            "inclusion_probabilities",
            f"has {len(inclusion)} entries for {len(items.scores)} scores",
        )
    labelled = [i for i, label in enumerate(items.labels) if label is not None]
    return statistics_service_pb2.CalibrateRequest(
        scores=items.scores,
        labelled=labelled,
        labels=[bool(items.labels[i]) for i in labelled],
        clusters=numbers_of(items.clusters),
        inclusion_probabilities=[inclusion[i] for i in labelled] if len(inclusion) else (),
        strata=_numbers(items.strata),
        min_score=options.min_score,
        interval=write_interval_options(interval),
        precision_floor=options.precision_floor,
        folds=options.folds,
        max_error=options.max_error,
        judge=write_identity(options.judge),
        criterion=None if options.criterion is None else int(options.criterion),  # type: ignore[arg-type]  # ours has the same numbers
        max_share=options.max_share,
        guarantee=None if options.guarantee is None else int(options.guarantee),  # type: ignore[arg-type]  # ours has the same numbers
    )


def _numbers(strata: Sequence[int]) -> Sequence[int]:
    for i, number in enumerate(strata):
        if not 0 <= number < 1 << 32:  # the field could not hold it
            raise errors.InvalidArgument.of_field(f"strata[{i}]", "must be from 0 to 4294967295")
    return strata


def write_identity(judge: JudgeIdentity | None) -> verdicts_pb2.JudgeIdentity | None:
    """Return the message of a judge's identity, as replies have it."""
    if judge is None:
        return None
    need_kind(judge, "judge", JudgeIdentity, "the JudgeIdentity of verdicts")
    return verdicts_pb2.JudgeIdentity(
        kind=judge.kind,
        profile=judge.profile,
        min_score=judge.min_score,
        signature=judge.signature,
        scoring_key=judge.scoring_key,
        fingerprint=judge.fingerprint,
    )


def numbers_of(names: Sequence[str]) -> list[int]:
    """Return a number for each name, the same for the same."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(name, len(numbers)) for name in names]


def read_calibration(message: statistics_service_pb2.CalibrateResponse) -> Calibration:
    """Return the reply of Calibrate."""
    cascade = message.cascade
    return Calibration(
        quality=_read_quality(message.quality),
        prevalence=read_corrected(message.prevalence),
        agreement=read_corrected(message.agreement) if message.HasField("agreement") else None,
        cascade=CascadeBounds(
            cascade.accept if cascade.HasField("accept") else None,
            cascade.reject if cascade.HasField("reject") else None,
            cascade.escalated,
            cascade.max_error,
            cascade.labels_counted,
            cascade.design_effect,
            cascade.uncertified_accept if cascade.HasField("uncertified_accept") else None,
            cascade.uncertified_reject if cascade.HasField("uncertified_reject") else None,
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
        reliability=_read_reliability(message) if message.HasField("reliability") else None,
    )


def _read_reliability(message: statistics_service_pb2.CalibrateResponse) -> Reliability:
    found, made = message.reliability, message.reliability.calibrator
    return Reliability(
        calibrator=Calibrator(
            made.scoring_key,
            made.slope,
            made.intercept,
            made.min_score if made.HasField("min_score") else None,
            message.signature,
            made.accept if made.HasField("accept") else None,
            made.reject if made.HasField("reject") else None,
        ),
        fitted=found.fitted,
        n_labels=found.n_labels,
        n_clusters=found.n_clusters,
        brier=_read(found, "brier"),
        calibration_error=_read(found, "calibration_error"),
        cohen_kappa=_read(found, "cohen_kappa"),
        bins=tuple(
            ReliabilityBin(each.n, each.probability, each.relevant, each.lower, each.upper)
            for each in found.bins
        ),
        warnings=tuple(found.warnings),
    )


def _read_quality(message: statistics_service_pb2.JudgeQuality) -> JudgeQuality:
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
    message: statistics_service_pb2.Agreement
    | statistics_service_pb2.RankAgreement
    | statistics_service_pb2.JudgeQuality
    | statistics_service_pb2.Reliability
    | statistics_service_pb2.Threshold,
    name: str,
) -> Estimate | None:
    """Return an estimate, None where it is unset."""
    present: bool = message.HasField(name)  # type: ignore[arg-type]  # every caller names a field of its message
    return read_estimate(getattr(message, name)) if present else None
