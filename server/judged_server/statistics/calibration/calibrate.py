"""A judge's scores and some human labels in, what the judge is worth out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from judged_server.domain import min_passing_score
from judged_server.statistics.agreement.quality import JudgeQuality, judge_quality
from judged_server.statistics.calibration.cascade import CascadeBounds, cascade_bounds
from judged_server.statistics.calibration.items import ScoredItems
from judged_server.statistics.calibration.thresholds import Threshold, choose_thresholds
from judged_server.statistics.intervals import IntervalOptions
from judged_server.statistics.prediction_powered import CorrectedMean, correct_mean


@dataclass(frozen=True, slots=True)
class CalibrationOptions:
    """The threshold of the verdicts, and how thresholds and bounds are chosen."""

    min_score: float = 0.5
    interval: IntervalOptions = field(default_factory=IntervalOptions)
    precision_floor: float = 0.9
    folds: int = 5
    max_error: float = 0.05

    @property
    def signature(self) -> str:
        """How the numbers are made, in one stable line."""
        return (
            f"calibrate|min_score:{self.min_score:.12g}|precision_floor:{self.precision_floor:.12g}"
            f"|folds:{self.folds}|max_error:{self.max_error:.12g}|{self.interval.signature}"
        )


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a judge is worth. Warnings about the labels stand in `quality`."""

    quality: JudgeQuality
    thresholds: tuple[Threshold, ...]
    prevalence: CorrectedMean
    cascade: CascadeBounds
    signature: str


def calibrate(items: ScoredItems, options: CalibrationOptions) -> Calibration:
    """Return the quality of a judge, thresholds and bounds for it, and the corrected prevalence."""
    labelled = items.with_label
    quality = judge_quality(labelled, options.min_score, options.interval)
    thresholds, remarks = choose_thresholds(
        labelled, options.precision_floor, options.folds, options.interval
    )
    cascade = cascade_bounds(labelled, items.scores, options.max_error, options.interval.confidence)
    verdicts = items.scores >= min_passing_score(options.min_score)
    prevalence = correct_mean(
        verdicts.astype(np.float64),
        items.labels.astype(np.float64),
        items.labelled,
        clusters=items.clusters,
        confidence=options.interval.confidence,
        unit="items" if items.clusters is None else "clusters",
    )
    warnings = (*quality.warnings, *remarks, *cascade.warnings)
    return Calibration(
        replace(quality, warnings=warnings),
        tuple(thresholds),
        prevalence,
        cascade,
        options.signature,
    )
