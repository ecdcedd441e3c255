"""Scores of answers without a judge: from a trace, then from the server's verdict cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from judged._batching.scoring import summarise
from judged.traces.items import Hashes
from judged.traces.judgement import Breakdown, Judgement, printed_parts
from judged.traces.recording import answer_of
from judged.traces.replay import (
    MissingScores,
    OtherRubric,
    ReplayError,
    check_rubric,
    merged,
    one_judge,
    only_threshold,
    same_judge,
)
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
        cached = None
        if self.cached is not None:
            cached = self.cached(items, [column.asked for column in columns])
            columns = [_checked(column, cached) for column in columns]
        ours = [column.score(item, row) for row, item in enumerate(items) for column in columns]
        others = () if cached is None else cached.scores
        found, missing, self.disagreements = merged(ours, others, "passed")
        if missing:
            row, place = divmod(missing[0], len(columns))
            column, n = columns[place], len(missing)
            raise MissingScores(n, len(ours), column.name, column.judge, items[row].item_id)
        summaries = [
            summarise(column.asked.rubric, found[place :: len(columns)])
            for place, column in enumerate(columns)
        ]
        of_cache = (score.usage for score in found if score.source is not Source.REPLAY)
        return ScoredAnswers(found, summaries, sum(of_cache, Usage()))

    def _column(
        self, items: Sequence[AnswerItem], rubric: Rubric, known: Sequence[RubricInfo]
    ) -> _Column:
        _check_version(rubric, known)
        name = f"{KIND}/{rubric.id}"
        trace = self.trace if self.trace is not None else Trace()
        hashes = trace.hashes if self.trace is not None else Hashes()
        found = [trace.get(answer_of(item, hashes).key, name) for item in items]
        judges = {j.judge.scoring_key: j.judge for j in found if j is not None}
        for judge in judges.values():
            check_rubric(judge, known)
            if self.cached is None:  # which knows better
                _check_asked(rubric, judge)
        threshold = (
            rubric.min_score if rubric.min_score is not None else only_threshold(found, name)
        )
        asked = replace(rubric, rubric=rubric.id, min_score=threshold)
        return _Column(asked, found, one_judge(list(judges.values()), name))


@dataclass(frozen=True, slots=True)
class _Column:
    """What a trace has of one rubric: a judgement or None for each item, and who judges."""

    asked: Rubric
    found: Sequence[Judgement | None]
    judge: JudgeIdentity | None

    @property
    def name(self) -> str:
        """The name that the judgements have in a trace."""
        return f"{KIND}/{self.asked.rubric}"

    def score(self, item: AnswerItem, row: int) -> AnswerScore | None:
        """Return the score of an item under the threshold asked for; None without a judgement."""
        judgement = self.found[row]
        if judgement is None:
            return None
        threshold = self.asked.min_score
        moved = judgement if threshold is None else judgement.at_threshold(threshold)
        if moved is None:
            raise ReplayError(
                f"the samples behind the scores by {self.asked.rubric} are not in the trace, so "
                f"that no other threshold than {judgement.judge.min_score:g} can be applied"
            )
        return _of_trace(item, self.asked.rubric, moved)


def _of_trace(item: AnswerItem, rubric: str, judgement: Judgement) -> AnswerScore:
    parts = judgement.breakdown or Breakdown()
    return AnswerScore(
        item_id=item.item_id,
        rubric=rubric,
        status=judgement.status,
        score=judgement.score,
        passed=judgement.passed,
        min_score=judgement.judge.min_score,
        reasoning=judgement.rationale,
        samples=judgement.samples,
        agreement=judgement.agreement,
        source=Source.REPLAY,
        dimensions=list(parts.dimensions),
        reported_overall=parts.reported_overall,
        claims=list(parts.claims),
        error=judgement.error,
        warnings=list(parts.warnings),
        judge=judgement.judge,
        model=judgement.model,
    )


def _checked(column: _Column, cached: ScoredAnswers) -> _Column:
    """Return a column with the judge that the cache was asked for, whether it knew a score or not.

    Raises ReplayError when the trace has another one, or when the server did not say which.
    """
    asked = cached.summary(column.asked.rubric).judge
    if asked is None:
        errors = (score.error.message for score in cached if score.error is not None)
        why = next(errors, "it sent no score")
        raise ReplayError(f"the server did not say who would judge {column.name}: {why}")
    return replace(column, judge=same_judge(column.judge, asked))


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
