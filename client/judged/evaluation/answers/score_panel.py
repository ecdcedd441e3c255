"""Answers scored by several language models, whose scores are combined into one.

A panel helps where models err on different answers. Each member scores by the same rubric; what the
panel's score is follows the rules of the judge `panel`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, median
from typing import Any

from judged._batching.scoring import summarise
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

MEMBERS = (2, 16)
_SLACK = 1e-9
_QUORUM = (
    "the members tie, or fewer than half of them gave a score; ask other models, or an odd number"
)
_UNKNOWN = 2
"""gRPC's code UNKNOWN, which scores without a quorum have."""


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


def check_panel(
    models: Sequence[str], rubrics: Iterable[Rubric | str], combine: Combine | str
) -> tuple[Sequence[str], list[Rubric], Combine]:
    """Return the members, the rubrics and how to combine. Raises as `score_by_panel` does."""
    names = need_ids(models, "models")
    low, high = MEMBERS
    if not low <= len(names) <= high:
        rule = f"must name {low} to {high} models, not {len(names)}"
        raise InvalidArgument.of_field("models", rule)
    if len(set(names)) < len(names):
        raise InvalidArgument.of_field("models", "names a model twice; it would count twice")
    if combine not in list(Combine):
        raise InvalidArgument.of_field("combine", f"must be one of {', '.join(Combine)}")
    asked = [rubric if isinstance(rubric, Rubric) else Rubric(rubric) for rubric in rubrics]
    for place, rubric in enumerate(asked):
        if "model" in rubric.parameters:
            rule = "names a model; the members of a panel are named by models"
            raise InvalidArgument.of_field(f"rubrics[{place}]", rule)
        if rubric.calibration is not None:
            rule = "is that of one model's scores, and none of a panel's; leave it out"
            raise InvalidArgument.of_field(f"rubrics[{place}].calibration", rule)
    return names, asked, Combine(combine)


def replace_model(rubric: Rubric, model: str) -> Rubric:
    """Return a rubric that is asked of a model."""
    return replace(rubric, parameters={**rubric.parameters, "model": model})


def combined(members: dict[str, ScoredAnswers], how: Combine) -> ScoredAnswers:
    """Return the panel's scores of what its members scored, all in the same order."""
    rows = zip(*(scores.scores for scores in members.values()), strict=True)
    scores = [_combine(row, how) for row in rows]
    first = next(iter(members.values()))
    usage = sum((found.usage for found in members.values()), Usage())
    n = len(first.rubrics)
    rubrics = [
        summarise(summary.rubric, scores[place::n]) for place, summary in enumerate(first.rubrics)
    ]
    return ScoredAnswers(scores, rubrics, usage)


def _combine(row: Sequence[AnswerScore], how: Combine) -> AnswerScore:
    first = row[0]
    threshold = next((score.min_score for score in row if score.min_score is not None), None)
    base: dict[str, Any] = {
        "item_id": first.item_id,
        "rubric": first.rubric,
        "min_score": threshold,
        "usage": sum((score.usage for score in row), Usage()),
        "samples": len(row),
        "source": _source(row),
        "warnings": list(dict.fromkeys(text for score in row for text in score.warnings)),
        "judge": _identity(row, how),
        "model": ", ".join(dict.fromkeys(score.model for score in row if score.model)),
    }
    valid = [score for score in row if score.score is not None]
    if not valid:
        worst = next((score for score in row if score.status is Status.ERROR), first)
        return AnswerScore(status=worst.status, error=worst.error, **base)
    yes = sum(score.passed is True for score in valid)
    no = len(valid) - yes
    if 2 * len(valid) < len(row) or (how is Combine.VOTE and yes == no):
        retryable = any(score.error is not None and score.error.retryable for score in row)
        error = VerdictError(_UNKNOWN, "NO_QUORUM", _QUORUM, retryable)
        return AnswerScore(status=Status.ABSTAINED, error=error, **base)
    values = [score.score for score in valid if score.score is not None]
    if how is Combine.VOTE:
        value, passed = yes / len(valid), yes > no
    else:
        value = fmean(values) if how is Combine.MEAN else median(values)
        passed = threshold is not None and value + _SLACK >= threshold
    agreeing = next((score for score in valid if score.passed is passed), valid[0])
    return AnswerScore(
        status=Status.OK,
        score=value,
        passed=passed,
        reasoning=agreeing.reasoning,
        agreement=max(yes, no) / len(valid),
        **base,
    )


def _source(row: Sequence[AnswerScore]) -> Source | None:
    known = {score.source for score in row if score.source is not None}
    for source in (Source.COMPUTED, Source.SHARED, Source.REPLAY, Source.CACHE):
        if source in known:
            return source
    return None


def _identity(row: Sequence[AnswerScore], how: Combine) -> JudgeIdentity | None:
    """Return the panel's identity, None where a member's is not known: it never answered."""
    judges = [score.judge for score in row if score.judge is not None]
    if len(judges) < len(row):
        return None
    keys = "|".join([how.value, *(judge.scoring_key for judge in judges)])
    key = hashlib.sha256(keys.encode()).hexdigest()
    prints = "|".join([how.value, *(judge.fingerprint for judge in judges)])
    members = ",".join(judge.fingerprint[:8] for judge in judges)
    least = judges[0].min_score
    return JudgeIdentity(
        "score_panel",
        how.value,
        least,
        f"score_panel|combine:{how}|members:{members}|min_score:{least:.12g}|v1",
        key,
        hashlib.sha256(prints.encode()).hexdigest(),
    )


def shifted(
    progress: Callable[[int, int], object] | None, before: int, members: int
) -> Callable[[int, int], object] | None:
    """Return what tells `progress` of all members, given the number of those that are done."""
    if progress is None:
        return None
    return lambda done, total: progress(before * total + done, members * total)
