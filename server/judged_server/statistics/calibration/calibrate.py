"""A judge's scores and some human labels in, what the judge is worth out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from judged.values.intervals import IntervalOptions

from judged_server.domain import BoolArray, FloatArray, min_passing_score
from judged_server.statistics.agreement.quality import JudgeQuality, judge_quality
from judged_server.statistics.calibration.cascade import (
    CascadeBounds,
    cascade_bounds,
)
from judged_server.statistics.calibration.items import ScoredItems
from judged_server.statistics.calibration.reliability import (
    Platt,
    Reliability,
    least_certain,
    reliability,
)
from judged_server.statistics.calibration.thresholds import Criterion, Threshold, choose_thresholds
from judged_server.statistics.prediction_powered import CorrectedMean, correct_mean


@dataclass(frozen=True, slots=True)
class CalibrationOptions:
    """The threshold of the verdicts, and how thresholds and bounds are chosen.

    `criterion` is that of the threshold that goes with a calibration; None is the score whose
    probability is 0.5, which few labels do not throw off. With `max_share` its bounds
    as a stage of a cascade hand on that share of the items, else they are those of `max_error`.
    """

    min_score: float = 0.5
    interval: IntervalOptions = field(default_factory=IntervalOptions)
    precision_floor: float = 0.9
    folds: int = 5
    max_error: float = 0.05
    criterion: Criterion | None = None
    max_share: float | None = None

    @property
    def signature(self) -> str:
        """How the numbers are made, in one stable line."""
        share = "" if self.max_share is None else f"|max_share:{self.max_share:.12g}"
        return (
            f"calibrate|min_score:{self.min_score:.12g}|precision_floor:{self.precision_floor:.12g}"
            f"|folds:{self.folds}|max_error:{self.max_error:.12g}{share}"
            f"|{self.interval.signature}"
        )


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a judge is worth. Warnings about the labels stand in `quality`.

    `min_score` is the threshold that goes with the calibration; None where no label made it.
    `accept` and `reject` are its bounds as a stage of a cascade.
    """

    quality: JudgeQuality
    thresholds: tuple[Threshold, ...]
    prevalence: CorrectedMean
    agreement: CorrectedMean
    cascade: CascadeBounds
    signature: str
    reliability: Reliability
    min_score: float | None
    accept: float | None
    reject: float | None


def calibrate(
    items: ScoredItems, options: CalibrationOptions, shipped: Platt | None = None
) -> Calibration:
    """Return the quality of a judge, thresholds and bounds for it, and the corrected prevalence.

    `shipped` is the calibration that comes with the judge, if any.
    """
    labelled = items.with_label
    quality = judge_quality(labelled, options.min_score, options.interval)
    thresholds, remarks = choose_thresholds(
        labelled, options.precision_floor, options.folds, options.interval
    )
    cascade = cascade_bounds(
        labelled,
        items.scores,
        options.max_error,
        options.interval.confidence,
        options.min_score,
    )
    verdicts = items.scores >= min_passing_score(options.min_score)
    prevalence = _corrected(items, verdicts.astype(np.float64), items.labels, options)
    agreed = items.labels == verdicts[items.labelled]
    agreement = _corrected(items, np.maximum(items.scores, 1 - items.scores), agreed, options)
    believed = reliability(labelled, shipped, options.folds, options.interval, options.min_score)
    chosen: dict[Criterion | None, float | None] = {
        None: believed.platt.threshold,
        **{threshold.criterion: threshold.min_score for threshold in thresholds},
    }
    warnings = (*quality.warnings, *remarks, *cascade.warnings, *_unequal(items))
    return Calibration(
        replace(quality, warnings=warnings),
        tuple(thresholds),
        prevalence,
        agreement,
        cascade,
        options.signature,
        believed,
        chosen[options.criterion] if believed.fitted else None,
        *_bounds(believed.platt, items, cascade, options.max_share),
    )


def _corrected(
    items: ScoredItems, machine: FloatArray, human: BoolArray, options: CalibrationOptions
) -> CorrectedMean:
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

    Those with a guarantee are moved to the side of 0.5 that they decide for: a wider range only
    hands on more.
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
