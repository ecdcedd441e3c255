"""One judgement of a trace: what a judge said of an item, and which judge it was.

Which item it belongs to is up to `trace`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from judged._files import Record
from judged._views import plain
from judged.values import (
    AnswerScore,
    DimensionScore,
    Flag,
    JudgeIdentity,
    Source,
    Status,
    VerdictError,
    VerifiedClaim,
)

Value = TypeVar("Value")

_SLACK = 1e-9
"""What a score may lack to the threshold, as on the server."""
_RUBRIC = re.compile(r"\|rubric:([^|@]+)@([^|]+)(?:\|sha:([0-9a-f]+))?")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_OF_VERDICTS = ("passed", "score", "agreement", "probability", "stage")
"""What a judgement has only where its status is OK."""
_OF_OK = ("passed", "score")
"""What it must have there."""
_RARE = ("probability", "stage", "max_grade", "votes", "breakdown")
"""What is written only where there is some."""


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The parts of a score; those that its rubric does not have are empty."""

    dimensions: Sequence[DimensionScore] = ()
    reported_overall: float | None = None
    claims: Sequence[VerifiedClaim] = ()
    warnings: Sequence[str] = ()

    @classmethod
    def of(cls, score: AnswerScore) -> Breakdown | None:
        """Return the parts of a score, None when it has none."""
        parts = alike(cls, score)
        lists = parts.dimensions, parts.claims, parts.warnings
        return parts if any(lists) or parts.reported_overall is not None else None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judge said of an item. `passed` and `score` are None unless the status is OK.

    `samples` is the number of votes that were asked for, 0 for judges that don't vote; `votes` are
    the single ones in order, None for one that failed or abstained, where they are known. Judges
    that don't vote have no `agreement` either, judges that are not calibrated no `probability`, and
    others than cascades no `stage`.
    """

    judge: JudgeIdentity
    status: Status
    passed: bool | None = None
    score: float | None = None
    source: Source = Source.COMPUTED
    flags: Flag = Flag.NONE
    samples: int = 0
    agreement: float | None = None
    rationale: str = ""
    model: str = ""
    error: VerdictError | None = None
    breakdown: Breakdown | None = None
    probability: float | None = None
    stage: int | None = None
    votes: Sequence[bool | None] = ()

    @property
    def name(self) -> str:
        """The name that the judgement has in its item, see `judgement_name`."""
        return judgement_name(self.judge)


def alike(kind: type[Value], value: object, /, **others: object) -> Value:
    """Return a dataclass with the fields of another one that have the same names, and `others`."""
    names = [part.name for part in fields(kind) if hasattr(value, part.name)]  # type: ignore[arg-type]  # a dataclass
    return kind(**{name: getattr(value, name) for name in names} | others)


def judgement_name(judge: JudgeIdentity) -> str:
    """Return the kind of a judge with its rubric, else its profile: "llm/retrieval_match"."""
    rubric = rubric_of(judge)
    part = judge.profile if rubric is None else rubric[0]
    return f"{judge.kind}/{part}" if part else judge.kind


def rubric_of(judge: JudgeIdentity) -> tuple[str, str, str] | None:
    """Return the rubric that a signature names, its version and the beginning of its hash."""
    found = _RUBRIC.search(judge.signature)
    return None if found is None else (found[1], found[2], found[3] or "")


def write_judgement(judgement: Judgement) -> dict[str, Any]:
    """Return the JSON object of a judgement."""
    made = plain(judgement) | {"score": judgement.score}  # what is no number is not written
    judge = made.pop("judge")
    judge["max_grade"] = judge["max_grade"] or None
    whole = {"judge": judge.pop("kind")} | judge | made
    return {
        name: value for name, value in whole.items() if name not in _RARE or value not in (None, [])
    }


def _names(kind: Any) -> set[str]:  # noqa: ANN401 - a dataclass
    return {part.name for part in fields(kind)}


_KNOWN = {
    # The first three are of earlier versions, and told by the signature or no more.
    "": {"rubric", "rubric_version", "majority"} | _names(Judgement) | _names(JudgeIdentity),
    "error": _names(VerdictError),
    "breakdown": _names(Breakdown),
    "dimensions": _names(DimensionScore),
    "claims": _names(VerifiedClaim),
}
"""The fields of a judgement, and of the objects in it by their names."""


def read_judgement(record: Record, name: str) -> Judgement:
    """Return the judgement that an item has under a name. Raises FileError with line and key."""
    _check_parts(record, "")
    judge = record.read(JudgeIdentity, kind=record.text("judge"))
    judgement = record.read(Judgement, judge=judge)
    # What has a default in memory and none in a file: without `samples` a vote would pass for none.
    for key in ("source", "samples", *(_OF_OK if judgement.status is Status.OK else ())):
        if record.get(key) is None:
            raise record.missing((key,))
    for problem in _contradictions(judgement, name):
        raise record.error(problem)
    return judgement


def _check_parts(record: Record, name: str) -> None:
    """Raise FileError for fields that the format does not have, and for shares that are none."""
    record.refuse_unknown(_KNOWN[name])
    for key in ("min_score", "score", "agreement", "probability", "weight"):
        record.share(key)
    for key in ("error", "breakdown"):
        if (inner := record.record(key)) is not None:
            _check_parts(inner, key)
    for key in ("dimensions", "claims"):
        for inner in record.records(key):
            _check_parts(inner, key)


def _contradictions(judgement: Judgement, name: str) -> Iterator[str]:
    """Yield what in a judgement contradicts the rest of it, or the name that it stands under."""
    judge, score, status = judgement.judge, judgement.score, judgement.status
    for key in ("scoring_key", "fingerprint"):
        if not _SHA256.fullmatch(getattr(judge, key)):
            yield f"has {key!r} that is not a SHA-256 in hex"
    if len(judgement.votes) not in {0, judgement.samples}:
        yield "has 'votes' of another number than 'samples'"
    for key in () if status is Status.OK else _OF_VERDICTS:
        if getattr(judgement, key) is not None:
            yield f"has {key!r}, but its status is {status.name}"
    if judgement.passed and (score or 0.0) + _SLACK < judge.min_score:
        yield f"has 'passed' true, but its score {score} is below its threshold {judge.min_score}"
    if judgement.name != name:
        yield f"has the signature of {judgement.name!r}"
