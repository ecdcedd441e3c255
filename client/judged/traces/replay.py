"""Verdicts and scores without a judge: from a trace, then from the server's verdict cache.

What a judgement says under another threshold is in `judgement`.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from typing import NamedTuple, TypeVar

from judged._batching.scoring import summarise
from judged._views import of_all, word
from judged.traces.judgement import (
    Breakdown,
    Judgement,
    alike,
    identity_at,
    judgement_name,
    rubric_of,
)
from judged.traces.trace import NOT_CACHED, Item, Trace, answer_of, contexts_of
from judged.values import (
    AnswerItem,
    AnswerScore,
    JudgeIdentity,
    QueryGroup,
    Rubric,
    RubricInfo,
    Scalar,
    ScoredAnswers,
    Source,
    Status,
    Usage,
    Verdict,
    VerdictDetail,
    Verdicts,
)

Cached = Callable[[Sequence[QueryGroup], float | None], Verdicts]
"""Judges groups by the verdict cache alone, under a threshold, None for the judge's own."""
CachedScores = Callable[[Sequence[AnswerItem], Sequence[Rubric]], ScoredAnswers]
"""Scores answers by the verdict cache alone."""
Said = TypeVar("Said", Verdict, AnswerScore)

KIND = "answers"
_DEFAULTS: Mapping[str, Scalar] = {"model": "", "samples": 0}
"""Values that leave a parameter to the server."""


class Place(NamedTuple):
    """One context of groups by indices."""

    group: int
    retrieved: int
    expected: int


class ReplayError(Exception):
    """A trace can't stand for a judge. The message says why.

    `field` names the one of Replay to set where several would do, else it is "".
    """

    __module__ = "judged.traces"

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


@dataclass(eq=False)
class Missing(ReplayError):
    """Neither the trace nor the cache has `missing` of `total` judgements, those called `name`.

    `judge` is the one they should come from, None where nothing tells. `first` says in words what
    the first is about that is missing, and `place` which context it is, None for scores.
    """

    __module__ = "judged.traces"

    missing: int
    total: int
    name: str
    judge: JudgeIdentity | None
    first: str
    place: Place | None = None
    group: QueryGroup | None = None

    def __post_init__(self) -> None:
        super().__init__(
            f"{of_all(self.missing, self.total, 'judgement', 'judgements')} by {self.name} "
            f"{word(self.missing, 'is', 'are')} missing, first that of {self.first}; judge these "
            "items, keep what is said with record_verdicts or record_scores, and replay the trace "
            "again"
        )


class OtherRubric(ReplayError):
    """The judgements were made by a rubric that is not the server's. The message names both.

    `lacking` is the id of a rubric that the server does not have in any version, else "".
    """

    __module__ = "judged.traces"

    def __init__(self, rubrics: str, lacking: str = "") -> None:
        super().__init__(f"the judgements were made by {rubrics}")
        self.lacking = lacking


@dataclass(frozen=True, slots=True)
class _Traced:
    """What a trace has under a name: a judgement or None for each item, and who judged.

    `threshold` is the one that is applied, None without a judgement.
    """

    name: str
    found: Sequence[Judgement | None]
    judge: JudgeIdentity | None
    threshold: float | None

    @classmethod
    def of(
        cls,
        trace: Trace | None,
        items: Iterable[Item],
        name: str,
        rubrics: Sequence[RubricInfo],
        threshold: float | None,
    ) -> _Traced:
        """Return the judgements of items; by default under their own threshold.

        `rubrics` are those of the server. Raises OtherRubric, and ReplayError for those of several
        judges or thresholds, or whose votes are not known.
        """
        kept = {} if trace is None else trace.items
        found = [kept[i.key].judgements.get(name) if i.key in kept else None for i in items]
        known = [one.judge for one in found if one is not None]
        judges = list({judge.scoring_key: judge for judge in known}.values())
        for judge in judges:
            _check_rubric(judge, rubrics)
        if len(judges) > 1:
            raise ReplayError(
                f"the judgements by {name} are those of several judges, {judges[0].signature} and "
                f"{judges[1].signature}"
            )
        own = sorted({judge.min_score for judge in known})
        if threshold is None and len(own) > 1:
            raise ReplayError(
                f"the judgements by {name} were made under thresholds from {own[0]:g} to "
                f"{own[-1]:g}; say which to apply",
                "min_score",
            )
        threshold = own[0] if threshold is None and own else threshold
        moved = []
        for one in found:
            at = None if one is None or threshold is None else one.at_threshold(threshold)
            if one is not None and at is None:
                raise ReplayError(
                    f"the votes behind a judgement by {name} are not in the trace, so that no "
                    f"other threshold than {one.judge.min_score:g} can be applied"
                )
            moved.append(at)
        return cls(name, moved, judges[0] if judges else None, threshold)

    def same_judge(self, cached: JudgeIdentity) -> JudgeIdentity:
        """Return the judge that the cache was asked for too. Raises ReplayError for another."""
        if self.judge is not None and self.judge.scoring_key != cached.scoring_key:
            raise ReplayError(
                f"the trace was made by {self.judge.signature}, but the cache was asked for "
                f"{cached.signature}"
            )
        return self.judge or cached


def _merged(
    ours: Sequence[Said | None], others: Sequence[Said], decision: str
) -> tuple[list[Said], list[int], list[int]]:
    """Return what a trace has, or else the cache; where neither has; and where they disagree.

    `others` are those of the cache, none where it was not asked. A failure in the trace gives way
    to what the cache has; `decision` names the field on which the two may disagree.
    """
    found: list[Said] = []
    missing: list[int] = []
    disagreements: list[int] = []
    for index, our in enumerate(ours):
        other: Said | None = others[index] if others else None
        if other is not None and other.error is not None and other.error.reason == NOT_CACHED:
            other = None
        both = our is not None and other is not None and our.status is other.status is Status.OK
        if both and getattr(our, decision) != getattr(other, decision):
            disagreements.append(index)
        failed = our is None or our.status is Status.ERROR
        taken = other if failed and other is not None else our
        if taken is None:
            missing.append(index)
        else:
            found.append(taken)
    return found, missing, disagreements


@dataclass(slots=True)
class Replay:
    """Stands for a judge: gives the verdicts that a trace has, then those of the cache.

    `judgements` names those of the trace to take, "" when it has one kind only. `min_score` is the
    threshold, None for the one they were recorded under. A failure that was recorded gives way to
    what the cache has. `disagreements` are the indices of the verdicts of the last call on which
    the two have different decisions; the trace's counts.
    """

    trace: Trace | None
    judgements: str = ""
    min_score: float | None = None
    cached: Cached | None = None
    with_details: bool = False
    disagreements: list[int] = field(default_factory=list)

    def verdicts(
        self, groups: Sequence[QueryGroup], rubrics: Sequence[RubricInfo]
    ) -> Verdicts | None:
        """Return the verdict of every context; None when there is nothing to judge.

        `rubrics` are those of the server. Raises OtherRubric when the trace has another version of
        one, Missing, and ReplayError where judgements don't fit together.
        """
        name = self._name()
        items = list(contexts_of(groups, (self.trace or Trace()).hashes))
        sizes = (0 if group.by_id else group.n_expected * group.n_retrieved for group in groups)
        offsets = list(accumulate(sizes, initial=0))
        if not items:
            return None
        traced = _Traced.of(self.trace, items, name, rubrics, self.min_score)
        judge, others = traced.judge, list[Verdict]()
        if self.cached is not None:
            # No judge takes groups that are matched by document id.
            asked = [QueryGroup() if group.by_id else group for group in groups]
            cached = self.cached(asked, traced.threshold)
            others, judge = list(cached), traced.same_judge(cached.judge)
        ours = [None if one is None else self._verdict(one) for one in traced.found]
        found, missing, self.disagreements = _merged(ours, others, "relevant")
        if missing or judge is None:
            number = bisect(offsets, missing[0]) - 1
            group = groups[number]
            place = Place(number, *divmod(missing[0] - offsets[number], group.n_expected))
            if judge is not None and self.trace is None:
                name = judgement_name(judge)
            first = "groups[{}], retrieved[{}], expected[{}]".format(*place)
            raise Missing(len(missing), len(items), name, judge, first, place, group)
        if traced.threshold is not None:
            judge = identity_at(judge, traced.threshold)
        return Verdicts.of(found, offsets, judge, groups=groups)

    def all_verdicts(self, groups: Sequence[QueryGroup], rubrics: Sequence[RubricInfo]) -> Verdicts:
        """Return `verdicts` of groups that have something to judge. Raises ReplayError."""
        found = self.verdicts(groups, rubrics)
        if found is None:
            raise ReplayError("there is nothing to judge")
        return found

    def _name(self) -> str:
        """Return the name of the judgements to take. Raises ReplayError when it is not clear."""
        trace = self.trace
        if self.judgements or trace is None:
            return self.judgements or "the verdict cache"
        names = trace.context_names()
        if not names:
            scores = ", only scores of answers" if trace.names() else ""
            raise ReplayError(f"{trace.name} has no judgements of contexts{scores}")
        if len(names) > 1:
            what = f"{trace.name} has judgements by {', '.join(names)}; say whose to take"
            raise ReplayError(what, "judgements")
        return names[0]

    def _verdict(self, judgement: Judgement) -> Verdict:
        detail = None
        if self.with_details and (judgement.rationale or judgement.model):
            detail = VerdictDetail(judgement.rationale, (), Usage(), judgement.model, "")
        return alike(
            Verdict, judgement, relevant=judgement.passed, source=Source.REPLAY, detail=detail
        )


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
        Missing, and ReplayError where judgements don't fit together.
        """
        hashes = (self.trace or Trace()).hashes
        answers = [answer_of(item, hashes) for item in items]
        columns = []
        for rubric in rubrics:
            _check_version(rubric, known)
            name = f"{KIND}/{rubric.id}"
            column = _Traced.of(self.trace, answers, name, known, rubric.min_score)
            if self.cached is None and column.judge is not None:  # the cache knows better
                _check_asked(rubric, column.judge)
            columns.append(column)
        judges = [column.judge for column in columns]
        others: Sequence[AnswerScore] = ()
        if self.cached is not None:
            asked = [
                replace(rubric, rubric=rubric.id, min_score=column.threshold)
                for rubric, column in zip(rubrics, columns, strict=True)
            ]
            cached = self.cached(items, asked)
            others, judges = cached.scores, [_judge_of(column, cached) for column in columns]
        names = [rubric.id for rubric in rubrics]
        rows = zip(*(column.found for column in columns), strict=True)
        ours = [
            None if one is None else _score(item.item_id, name, one)
            for item, row in zip(items, rows, strict=True)
            for name, one in zip(names, row, strict=True)
        ]
        found, missing, self.disagreements = _merged(ours, others, "passed")
        if missing:
            row, at = divmod(missing[0], len(columns))
            first = f"item {items[row].item_id!r}"
            raise Missing(len(missing), len(ours), columns[at].name, judges[at], first)
        summaries = [summarise(name, found[at :: len(names)]) for at, name in enumerate(names)]
        of_cache = (score.usage for score in found if score.source is not Source.REPLAY)
        return ScoredAnswers(found, summaries, sum(of_cache, Usage()))


def _score(item_id: str, rubric: str, judgement: Judgement) -> AnswerScore:
    parts = judgement.breakdown or Breakdown()
    return alike(
        AnswerScore,
        judgement,
        item_id=item_id,
        rubric=rubric,
        min_score=judgement.judge.min_score,
        reasoning=judgement.rationale,
        source=Source.REPLAY,
        **{part.name: getattr(parts, part.name) for part in fields(parts)},
    )


def _judge_of(column: _Traced, cached: ScoredAnswers) -> JudgeIdentity:
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
    parts = (part.partition(":") for part in judge.signature.split("|")[1:])
    printed = {name: value for name, _, value in parts}
    made_by = f"the trace was made by {judge.signature}, but"
    for name, value in rubric.parameters.items():
        made = printed.get(name)
        if made is not None and value != _DEFAULTS.get(name) and made not in _printed(value):
            raise ReplayError(f"{made_by} {name} {value} was asked for")
    total = math.fsum(rubric.weights.values())
    asked = {name: weight / total for name, weight in rubric.weights.items() if weight and total}
    shares = (part.partition("=") for part in printed.get("weights", "").split(",") if part)
    made_of = {name: float(share) for name, _, share in shares if float(share)}
    if asked and not all(
        math.isclose(asked.get(name, 0), made_of.get(name, 0), abs_tol=1e-9)
        for name in {*asked, *made_of}
    ):
        raise ReplayError(f"{made_by} other weights were asked for")


def _printed(value: Scalar) -> Collection[str]:
    """Return how a signature may print a value; a temperature that is never sent is "unset"."""
    if isinstance(value, bool | str):
        return {value if isinstance(value, str) else str(value).lower()}
    return {format(value, ".12g"), "unset"}


def _check_rubric(judge: JudgeIdentity, rubrics: Sequence[RubricInfo]) -> None:
    """Raise OtherRubric when a judge's rubric is not one that the server has."""
    used = rubric_of(judge)
    if used is None:
        return
    rubric, version, sha256 = used
    known = {info.rubric: info for info in rubrics}.get(rubric)
    if known is None:
        raise OtherRubric(f"rubric {rubric}@{version}, which this server lacks", rubric)
    if known.version != version or not known.sha256.startswith(sha256):
        has = f"{rubric}@{known.version} with the hash {known.sha256[:8]}"
        raise OtherRubric(
            f"rubric {rubric}@{version} with the hash {sha256}, and this server has {has}"
        )


def _check_version(rubric: Rubric, known: Sequence[RubricInfo]) -> None:
    """Raise OtherRubric where a version is asked for that is not the server's."""
    _, pinned, version = rubric.rubric.partition("@")
    has = {info.rubric: info.version for info in known}.get(rubric.id, version)
    if pinned and version != has:
        raise OtherRubric(f"rubric {rubric.id}@{has}, not {rubric.rubric}, which was asked for")
