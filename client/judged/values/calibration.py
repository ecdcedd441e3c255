"""Agreement of raters, and what a judge is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from judged._inputs import (
    Given,
)
from judged._views import View
from judged.values.calibrators import Calibrator
from judged.values.intervals import (
    CorrectedEstimate,
    Estimate,
    Estimates,
    estimate_names,
    estimate_row,
)
from judged.values.judges import JudgeIdentity


class ThresholdCriterion(IntEnum):
    """What a threshold is best at."""

    BALANCED_ACCURACY = 1
    """The best balanced accuracy."""
    KAPPA = 2
    """The best Cohen's kappa."""
    PRECISION_FLOOR = 3
    """The highest recall with a precision at or above the floor that was asked for."""


@dataclass(frozen=True, slots=True, repr=False)
class LabelledScores(Given, View):
    """A judge's scores, and human labels of some of them.

    `labels` has an entry a score: True, False, or None without a label. `clusters` names what each
    belongs to (a query, say), so that items of one cluster are not taken as independent; empty when
    every item stands alone. `inclusion_probabilities` has an entry a score too: with which one it
    was drawn to be labelled, of which those of items with a label are read; empty when all are
    equal.
    """

    scores: Sequence[float]
    labels: Sequence[bool | None]
    clusters: Sequence[str] = ()
    inclusion_probabilities: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class CalibrateOptions:
    """How a judge is held against labels. None means the server's default.

    With `judge`, the one that gave the scores, the reply's calibrator is for that judge;
    `criterion` is what its threshold is the best at; None is the score whose probability is 0.5.
    With `max_share` the calibrator hands on that share of the items as a stage of a cascade;
    otherwise its bounds are those of `max_error`.
    """

    min_score: float | None = None
    precision_floor: float | None = None
    folds: int | None = None
    max_error: float | None = None
    judge: JudgeIdentity | None = None
    criterion: ThresholdCriterion | None = None
    max_share: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class JudgeQuality(Estimates):
    """How well a judge follows labels at one threshold; an undefined estimate is None."""

    n: int
    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int
    accuracy: Estimate | None
    balanced_accuracy: Estimate | None
    cohen_kappa: Estimate | None
    precision: Estimate | None
    recall: Estimate | None
    auc: Estimate | None
    expected_calibration_error: Estimate | None
    warnings: tuple[str, ...] = ()


QUALITY_MEASURES = estimate_names(JudgeQuality)
"""The measures of a JudgeQuality, by name."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold chosen on labels; `min_score` is None when no threshold reaches the criterion.

    `fitted` is the criterion's value on the labels that chose the threshold, which flatters it;
    `cross_validated` its value on labels that did not.
    """

    criterion: ThresholdCriterion
    min_score: float | None
    fitted: float | None
    cross_validated: Estimate | None


@dataclass(frozen=True, slots=True)
class CascadeBounds:
    """Scores from `accept` are safely relevant, those up to `reject` safely not.

    Safely: wrong in at most `max_error` of cases. `escalated` is the share of all scores between.
    `labels_counted` is how many independent labels the labels are taken for, `design_effect` how
    many count as one. The uncertified bounds hold on the labels alone and promise nothing.
    """

    accept: float | None
    reject: float | None
    escalated: float
    max_error: float
    labels_counted: float = 0.0
    design_effect: float = 1.0
    uncertified_accept: float | None = None
    uncertified_reject: float | None = None


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The items whose probability lies in one bin; `n` 0 leaves the rest 0.

    `relevant` is the share that labels call relevant, with a Wilson interval.
    """

    n: int
    probability: float = 0.0
    relevant: float = 0.0
    lower: float = 0.0
    upper: float = 0.0


_OF_BIN = ("probability", "relevant", "lower", "upper")


@dataclass(frozen=True, slots=True, repr=False)
class Reliability(View):
    """A calibrator, and how far its probabilities can be believed.

    The numbers of one that is `fitted` are cross-validated over clusters; `accuracy` is that of
    deciding by a probability of 0.5. Otherwise it is the one shipped with the judge, or the score
    itself; `warnings` say why.
    """

    calibrator: Calibrator
    fitted: bool
    n_labels: int
    n_clusters: int
    brier: Estimate | None
    calibration_error: Estimate | None
    cohen_kappa: Estimate | None
    bins: tuple[ReliabilityBin, ...]
    warnings: tuple[str, ...] = ()
    accuracy: Estimate | None = None

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row a bin, from probability 0 to 1."""
        width = 1 / len(self.bins)
        return [
            {"from": round(place * width, 10), "n": each.n}
            | {name: getattr(each, name) if each.n else None for name in _OF_BIN}
            for place, each in enumerate(self.bins)
        ]


@dataclass(frozen=True, slots=True, repr=False)
class Calibration(View):
    """What a judge is worth. `prevalence` is the share of relevant items, corrected by labels.

    `agreement` is the share of items on which the judge says what people say, corrected too; None
    of a server that is too old to tell.
    """

    quality: JudgeQuality
    prevalence: CorrectedEstimate
    cascade: CascadeBounds
    signature: str
    thresholds: tuple[Threshold, ...] = ()
    reliability: Reliability | None = None
    agreement: CorrectedEstimate | None = None

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row a measure of the judge, then the prevalence, each with its interval."""
        return [*self.quality.to_rows(), estimate_row("prevalence", self.prevalence.corrected)]
