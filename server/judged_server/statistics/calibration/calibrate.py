"""Calibrates a judge by its scores of all items and human labels of some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from judged.values.calibration import Calibration, CascadeBounds, ThresholdCriterion
from judged.values.choices import CorrectedEstimate, IntervalOptions

from judged_server.domain import (
    BoolArray,
    FloatArray,
    IntArray,
    passes,
)
from judged_server.statistics.calibration.cascade import cascade_bounds
from judged_server.statistics.calibration.reliability import (
    Platt,
    least_certain,
    reliability,
)
from judged_server.statistics.prediction_powered import correct_mean
from judged_server.statistics.quality import LabelledScores, choose_thresholds, judge_quality

MAX_ITEMS = 1_000_000


@dataclass(frozen=True, slots=True)
class ScoredItems:
    """Scores float64[n] in [0, 1]; the indices int64[m], ascending, and labels bool[m] of some.

    `clusters` is int64[n], or None if every item is its own; `inclusion` is float64[m], or None if
    all labels were drawn with the same probability.
    """

    scores: FloatArray
    labelled: IntArray
    labels: BoolArray
    clusters: IntArray | None = None
    inclusion: FloatArray | None = None

    @property
    def with_label(self) -> LabelledScores:
        """The items that have a label."""
        clusters = None if self.clusters is None else self.clusters[self.labelled]
        return LabelledScores(self.scores[self.labelled], self.labels, clusters)


def number_clusters(clusters: Sequence[int]) -> IntArray:
    """Return int64[n]: clusters renumbered from 0; callers may use any numbers."""
    names = np.fromiter(clusters, np.uint64, len(clusters))
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True, slots=True)
class CalibrationOptions:
    """The threshold of the verdicts, and how thresholds and bounds are chosen.

    `criterion` is that of the threshold that goes with a calibration; None is the score whose
    probability is 0.5, which is stable with few labels. With `max_share`, its bounds as a stage of
    a cascade pass on that share of the items; else they are those of `max_error`.
    """

    min_score: float = 0.5
    interval: IntervalOptions = field(default_factory=IntervalOptions)
    precision_floor: float = 0.9
    folds: int = 5
    max_error: float = 0.05
    criterion: ThresholdCriterion | None = None
    max_share: float | None = None

    @property
    def signature(self) -> str:
        """How the numbers are computed, in one stable line."""
        share = "" if self.max_share is None else f"|max_share:{self.max_share:.12g}"
        return (
            f"calibrate|min_score:{self.min_score:.12g}|precision_floor:{self.precision_floor:.12g}"
            f"|folds:{self.folds}|max_error:{self.max_error:.12g}{share}"
            f"|{self.interval.signature}"
        )


def calibrate(
    items: ScoredItems,
    options: CalibrationOptions,
    shipped: Platt | None = None,
    scoring_key: str = "",
) -> Calibration:
    """Return the quality of a judge, thresholds and bounds for it, and the corrected prevalence.

    `shipped` is the calibration that comes with the judge, if any, `scoring_key` that of the judge.
    Warnings about the labels are in the quality.
    """
    labelled = items.with_label
    quality = judge_quality(labelled, options.min_score, options.interval)
    thresholds, threshold_warnings = choose_thresholds(
        labelled, options.precision_floor, options.folds, options.interval
    )
    cascade, cascade_warnings = cascade_bounds(
        labelled,
        items.scores,
        options.max_error,
        options.interval.confidence,
        options.min_score,
    )
    verdicts = passes(items.scores, options.min_score)
    prevalence = _corrected(items, verdicts.astype(np.float64), items.labels, options)
    agreed = items.labels == verdicts[items.labelled]
    agreement = _corrected(items, np.maximum(items.scores, 1 - items.scores), agreed, options)
    calibrated = reliability(labelled, shipped, options.folds, options.interval, options.min_score)
    platt = Platt.of(calibrated.calibrator)
    chosen: dict[ThresholdCriterion | None, float | None] = {
        None: platt.threshold,
        **{threshold.criterion: threshold.min_score for threshold in thresholds},
    }
    warnings = (*quality.warnings, *threshold_warnings, *cascade_warnings, *_unequal(items))
    accept, reject = _bounds(platt, items, cascade, options.max_share)
    calibrator = replace(
        calibrated.calibrator,
        scoring_key=scoring_key,
        min_score=chosen[options.criterion] if calibrated.fitted else None,
        accept=accept,
        reject=reject,
    )
    return Calibration(
        replace(quality, warnings=warnings),
        prevalence,
        cascade,
        options.signature,
        tuple(thresholds),
        replace(calibrated, calibrator=calibrator),
        agreement,
    )


def _corrected(
    items: ScoredItems, machine: FloatArray, human: BoolArray, options: CalibrationOptions
) -> CorrectedEstimate:
    return correct_mean(
        machine,
        human.astype(np.float64),
        items.labelled,
        clusters=items.clusters,
        inclusion=items.inclusion,
        confidence=options.interval.confidence,
        unit="items" if items.clusters is None else "clusters",
    )


def _unequal(items: ScoredItems) -> tuple[str, ...]:
    if items.inclusion is None or len(np.unique(items.inclusion)) == 1:
        return ()
    return (
        (
            "items were drawn to be labelled with unequal probabilities; quality, thresholds and "
            "probabilities are those of the labelled items, prevalence and agreement those of all"
        ),
    )


def _bounds(
    platt: Platt, items: ScoredItems, cascade: CascadeBounds, max_share: float | None
) -> tuple[float | None, float | None]:
    """Return the scores at which a stage of a cascade settles items.

    Bounds with a guarantee are moved to the side of 0.5 that they decide for: a wider range only
    passes on more items.
    """
    if max_share is not None:
        return least_certain(platt, items.scores, max_share)
    scores = np.sort(items.scores)
    yes = scores[platt.probabilities(scores) >= 0.5]
    no = scores[platt.probabilities(scores) < 0.5]
    accept, reject = cascade.accept, cascade.reject
    if accept is not None:
        accept = max(accept, float(yes.min())) if len(yes) else None
    if reject is not None:
        reject = min(reject, float(no.max())) if len(no) else None
    return accept, reject
