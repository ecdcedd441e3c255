"""What a judge is worth by labels, and cascades of judges."""

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
    """What a threshold is best at."""

    BALANCED_ACCURACY = 1
    """The best balanced accuracy."""
    KAPPA = 2
    """The best Cohen's kappa."""
    PRECISION_FLOOR = 3
    """The highest recall with a precision at or above the floor that was asked for."""


@dataclass(frozen=True, repr=False)
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


@dataclass(frozen=True)
class CalibrateOptions:
    """How a judge is held against labels. None means the server's default.

    With `judge`, the one that gave the scores, the reply's calibrator is for that judge, and
    `min_score` is by default its own;
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


@dataclass(frozen=True, repr=False)
class JudgeQuality(View):
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


@dataclass(frozen=True)
class Threshold:
    """A threshold chosen on labels; `min_score` is None when no threshold reaches the criterion.

    `fitted` is the criterion's value on the labels that chose the threshold, which flatters it;
    `cross_validated` its value on labels that did not.
    """

    criterion: ThresholdCriterion
    min_score: float | None
    fitted: float | None
    cross_validated: Estimate | None


@dataclass(frozen=True)
class CascadeBounds:
    """Scores from `accept` are safely relevant, those up to `reject` safely not.

    Safely: wrong in at most `max_error` of cases. `escalated` is the share of all scores between.
    `labels_counted` is how many independent labels the labels are taken for, `design_effect` how
    many count as one. The uncertified bounds are not set.
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
    """The items whose probability lies in one bin; `n` 0 leaves the rest 0.

    `relevant` is the share that labels call relevant, with a Wilson interval.
    """

    n: int
    probability: float = 0.0
    relevant: float = 0.0
    lower: float = 0.0
    upper: float = 0.0


@dataclass(frozen=True, repr=False)
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


@dataclass(frozen=True, repr=False)
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


_FORMAT = 3


@dataclass(frozen=True)
class ScoredStage(Given):
    """A judge that may be a stage, and its scores of all labelled items; None where it has none.

    `cost` is that of asking it about one item, 0 or more. `flagged` says which verdicts have a
    flag; empty for none.
    """

    judge: JudgeIdentity
    scores: Sequence[float | None]
    cost: float = 0.0
    flagged: Sequence[bool] = ()


@dataclass(frozen=True, repr=False)
class StagedLabels(Given, View):
    """Labels of items, and several judges' scores of them.

    `clusters` names what each item belongs to, a query say; empty when every item stands alone.
    `lengths` are those of the retrieved texts in characters: with them the guarantee sees when
    other data have longer or shorter ones.
    """

    stages: Sequence[ScoredStage]
    labels: Sequence[bool]
    clusters: Sequence[str] = ()
    lengths: Sequence[int] = ()


@dataclass(frozen=True)
class CascadeOptions:
    """What a cascade is to keep. None means the server's default.

    With `max_share` at most that share of the items reaches the dearest judge, with `max_cost` an
    item costs that at most in the mean; otherwise what is settled is wrong in at most `max_error`
    of cases. With `may_abstain` what no stage is sure of has no verdict.
    """

    max_error: float | None = None
    max_share: float | None = None
    max_cost: float | None = None
    may_abstain: bool = False
    confidence: float | None = None
    seed: int | None = None


@dataclass(frozen=True)
class FrontierStage:
    """A judge of a cascade by its place among the scored ones.

    Its calibrator has the bounds between which an item goes on; without bounds it settles all.
    `fitted` says whether labels made it, `share` which share of the items reaches it.
    """

    stage: int
    calibrator: Calibrator
    fitted: bool
    share: float


@dataclass(frozen=True)
class FrontierPoint:
    """A cascade: what an item costs, the share that is settled, and how often that is wrong.

    `error` is that on the labels that test it, None without any. The guarantee's max_error is an
    upper bound of it. `certified` says that the error that was wanted is kept.
    """

    stages: Sequence[FrontierStage]
    cost: float
    settled: float
    error: float | None
    guarantee: ErrorGuarantee
    certified: bool

    @property
    def accuracy(self) -> float | None:
        """The share of what is settled that is right, on the labels that test it."""
        return None if self.error is None else 1 - self.error

    @property
    def least_accuracy(self) -> float:
        """What the accuracy is at least, with the confidence of the guarantee."""
        return 1 - self.guarantee.max_error

    def judge(self, judges: Sequence[Judge | str]) -> Judge:
        """Return the cascade to be asked, of the judges that gave the scores, in their order."""
        asked = [(to_judge(judges[stage.stage]), stage.calibrator) for stage in self.stages]
        members = [
            replace(judge, min_score=None, calibration=calibrator, guarantee=None)
            for judge, calibrator in asked
        ]
        return Judge("cascade", members=members, guarantee=self.guarantee)


@dataclass(frozen=True, repr=False)
class CascadeFrontier(View):
    """The cascades worth having, the cheapest first.

    `proposed` is the place of the one that keeps what was wanted, `uncertified` that of the
    cheapest one that does so on the labels alone, without a promise; None where there is none.
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

    Its stages must bring their calibrators, not names. `facts` are kept beside it, for people.
    Raises OSError and InvalidArgument.
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
    """Return the cascade of a file. Raises OSError, and InvalidArgument for another file."""
    fields = read_kept(path, "judged_cascade", _FORMAT)
    if fields is None:
        problem = "is no file that `judged frontier -o` wrote"
    elif fields.get("sha256") != _sha256(fields.get("cascade")):
        problem = "was changed after it was made; make it anew with `judged frontier`"
    else:
        return Record(fields["cascade"], str(path), None, "cascade").read(Judge)
    raise errors.InvalidArgument.of_field("cascade", f"{path} {problem}")
