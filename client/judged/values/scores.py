"""Answers of a system, rubrics, and scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judged._inputs import Given, set_fields
from judged._views import Listed, View, row_of
from judged.values.calibrators import Calibrator
from judged.values.choices import ClaimVerdict, Source, Status
from judged.values.groups import VerdictError, _StatusCounts
from judged.values.judges import JudgeIdentity, Scalar, Usage


@dataclass(frozen=True)
class AnswerItem(Given):
    """One answer of a system, with the texts to measure it by.

    `item_id` is returned with every score and must be unique; a whole number is converted to text.
    `references` are answers known to be right; `contexts` are the texts that the system was given,
    best rank first.

    For rubrics that show them: `other_answer`, another answer to the same query; `sources_used`,
    the sources that the system says it used; `confidence`, the system's own, in [0, 1].
    """

    item_id: str
    query: str = ""
    answer: str = ""
    references: Sequence[str] = ()
    contexts: Sequence[str] = ()
    other_answer: str = ""
    sources_used: Sequence[str] = ()
    confidence: float | None = None


@dataclass(frozen=True, init=False)
class Rubric:
    """A rubric by id, or by id@version to refuse other versions, with your overrides.

    `min_score` is the threshold; None is the rubric's own. `parameters` are those of the judge
    "answers": model, samples, temperature, max_tokens, max_context_tokens; each may also be given
    by its name. `weights` of dimensions by name replace the rubric's own; a dimension left out then
    counts for nothing. A `calibration` adds a probability to each score; a string is the name of
    one that the server has.
    """

    rubric: str
    min_score: float | None = None
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    calibration: Calibrator | str | None = None

    def __init__(
        self,
        rubric: str,
        min_score: float | None = None,
        parameters: Mapping[str, Scalar] | None = None,
        weights: Mapping[str, float] | None = None,
        *,
        calibration: Calibrator | str | None = None,
        **named: Scalar | None,
    ) -> None:
        """Add `named` to the parameters. Raises TypeError for a parameter given both ways."""
        named = {name: value for name, value in named.items() if value is not None}
        if twice := named.keys() & (parameters or {}).keys():
            raise TypeError(f"{', '.join(sorted(twice))} stands in parameters too; give it once")
        set_fields(
            self,
            rubric=rubric,
            min_score=min_score,
            parameters={**(parameters or {}), **named},
            weights=weights or {},
            calibration=calibration,
        )

    @property
    def id(self) -> str:
        """The id without the version, as in scores and summaries."""
        return self.rubric.partition("@")[0]


@dataclass(frozen=True)
class VerifiedClaim:
    """One claim of an answer, or one fact of a reference, with the evidence the model names."""

    claim: str
    verdict: ClaimVerdict
    evidence: str


@dataclass(frozen=True)
class DimensionScore:
    """One dimension of a score; None if not assessable. `weight` is the weight finally applied."""

    name: str
    score: float | None
    weight: float


@dataclass(frozen=True, repr=False)
class AnswerScore(View):
    """The score of one item by one rubric.

    `score` in [0, 1], `passed` and `agreement` are None unless the status is OK; `error` says why
    it is not. `min_score` is the applied threshold, `judge` the judge that gave the score; both are
    None if the server never answered. `samples` is the number of votes asked for.
    `reported_overall` is the model's own overall number, which the score does not use.
    `probability` is that people call the answer good, by the rubric's calibration if it has one.
    """

    item_id: str
    rubric: str
    status: Status
    score: float | None = None
    passed: bool | None = None
    min_score: float | None = None
    reasoning: str = ""
    raw_replies: Sequence[str] = ()
    usage: Usage = field(default_factory=Usage)
    samples: int = 0
    agreement: float | None = None
    source: Source | None = None
    dimensions: Sequence[DimensionScore] = ()
    reported_overall: float | None = None
    claims: Sequence[VerifiedClaim] = ()
    error: VerdictError | None = None
    warnings: Sequence[str] = ()
    judge: JudgeIdentity | None = None
    model: str = ""
    system_fingerprint: str = ""
    probability: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the score as a JSON object; a single sample has no agreement."""
        fields = View.to_dict(self)
        return fields if self.samples > 1 else fields | {"agreement": None}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row: the item, the rubric, the score and its source."""
        return [
            row_of(
                self,
                "item_id rubric status score probability passed min_score agreement reasoning "
                "source model",
                agreement=self.agreement if self.samples > 1 else None,
                cost=self.usage.cost,
                error=None if self.error is None else self.error.message,
                warnings="; ".join(self.warnings),
            )
        ]


@dataclass(frozen=True)
class ScoreCounts(_StatusCounts):
    """The number of scores with each status, and of those that passed."""

    passed: int = 0


@dataclass(frozen=True)
class RubricSummary:
    """The summary of the scores of one rubric.

    `mean` is over the scores that are OK, None if there are none: failures are left out, not
    counted as 0.
    """

    rubric: str
    mean: float | None
    counts: ScoreCounts
    judge: JudgeIdentity | None = None

    @property
    def passed(self) -> int:
        """The number of items that passed."""
        return self.counts.passed


def summary_of(summaries: Sequence[RubricSummary], rubric: str) -> RubricSummary:
    """Return the summary of a rubric by its id. Raises KeyError."""
    for summary in summaries:
        if summary.rubric == rubric:
            return summary
    raise KeyError(f"{rubric}; these scores have {', '.join(s.rubric for s in summaries)}")


@dataclass(frozen=True, repr=False)
class ScoredAnswers(View, Listed[AnswerScore]):
    """The scores of a call: for each item, in order, its score by each rubric, in order.

    `rubrics` has a summary per rubric; `usage` is the total. A slice is a list.
    """

    scores: Sequence[AnswerScore]
    rubrics: Sequence[RubricSummary]
    usage: Usage

    def __len__(self) -> int:
        return len(self.scores)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per score."""
        return [row for score in self.scores for row in score.to_rows()]

    def _item(self, index: int) -> AnswerScore:
        return self.scores[index]

    def summary(self, rubric: str) -> RubricSummary:
        """Return the summary of a rubric by its id. Raises KeyError."""
        return summary_of(self.rubrics, rubric)

    @property
    def errors(self) -> dict[int, VerdictError]:
        """The errors of missing scores, by index."""
        return {i: score.error for i, score in enumerate(self.scores) if score.error is not None}
