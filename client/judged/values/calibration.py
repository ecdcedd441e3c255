"""The quality of judges as measured by labels, and cascades of judges."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from pathlib import Path

from judged import errors
from judged._files import Record, replace_text
from judged._inputs import Given
from judged._views import View
from judged.values.calibrators import Calibrator, ErrorGuarantee, read_kept
from judged.values.choices import CorrectedEstimate, Estimate, estimate_names
from judged.values.judges import Judge, JudgeIdentity, to_judge


class ThresholdCriterion(IntEnum):
    """The criterion that a threshold maximizes."""

    BALANCED_ACCURACY = 1
    """The best balanced accuracy."""
    KAPPA = 2
    """The best Cohen's kappa."""
    PRECISION_FLOOR = 3
    """The highest recall with a precision at or above the requested floor."""


@dataclass(frozen=True, repr=False)
class LabelledScores(Given, View):
    """A judge's scores, and human labels of some of them.

    `labels` has an entry per score: True, False, or None without a label. `clusters` names the
    cluster of each item, such as its query, so that items of one cluster are not taken as
    independent; empty if all items are. `inclusion_probabilities` has, per score, the probability
    with which the item was drawn for labelling; only those of labelled items are read; empty if all
    are equal.
    """

    scores: Sequence[float]
    labels: Sequence[bool | None]
    clusters: Sequence[str] = ()
    inclusion_probabilities: Sequence[float] = ()


@dataclass(frozen=True)
class CalibrateOptions:
    """How a judge is compared with labels. None means the server's default.

    With `judge`, the one that gave the scores, the reply's calibrator is for that judge, and
    `min_score` is by default its own. `criterion` is what its threshold maximizes; with None, the
    threshold is the score whose probability is 0.5. With `max_share`, the calibrator passes on that
    share of the items as a stage of a cascade; otherwise its bounds are those of `max_error`.
    """

    min_score: float | None = None
    precision_floor: float | None = None
    folds: int | None = None
    max_error: float | None = None
    judge: JudgeIdentity | None = None
    criterion: ThresholdCriterion | None = None
    max_share: float | None = None


@dataclass(frozen=True, repr=False)
class JudgeQuality(View):
    """How well a judge agrees with labels at one threshold; an undefined estimate is None."""

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


@dataclass(frozen=True)
class Threshold:
    """A threshold chosen on labels; `min_score` is None if no threshold meets the criterion.

    `fitted` is the criterion's value on the labels that chose the threshold, which is optimistic;
    `cross_validated` is its value on other labels.
    """

    criterion: ThresholdCriterion
    min_score: float | None
    fitted: float | None
    cross_validated: Estimate | None


@dataclass(frozen=True)
class CascadeBounds:
    """Scores of `accept` or more are safely relevant, those of `reject` or less safely not.

    Safely means wrong in at most `max_error` of cases. `escalated` is the share of scores between.
    `labels_counted` is the equivalent number of independent labels, `design_effect` how many count
    as one. The uncertified bounds are not set.
    """

    accept: float | None
    reject: float | None
    escalated: float
    max_error: float
    labels_counted: float = 0.0
    design_effect: float = 1.0
    uncertified_accept: float | None = None
    uncertified_reject: float | None = None


@dataclass(frozen=True)
class ReliabilityBin:
    """The items whose probability is in one bin; all fields are 0 if `n` is.

    `relevant` is the share that labels call relevant, with a Wilson interval.
    """

    n: int
    probability: float = 0.0
    relevant: float = 0.0
    lower: float = 0.0
    upper: float = 0.0


@dataclass(frozen=True, repr=False)
class Reliability(View):
    """A calibrator, and how reliable its probabilities are.

    If it is `fitted`, the numbers are cross-validated over clusters; `accuracy` is that of deciding
    at a probability of 0.5. Otherwise, it is the one shipped with the judge, or the score itself;
    `warnings` say why.
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


@dataclass(frozen=True, repr=False)
class Calibration(View):
    """A judge's quality. `prevalence` is the share of relevant items, corrected by labels.

    `agreement` is the share of items on which the judge agrees with people, also corrected; None
    from an older server.
    """

    quality: JudgeQuality
    prevalence: CorrectedEstimate
    cascade: CascadeBounds
    signature: str
    thresholds: tuple[Threshold, ...] = ()
    reliability: Reliability | None = None
    agreement: CorrectedEstimate | None = None


_FORMAT = 3


@dataclass(frozen=True)
class ScoredStage(Given):
    """A judge that may be a stage, and its score of each labelled item; None for a missing one.

    `cost` is that of asking it about one item, 0 or more. `flagged` says which verdicts have a
    flag; empty if none has.
    """

    judge: JudgeIdentity
    scores: Sequence[float | None]
    cost: float = 0.0
    flagged: Sequence[bool] = ()


@dataclass(frozen=True, repr=False)
class StagedLabels(Given, View):
    """Labels of items, and several judges' scores of them.

    `clusters` names the cluster of each item, such as its query; empty if items are independent.
    `lengths` are those of the retrieved texts in characters; with them, the guarantee detects data
    with longer or shorter texts.
    """

    stages: Sequence[ScoredStage]
    labels: Sequence[bool]
    clusters: Sequence[str] = ()
    lengths: Sequence[int] = ()


@dataclass(frozen=True)
class CascadeOptions:
    """The limits that a cascade must keep. None means the server's default.

    With `max_share`, at most that share of the items reaches the most expensive judge; with
    `max_cost`, an item costs at most that on average; otherwise, settled items are wrong in at most
    `max_error` of cases. With `may_abstain`, items that no stage is sure of have no verdict.
    """

    max_error: float | None = None
    max_share: float | None = None
    max_cost: float | None = None
    may_abstain: bool = False
    confidence: float | None = None
    seed: int | None = None


@dataclass(frozen=True)
class FrontierStage:
    """A judge of a cascade; `stage` is its index among the scored ones.

    Items between the bounds of its calibrator go on to the next stage; without bounds, it settles
    all. `fitted` says whether labels fitted the calibrator; `share` of the items reach the stage.
    """

    stage: int
    calibrator: Calibrator
    fitted: bool
    share: float


@dataclass(frozen=True)
class FrontierPoint:
    """A cascade: the cost of an item, the share of items that it settles, and their error.

    `error` is measured on the labels that test it, None without any. The guarantee's max_error is
    its upper bound. `certified` says whether the requested error is kept.
    """

    stages: Sequence[FrontierStage]
    cost: float
    settled: float
    error: float | None
    guarantee: ErrorGuarantee
    certified: bool

    @property
    def accuracy(self) -> float | None:
        """The share of settled items that are right, on the labels that test it."""
        return None if self.error is None else 1 - self.error

    @property
    def least_accuracy(self) -> float:
        """The lower bound of the accuracy, with the confidence of the guarantee."""
        return 1 - self.guarantee.max_error

    def judge(self, judges: Sequence[Judge | str]) -> Judge:
        """Return the cascade as a judge; `judges` are those that gave the scores, in order."""
        asked = [(to_judge(judges[stage.stage]), stage.calibrator) for stage in self.stages]
        members = [
            replace(judge, min_score=None, calibration=calibrator, guarantee=None)
            for judge, calibrator in asked
        ]
        return Judge("cascade", members=members, guarantee=self.guarantee)


@dataclass(frozen=True, repr=False)
class CascadeFrontier(View):
    """The cascades worth having, the cheapest first.

    `proposed` is the index of the one that keeps the requested limits, `uncertified` that of the
    cheapest one that does so on the labels but without a guarantee; None if there is none.
    """

    points: Sequence[FrontierPoint]
    proposed: int | None
    uncertified: int | None
    n_proposing: int
    n_certifying: int
    n_clusters: int
    signature: str
    warnings: tuple[str, ...] = ()


def save_cascade(cascade: Judge, path: str | Path, **facts: object) -> None:
    """Write a cascade into a file that `load_cascade` and `--cascade` read.

    Its stages must have calibrators, not names of them. `facts` are stored in the file too, for
    people. Raises OSError and InvalidArgument.
    """
    _refuse_names(cascade)
    kept = asdict(cascade)
    fields = {"judged_cascade": _FORMAT, "cascade": kept, "sha256": _sha256(kept), **facts}
    replace_text(path, json.dumps(fields, indent=2) + "\n")


def _refuse_names(judge: Judge) -> None:
    if isinstance(judge.calibration, str):
        rule = f"the calibration {judge.calibration!r} is a name; give its Calibrator"
        raise errors.InvalidArgument.of_field("cascade", rule)
    for member in judge.members:
        _refuse_names(to_judge(member))


def _sha256(kept: object) -> str:
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def load_cascade(path: str | Path) -> Judge:
    """Return the cascade of a file. Raises OSError, and InvalidArgument for other files."""
    fields = read_kept(path, "judged_cascade", _FORMAT)
    if fields is None:
        problem = "is no file that `judged frontier -o` wrote"
    elif fields.get("sha256") != _sha256(fields.get("cascade")):
        problem = "was changed after it was made; make it again with `judged frontier`"
    else:
        return Record(fields["cascade"], str(path), None, "cascade").read(Judge)
    raise errors.InvalidArgument.of_field("cascade", f"{path} {problem}")
