"""Answers and their scores; the shapes are those of scores.proto."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from judged.values.calibrators import Calibrator
from judged.values.choices import Source, Status
from judged.values.judges import JudgeIdentity, Usage
from judged.values.scores import DimensionScore, VerifiedClaim

from judged_server.domain.judges import ParameterScalar
from judged_server.domain.verdicts import VerdictFault


@dataclass(frozen=True, slots=True)
class AnswerItem:
    """One answer of a system, and what it may be measured by; `contexts` the best rank first.

    `sources_used` and `confidence` are what the system says of its answer.
    """

    item_id: str
    query: str
    answer: str
    references: Sequence[str] = ()
    contexts: Sequence[str] = ()
    other_answer: str = ""
    sources_used: Sequence[str] = ()
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class RubricSpec:
    """A rubric and what a request overrides of it. Unset means the rubric's own.

    `calibration` may be the name of one that the server has.
    """

    rubric: str
    min_score: float | None = None
    parameters: Mapping[str, ParameterScalar] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    calibration: Calibrator | str | None = None


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
class RubricSummary:
    """The scores of one rubric in sum: `mean` of those that are OK, None without any."""

    rubric: str
    identity: JudgeIdentity
    mean: float | None
    passed: int
    ok: int
    error: int
    abstained: int
    not_assessable: int


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """All scores of a call in sum: the rubrics in the order they were asked for."""

    rubrics: tuple[RubricSummary, ...]
    usage: Usage
