"""Scores of answers without a judge: from a trace, then from the server's verdict cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from judged._batching.scoring import summarise
from judged.traces.items import Hashes
from judged.traces.judgement import Breakdown, Judgement, alike, printed_parts
from judged.traces.recording import answer_of
from judged.traces.replay import MissingScores, OtherRubric, ReplayError, TracedJudgements, merged
from judged.traces.trace import Trace
from judged.values import (
    AnswerItem,
    AnswerScore,
    JudgeIdentity,
    Rubric,
    RubricInfo,
    Scalar,
    ScoredAnswers,
    Source,
    Usage,
)

KIND = "answers"
_DEFAULTS: Mapping[str, Scalar] = {"model": "", "samples": 0}
"""Values that leave a parameter to the server."""

CachedScores = Callable[[Sequence[AnswerItem], Sequence[Rubric]], ScoredAnswers]
"""Scores answers by the verdict cache alone."""


@dataclass(slots=True)
class ScoreReplay:
    """Gives the scores that a trace has, then those of the cache.

    Both must be by the judge that is asked for: the cache knows it, and without one the parameters
    and weights that a rubric sets must be those that the trace names. A failure that was recorded
    gives way to what the cache has. `disagreements` are the indices of the scores of the last call
    that pass in one and not in the other; the trace's count.
    """

    trace: Trace | None
    cached: CachedScores | None = None
    disagreements: list[int] = field(default_factory=list)

    def scores(
        self, items: Sequence[AnswerItem], rubrics: Sequence[Rubric], known: Sequence[RubricInfo]
    ) -> ScoredAnswers:
        """Return the score of every item by every rubric, in this order.

        A threshold that a rubric does not set is the one its scores were recorded under. `known`
        are the rubrics of the server. Raises OtherRubric when the trace has another version of one,
        MissingScores, and ReplayError where judgements don't fit together.
        """
        columns = [self._column(items, rubric, known) for rubric in rubrics]
        asked = [
            replace(rubric, rubric=rubric.id, min_score=column.threshold)
            for rubric, column in zip(rubrics, columns, strict=True)
        ]
        judges = [column.judge for column in columns]
        others: Sequence[AnswerScore] = ()
        if self.cached is not None:
            cached = self.cached(items, asked)
            others, judges = cached.scores, [_judge_of(column, cached) for column in columns]
        named = [column.judgements() for column in columns]
        ours = [
            None if one is None else _of_trace(item, rubric.rubric, one)
            for row, item in enumerate(items)
            for rubric, column in zip(asked, named, strict=True)
            for one in [column[row]]
        ]
        found, missing, self.disagreements = merged(ours, others, "passed")
        if missing:
            row, place = divmod(missing[0], len(columns))
            name, n = columns[place].name, len(missing)
            raise MissingScores(n, len(ours), name, judges[place], items[row].item_id)
        summaries = [
            summarise(rubric.rubric, found[place :: len(columns)])
            for place, rubric in enumerate(asked)
        ]
        of_cache = (score.usage for score in found if score.source is not Source.REPLAY)
        return ScoredAnswers(found, summaries, sum(of_cache, Usage()))

    def _column(
        self, items: Sequence[AnswerItem], rubric: Rubric, known: Sequence[RubricInfo]
    ) -> TracedJudgements:
        _check_version(rubric, known)
        hashes = Hashes() if self.trace is None else self.trace.hashes
        keys = (answer_of(item, hashes).key for item in items)
        found = TracedJudgements.of(
            self.trace, keys, f"{KIND}/{rubric.id}", known, rubric.min_score
        )
        if self.cached is None and found.judge is not None:  # the cache knows better
            _check_asked(rubric, found.judge)
        return found


def _of_trace(item: AnswerItem, rubric: str, judgement: Judgement) -> AnswerScore:
    score = alike(
        AnswerScore,
        judgement,
        item_id=item.item_id,
        rubric=rubric,
        min_score=judgement.judge.min_score,
        reasoning=judgement.rationale,
        source=Source.REPLAY,
    )
    parts = judgement.breakdown or Breakdown()
    return replace(score, **{part.name: getattr(parts, part.name) for part in fields(parts)})


def _judge_of(column: TracedJudgements, cached: ScoredAnswers) -> JudgeIdentity:
    """Return the judge that the cache was asked for, whether it knew a score or not.

    Raises ReplayError when the trace has another one, or when the server did not say which.
    """
    asked = cached.summary(column.name.removeprefix(f"{KIND}/")).judge
    if asked is None:
        errors = (score.error.message for score in cached if score.error is not None)
        why = next(errors, "it sent no score")
        raise ReplayError(f"the server did not say who would judge {column.name}: {why}")
    return column.same_judge(asked)


def _check_asked(rubric: Rubric, judge: JudgeIdentity) -> None:
    """Raise ReplayError when a rubric asks for what the signature of a judge contradicts."""
    printed = printed_parts(judge)
    for name, value in rubric.parameters.items():
        made = printed.get(name)
        if made is not None and value != _DEFAULTS.get(name) and made not in _printed(value):
            raise ReplayError(
                f"the trace was made by {judge.signature}, but {name} {value} was asked for"
            )
    total = math.fsum(rubric.weights.values())
    asked = {name: weight / total for name, weight in rubric.weights.items() if weight and total}
    shares = (part.partition("=") for part in printed.get("weights", "").split(",") if part)
    if asked and not _alike(asked, {name: float(share) for name, _, share in shares}):
        raise ReplayError(
            f"the trace was made by {judge.signature}, but other weights were asked for"
        )


def _printed(value: Scalar) -> Collection[str]:
    """Return how a signature may print a value; a temperature that is never sent is "unset"."""
    if isinstance(value, bool | str):
        return {value if isinstance(value, str) else str(value).lower()}
    return {format(value, ".12g"), "unset"}


def _alike(asked: Mapping[str, float], made: Mapping[str, float]) -> bool:
    """Say whether shares of dimensions are the same, as far as a signature prints them."""
    names = {*asked, *(name for name, share in made.items() if share)}
    return all(math.isclose(asked.get(n, 0), made.get(n, 0), abs_tol=1e-9) for n in names)


def _check_version(rubric: Rubric, known: Sequence[RubricInfo]) -> None:
    """Raise OtherRubric where a version is asked for that is not the server's."""
    _, pinned, version = rubric.rubric.partition("@")
    has = next((info.version for info in known if info.rubric == rubric.id), version)
    if pinned and version != has:
        raise OtherRubric(f"rubric {rubric.id}@{has}, not {rubric.rubric}, which was asked for")
