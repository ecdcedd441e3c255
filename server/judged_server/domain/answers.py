"""Scores of answers; the shapes are those of scores.proto."""

from __future__ import annotations

from dataclasses import dataclass, field

from judged.values.choices import Source, Status
from judged.values.judges import JudgeIdentity, Usage
from judged.values.scores import DimensionScore, RubricSummary, VerifiedClaim

from judged_server.domain.verdicts import VerdictFault


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """The score of one item by one rubric.

    `score` (in [0, 1]), `passed` and `agreement` are None unless the status is OK; `fault` is set
    when it is not, with the index 0. `source` is CACHE when no question had to be asked.
    """

    item_id: str
    rubric: str
    status: Status
    identity: JudgeIdentity
    score: float | None = None
    passed: bool | None = None
    reasoning: str = ""
    raw_replies: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    samples: int = 1
    agreement: float | None = None
    source: Source = Source.COMPUTED
    dimensions: tuple[DimensionScore, ...] = ()
    reported_overall: float | None = None
    claims: tuple[VerifiedClaim, ...] = ()
    fault: VerdictFault | None = None
    warnings: tuple[str, ...] = ()
    model: str = ""
    system_fingerprint: str = ""
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """All scores of a call in sum: the rubrics in the order they were asked for."""

    rubrics: tuple[RubricSummary, ...]
    usage: Usage
