"""Answers scored by several language models, whose scores are combined into one.

A panel helps where models err on different answers. Each member scores by the same rubric; what the
panel's score is follows the rules of the judge `panel`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, median

from judged._batching.scoring import as_rubrics, summarise
from judged._inputs import need_ids
from judged.errors import InvalidArgument
from judged.values import (
    AnswerScore,
    JudgeIdentity,
    Rubric,
    ScoredAnswers,
    Source,
    Status,
    Usage,
    VerdictError,
)

_LEAST, _MOST = 2, 16
_SLACK = 1e-9
_QUORUM = (
    "the members tie, or fewer than half of them gave a score; ask other models, or an odd number"
)
_UNKNOWN = 2
"""gRPC's code UNKNOWN, which scores without a quorum have."""
_SOURCES = (Source.COMPUTED, Source.SHARED, Source.REPLAY, Source.CACHE)
"""A panel's score comes from the first of these that one of its members has."""


class Combine(StrEnum):
    """How the scores of a panel's members become one."""

    MEAN = "mean"
    """The mean of their scores; it passes by the rubric's threshold."""
    MEDIAN = "median"
    """The median of their scores, which one member that errs far does not move."""
    VOTE = "vote"
    """The share of members for which the answer passes; it passes where more than half say so."""


@dataclass(frozen=True, slots=True)
class PanelScores:
    """The panel's scores, and those of each member by its model."""

    scores: ScoredAnswers
    members: dict[str, ScoredAnswers]


def rubrics_of_members(
    models: Sequence[str], rubrics: Iterable[Rubric | str]
) -> dict[str, list[Rubric]]:
    """Return the rubrics as each member is asked by them. Raises as `score_by_panel` does."""
    names = need_ids(models, "models")
    if not _LEAST <= len(names) <= _MOST:
        rule = f"must name {_LEAST} to {_MOST} models, not {len(names)}"
        raise InvalidArgument.of_field("models", rule)
    if len(set(names)) < len(names):
        raise InvalidArgument.of_field("models", "names a model twice; it would count twice")
    asked = as_rubrics(rubrics)
    for place, rubric in enumerate(asked):
        if "model" in rubric.parameters:
            rule = "names a model; the members of a panel are named by models"
            raise InvalidArgument.of_field(f"rubrics[{place}]", rule)
        if rubric.calibration is not None:
            rule = "is that of one model's scores, and none of a panel's; leave it out"
            raise InvalidArgument.of_field(f"rubrics[{place}].calibration", rule)
    return {name: [replace_model(rubric, name) for rubric in asked] for name in names}


def replace_model(rubric: Rubric, model: str) -> Rubric:
    """Return a rubric that is asked of a model."""
    return replace(rubric, parameters={**rubric.parameters, "model": model})


def combined(members: dict[str, ScoredAnswers], how: Combine) -> PanelScores:
    """Return the panel's scores of what its members scored, all in the same order."""
    rows = zip(*(found.scores for found in members.values()), strict=True)
    scores = [_combine(row, how) for row in rows]
    names = [summary.rubric for summary in next(iter(members.values())).rubrics]
    rubrics = [summarise(name, scores[place :: len(names)]) for place, name in enumerate(names)]
    usage = sum((found.usage for found in members.values()), Usage())
    return PanelScores(ScoredAnswers(scores, rubrics, usage), members)


def _combine(row: Sequence[AnswerScore], how: Combine) -> AnswerScore:
    valid = [score for score in row if score.score is not None]
    values = [score.score for score in valid if score.score is not None]
    yes = sum(score.passed is True for score in valid)
    no = len(valid) - yes
    threshold = next((score.min_score for score in row if score.min_score is not None), None)
    status, error = Status.OK, None
    value = passed = agreement = None
    if not valid:
        worst = next((score for score in row if score.status is Status.ERROR), row[0])
        status, error = worst.status, worst.error
    elif 2 * len(valid) < len(row) or (how is Combine.VOTE and yes == no):
        retryable = any(score.error is not None and score.error.retryable for score in row)
        status = Status.ABSTAINED
        error = VerdictError(_UNKNOWN, "NO_QUORUM", _QUORUM, retryable)
    else:
        agreement = max(yes, no) / len(valid)
        if how is Combine.VOTE:
            value, passed = yes / len(valid), yes > no
        else:
            value = fmean(values) if how is Combine.MEAN else median(values)
            passed = threshold is not None and value + _SLACK >= threshold
    agreeing = [score for score in valid if score.passed is passed] or valid[:1]
    sources = {score.source for score in row}
    return AnswerScore(
        item_id=row[0].item_id,
        rubric=row[0].rubric,
        status=status,
        score=value,
        passed=passed,
        min_score=threshold,
        reasoning=agreeing[0].reasoning if value is not None else "",
        usage=sum((score.usage for score in row), Usage()),
        samples=len(row),
        agreement=agreement,
        source=next((source for source in _SOURCES if source in sources), None),
        error=error,
        warnings=list(dict.fromkeys(text for score in row for text in score.warnings)),
        judge=_identity(row, how),
        model=", ".join(dict.fromkeys(score.model for score in row if score.model)),
    )


def _identity(row: Sequence[AnswerScore], how: Combine) -> JudgeIdentity | None:
    """Return the panel's identity, None where a member's is not known: it never answered."""
    judges = [score.judge for score in row if score.judge is not None]
    if len(judges) < len(row):
        return None
    members = ",".join(judge.fingerprint[:8] for judge in judges)
    whole = [("fingerprint", judge.fingerprint) for judge in judges]
    parts = [("combine", how.value), ("members", members)]
    return JudgeIdentity.build("score_panel", "", judges[0].min_score, parts, 1, whole)


def shifted(
    progress: Callable[[int, int], object] | None, before: int, members: int
) -> Callable[[int, int], object] | None:
    """Return what tells `progress` of all members, given the number of those that are done."""
    if progress is None:
        return None
    return lambda done, total: progress(before * total + done, members * total)
