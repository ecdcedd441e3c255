"""One judgement of a trace: what a judge said of an item, and which judge it was.

The threshold is applied when a judgement is read. Its JSON is in `judgement_json`; which item it
belongs to is up to `items`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from judged.traces.breakdown import Breakdown
from judged.values import Flag, JudgeIdentity, Source, Status, VerdictError

SLACK = 1e-9
"""What a score may lack to the threshold, as on the server."""
_RUBRIC = re.compile(r"\|rubric:([^|@]+)@([^|]+)(?:\|sha:([0-9a-f]+))?")
_THRESHOLD = re.compile(r"\|min_score:[^|]*")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judge said of an item. `passed` and `score` are None unless the status is OK.

    `samples` is the number of votes that were asked for, 0 for judges that don't vote; `votes` are
    the single ones in order, None for one that failed or abstained, where they are known. Judges
    that don't vote have no `agreement` either, judges that are not calibrated no `probability`, and
    others than cascades no `stage`. `majority` says whether most votes were a yes, None where that
    is not known, or where it depends on the threshold: then a vote is a score that meets it.
    """

    judge: JudgeIdentity
    status: Status
    passed: bool | None = None
    score: float | None = None
    source: Source = Source.COMPUTED
    flags: Flag = Flag.NONE
    samples: int = 0
    majority: bool | None = None
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

    @property
    def rubric(self) -> tuple[str, str, str] | None:
        """The rubric, its version and the beginning of its hash; None without a rubric."""
        return rubric_of(self.judge)

    def at_threshold(self, min_score: float) -> Judgement | None:
        """Return the judgement under another threshold; None when its votes are not known."""
        if min_score == self.judge.min_score:
            return self
        moved = replace(self, judge=identity_at(self.judge, min_score))
        if self.score is None:
            return moved
        met = self.score + SLACK >= min_score
        if self.agreement is None or not met:
            return replace(moved, passed=met)
        if self.majority is None and self.samples != 1:
            return None
        return replace(moved, passed=self.majority is not False)


def judgement_name(judge: JudgeIdentity) -> str:
    """Return the kind of a judge with its rubric, else its profile: "llm/retrieval_match"."""
    rubric = rubric_of(judge)
    part = judge.profile if rubric is None else rubric[0]
    return f"{judge.kind}/{part}" if part else judge.kind


def rubric_of(judge: JudgeIdentity) -> tuple[str, str, str] | None:
    """Return the rubric that a signature names, its version and the beginning of its hash."""
    found = _RUBRIC.search(judge.signature)
    return None if found is None else (found[1], found[2], found[3] or "")


def printed_parts(judge: JudgeIdentity) -> dict[str, str]:
    """Return what a signature prints by name: rubric, model, samples and so on."""
    parts = (part.partition(":") for part in judge.signature.split("|")[1:])
    return {name: value for name, _, value in parts}


def identity_at(judge: JudgeIdentity, min_score: float) -> JudgeIdentity:
    """Return the identity that the server gives the same judge under another threshold."""
    if min_score == judge.min_score:
        return judge
    fingerprint = hashlib.sha256(f"{judge.scoring_key}|{float(min_score)!r}".encode()).hexdigest()
    signature = _THRESHOLD.sub(f"|min_score:{min_score:.12g}", judge.signature)
    return replace(judge, min_score=min_score, signature=signature, fingerprint=fingerprint)


def majority_of(
    votes: Sequence[bool], passed: bool | None, score: float | None, min_score: float
) -> bool | None:
    """Return whether most votes were a yes, from the votes or else from what came of them."""
    if votes:
        return 2 * sum(votes) > len(votes)
    if passed or score is None:
        return passed or None
    return False if score + SLACK >= min_score else None
