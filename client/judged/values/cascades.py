"""Cascades proposed from labels, and the files in which one keeps them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from judged import errors
from judged._files import FileError, Record, parse_json
from judged._inputs import (
    Given,
    need_kind,
)
from judged._views import View, row_of
from judged._writing import replace_text
from judged.values.calibrators import Calibrator, ErrorGuarantee
from judged.values.judges import Judge, JudgeIdentity, to_judge

_FORMAT = 3


@dataclass(frozen=True, slots=True)
class ScoredStage(Given):
    """A judge that may be a stage, and its scores of all labelled items; None where it has none.

    `cost` is that of asking it about one item, 0 or more. `flagged` says which verdicts have a
    flag; empty for none.
    """

    judge: JudgeIdentity
    scores: Sequence[float | None]
    cost: float = 0.0
    flagged: Sequence[bool] = ()


@dataclass(frozen=True, slots=True, repr=False)
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class FrontierStage:
    """A judge of a cascade by its place among the scored ones.

    Its calibrator has the bounds between which an item goes on; without bounds it settles all.
    `fitted` says whether labels made it, `share` which share of the items reaches it.
    """

    stage: int
    calibrator: Calibrator
    fitted: bool
    share: float


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True, repr=False)
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

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row a cascade, the cheapest first."""
        return [
            {"stages": [stage.stage for stage in point.stages]}
            | row_of(point, "cost settled accuracy least_accuracy certified")
            | {"proposed": place == self.proposed}
            for place, point in enumerate(self.points)
        ]


def save_cascade(cascade: Judge, path: str | Path, **facts: object) -> None:
    """Write a cascade into a file that `load_cascade` and `--cascade` read.

    Its stages must bring their calibrators, not names. `facts` are kept beside it, for people.
    Raises OSError and InvalidArgument.
    """
    need_kind(cascade, "cascade", Judge, "a Judge")
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
    try:
        fields = parse_json(Path(path).read_bytes(), str(path), None)
    except FileError:
        fields = None
    if not isinstance(fields, dict) or fields.get("judged_cascade") != _FORMAT:
        problem = "is no file that `judged frontier -o` wrote"
    elif fields.get("sha256") != _sha256(fields.get("cascade")):
        problem = "was changed after it was made; make it anew with `judged frontier`"
    else:
        return Record(fields["cascade"], str(path), None, "cascade").read(Judge)
    raise errors.InvalidArgument.of_field("cascade", f"{path} {problem}")
