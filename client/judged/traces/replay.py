"""Verdicts without a judge: from a trace, then from the server's verdict cache.

What a judgement says under another threshold is in `judgement`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeVar

from judged._views import of_all, word
from judged.traces.judgement import Judgement, identity_at, judgement_name, rubric_of
from judged.traces.recording import NOT_CACHED, contexts_of
from judged.traces.trace import Trace
from judged.values import (
    AnswerScore,
    JudgeIdentity,
    QueryGroup,
    RubricInfo,
    Source,
    Status,
    Usage,
    Verdict,
    VerdictDetail,
    Verdicts,
)

Cached = Callable[[Sequence[QueryGroup], float | None], Verdicts]
"""Judges groups by the verdict cache alone, under a threshold, None for the judge's own."""


@dataclass(frozen=True, slots=True)
class Place:
    """One context of groups by indices."""

    group: int
    retrieved: int
    expected: int

    @classmethod
    def of(cls, groups: Sequence[QueryGroup], index: int) -> Place:
        """Return the place of a verdict by its index among those of the groups."""
        for number, group in enumerate(groups):
            size = 0 if group.by_id else group.n_expected * group.n_retrieved
            if index < size:
                return cls(number, *divmod(index, group.n_expected))
            index -= size
        raise IndexError(index)


class ReplayError(Exception):
    """A trace can't stand for a judge. The message says why."""

    __module__ = "judged.traces"


@dataclass(eq=False)
class Missing(ReplayError):
    """Neither the trace nor the cache has `missing` of `total` judgements, those called `name`.

    `judge` is the one they should come from, None where nothing tells.
    """

    __module__ = "judged.traces"

    missing: int
    total: int
    name: str
    judge: JudgeIdentity | None

    def __str__(self) -> str:
        said = f"{of_all(self.missing, self.total, 'judgement', 'judgements')} by {self.name}"
        first, get_them = self._next_step()
        verb = word(self.missing, "is", "are")
        return (
            f"{said} {verb} missing, first that of {first}; {get_them}, and replay the trace again"
        )

    def _next_step(self) -> tuple[str, str]:
        """Return which is the first that is missing, and how to get it."""
        raise NotImplementedError


@dataclass(eq=False)
class MissingJudgements(Missing):
    """Judgements of contexts are missing: the first is that of the place `first`, in `group`."""

    __module__ = "judged.traces"

    first: Place
    group: QueryGroup

    def _next_step(self) -> tuple[str, str]:
        place = self.first
        query = f"groups[{place.group}] (query {self.group.query_id or self.group.query!r:.80})"
        return (
            f"{query}, retrieved[{place.retrieved}], expected[{place.expected}]",
            "judge these groups with Client.judge, keep what it says with record_verdicts",
        )


@dataclass(eq=False)
class MissingScores(Missing):
    """Scores of answers are missing: the first is that of the item `item_id`."""

    __module__ = "judged.traces"

    item_id: str

    def _next_step(self) -> tuple[str, str]:
        return (
            f"item {self.item_id!r}",
            "score these items with Client.score_answers, keep what it says with record_scores",
        )


class UnclearName(ReplayError):
    """The trace has judgements under several names."""

    __module__ = "judged.traces"


class UnclearThreshold(ReplayError):
    """The judgements were made under several thresholds."""

    __module__ = "judged.traces"


class OtherRubric(ReplayError):
    """The judgements were made by a rubric that is not the server's. The message names both.

    `lacking` is the id of a rubric that the server does not have in any version, else "".
    """

    __module__ = "judged.traces"

    def __init__(self, rubrics: str, lacking: str = "") -> None:
        super().__init__(f"the judgements were made by {rubrics}")
        self.lacking = lacking


Said = TypeVar("Said", Verdict, AnswerScore)


def merged(
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
        failed = our is not None and our.status is Status.ERROR
        taken = other if our is None or (failed and other is not None) else our
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
        one, MissingJudgements, and ReplayError where judgements don't fit together.
        """
        name = self.name
        found = self._traced(groups, name)
        if not found:
            return None
        judges = {j.judge.scoring_key: j.judge for j in found if j is not None}
        for judge in judges.values():
            check_rubric(judge, rubrics)
        own = one_judge(list(judges.values()), name)
        threshold = self.min_score if self.min_score is not None else only_threshold(found, name)
        cached = None if self.cached is None else self.cached(without_ids(groups), threshold)
        if cached is not None:
            own = same_judge(own, cached.judge)
        ours = [j if j is None else self._at_threshold(j, threshold) for j in found]
        others = () if cached is None else cached
        verdicts, missing, self.disagreements = merged(ours, others, "relevant")
        if missing or own is None:
            first = Place.of(groups, missing[0])
            if own is not None and self.trace is None:
                name = judgement_name(own)
            n, total = len(missing), len(found)
            raise MissingJudgements(n, total, name, own, first, groups[first.group])
        own = own if threshold is None else identity_at(own, threshold)
        return _columns(groups, verdicts, own, with_details=self.with_details)

    def all_verdicts(self, groups: Sequence[QueryGroup], rubrics: Sequence[RubricInfo]) -> Verdicts:
        """Return `verdicts` of groups that have something to judge. Raises ReplayError."""
        found = self.verdicts(groups, rubrics)
        if found is None:
            raise ReplayError("there is nothing to judge")
        return found

    @property
    def name(self) -> str:
        """The name of the judgements that are taken. Raises ReplayError when it is not clear."""
        if self.judgements or self.trace is None:
            return self.judgements or "the verdict cache"
        return only_name(self.trace)

    def _traced(self, groups: Sequence[QueryGroup], name: str) -> list[Judgement | None]:
        trace = self.trace if self.trace is not None else Trace()
        return [trace.get(context.key, name) for context in contexts_of(groups, trace.hashes)]

    def _at_threshold(self, judgement: Judgement, threshold: float | None) -> Verdict:
        moved = judgement if threshold is None else judgement.at_threshold(threshold)
        if moved is None:
            raise ReplayError(
                f"the votes behind a judgement by {judgement.name} are not in the trace, so that "
                f"no other threshold than {judgement.judge.min_score:g} can be applied"
            )
        return _of_trace(moved, with_details=self.with_details)


def only_name(trace: Trace) -> str:
    """Return the one name of a trace's judgements of contexts. Raises ReplayError."""
    names = context_names(trace)
    if len(names) == 1:
        return names[0]
    if not names:
        scores = ", only scores of answers" if trace.names() else ""
        raise ReplayError(f"{trace.name} has no judgements of contexts{scores}")
    raise UnclearName(f"{trace.name} has judgements by {', '.join(names)}; say whose to take")


def context_names(trace: Trace) -> list[str]:
    """Return the names of a trace's judgements of contexts; those of scores are not among them."""
    return [name for name in trace.names() if not name.startswith("answers/")]


def only_threshold(found: Sequence[Judgement | None], name: str) -> float | None:
    """Return the one threshold of judgements, None without any. Raises ReplayError for several."""
    thresholds = sorted({judgement.judge.min_score for judgement in found if judgement is not None})
    if len(thresholds) > 1:
        several = " to ".join(f"{threshold:g}" for threshold in (thresholds[0], thresholds[-1]))
        raise UnclearThreshold(
            f"the judgements by {name} were made under thresholds from {several}; say which to "
            "apply"
        )
    return thresholds[0] if thresholds else None


def one_judge(judges: Sequence[JudgeIdentity], name: str) -> JudgeIdentity | None:
    """Return the one judge, thresholds aside, None without any. Raises ReplayError for several."""
    if len({judge.scoring_key for judge in judges}) > 1:
        raise ReplayError(
            f"the judgements by {name} are those of several judges, {judges[0].signature} and "
            f"{judges[1].signature}"
        )
    return judges[0] if judges else None


def check_rubric(judge: JudgeIdentity, rubrics: Sequence[RubricInfo]) -> None:
    """Raise OtherRubric when a judge's rubric is not one that the server has."""
    used = rubric_of(judge)
    if used is None:
        return
    rubric, version, sha256 = used
    known = next((info for info in rubrics if info.rubric == rubric), None)
    if known is None:
        raise OtherRubric(f"rubric {rubric}@{version}, which this server lacks", rubric)
    if known.version != version:
        raise OtherRubric(
            f"rubric {rubric}@{version}, and this server has {rubric}@{known.version}"
        )
    if not known.sha256.startswith(sha256):
        raise OtherRubric(
            f"rubric {rubric}@{version} with the hash {sha256}, and that of this server is "
            f"{known.sha256[:8]}: its text was changed under the same version"
        )


def same_judge(traced: JudgeIdentity | None, cached: JudgeIdentity) -> JudgeIdentity:
    """Return the judge of both, thresholds aside. Raises ReplayError where they differ."""
    if traced is not None and traced.scoring_key != cached.scoring_key:
        raise ReplayError(
            f"the trace was made by {traced.signature}, but the cache was asked for "
            f"{cached.signature}"
        )
    return cached if traced is None else traced


def without_ids(groups: Sequence[QueryGroup]) -> list[QueryGroup]:
    """Return the groups with empty ones where documents are matched by id: no judge takes those."""
    return [QueryGroup() if group.by_id else group for group in groups]


def _of_trace(judgement: Judgement, *, with_details: bool) -> Verdict:
    detail = None
    if with_details and (judgement.rationale or judgement.model):
        detail = VerdictDetail(judgement.rationale, (), Usage(), judgement.model, "")
    return Verdict(
        judgement.status,
        judgement.passed,
        judgement.score,
        Source.REPLAY,
        judgement.flags,
        judgement.error,
        judgement.agreement,
        detail,
        judgement.probability,
        judgement.stage,
    )


def _columns(
    groups: Sequence[QueryGroup],
    verdicts: Sequence[Verdict],
    judge: JudgeIdentity,
    *,
    with_details: bool,
) -> Verdicts:
    ok = [verdict for verdict in verdicts if verdict.status is Status.OK]
    # Traces can be mixed: the column is empty unless every verdict that exists has a probability.
    calibrated = bool(ok) and all(verdict.probability is not None for verdict in ok)
    voted = any(verdict.agreement is not None for verdict in verdicts)
    sizes = (0 if group.by_id else group.n_expected * group.n_retrieved for group in groups)
    return Verdicts(
        relevant=[bool(verdict.relevant) for verdict in verdicts],
        score=[verdict.score or 0.0 for verdict in verdicts],
        status=[int(verdict.status) for verdict in verdicts],
        source=[int(verdict.source) for verdict in verdicts],
        flags=[int(verdict.flags) for verdict in verdicts],
        offsets=list(accumulate(sizes, initial=0)),
        errors={i: v.error for i, v in enumerate(verdicts) if v.error is not None},
        judge=judge,
        agreement=[v.agreement or 0.0 for v in verdicts] if voted else (),
        details={i: v.detail for i, v in enumerate(verdicts) if with_details and v.detail},
        groups=groups,
        probability=[v.probability or 0.0 for v in verdicts] if calibrated else [],
        stage=[v.stage or 0 for v in verdicts] if any(v.stage for v in verdicts) else (),
    )
