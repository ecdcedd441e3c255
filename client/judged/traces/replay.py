"""Verdicts without a judge: from a trace, then from the server's verdict cache.

What a judgement says under another threshold is in `judgement`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeVar

from judged._views import of_all, word
from judged.traces.items import Hashes, Key
from judged.traces.judgement import Judgement, alike, identity_at, judgement_name, rubric_of
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


@dataclass(frozen=True, slots=True)
class TracedJudgements:
    """What a trace has under a name: a judgement or None for each item, and who judged.

    `threshold` is the one to apply, None without a judgement.
    """

    name: str
    found: Sequence[Judgement | None]
    judge: JudgeIdentity | None
    threshold: float | None

    @classmethod
    def of(
        cls,
        trace: Trace | None,
        keys: Iterable[Key],
        name: str,
        rubrics: Sequence[RubricInfo],
        threshold: float | None,
    ) -> TracedJudgements:
        """Return the judgements of items by their keys; by default under their own threshold.

        `rubrics` are those of the server. Raises OtherRubric, UnclearThreshold, and ReplayError
        for those of several judges.
        """
        found = [None if trace is None else trace.get(key, name) for key in keys]
        judges = list({j.judge.scoring_key: j.judge for j in found if j is not None}.values())
        for judge in judges:
            _check_rubric(judge, rubrics)
        if len(judges) > 1:
            raise ReplayError(
                f"the judgements by {name} are those of several judges, {judges[0].signature} and "
                f"{judges[1].signature}"
            )
        own = sorted({one.judge.min_score for one in found if one is not None})
        if threshold is None and len(own) > 1:
            raise UnclearThreshold(
                f"the judgements by {name} were made under thresholds from {own[0]:g} to "
                f"{own[-1]:g}; say which to apply"
            )
        if threshold is None and own:
            threshold = own[0]
        return cls(name, found, judges[0] if judges else None, threshold)

    def same_judge(self, cached: JudgeIdentity) -> JudgeIdentity:
        """Return the judge that the cache was asked for too. Raises ReplayError for another."""
        if self.judge is not None and self.judge.scoring_key != cached.scoring_key:
            raise ReplayError(
                f"the trace was made by {self.judge.signature}, but the cache was asked for "
                f"{cached.signature}"
            )
        return self.judge or cached

    def judgements(self) -> list[Judgement | None]:
        """Return the judgements under the threshold. Raises ReplayError where votes are missing."""
        moved = []
        for one in self.found:
            if one is None or self.threshold is None:
                moved.append(one)
                continue
            moved.append(one.at_threshold(self.threshold))
            if moved[-1] is None:
                raise ReplayError(
                    f"the votes behind a judgement by {self.name} are not in the trace, so that "
                    f"no other threshold than {one.judge.min_score:g} can be applied"
                )
        return moved


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
        hashes = Hashes() if self.trace is None else self.trace.hashes
        keys = [context.key for context in contexts_of(groups, hashes)]
        if not keys:
            return None
        traced = TracedJudgements.of(self.trace, keys, name, rubrics, self.min_score)
        own, threshold = traced.judge, traced.threshold
        others: Sequence[Verdict] = ()
        if self.cached is not None:
            others = cached = self.cached(without_ids(groups), threshold)
            own = traced.same_judge(cached.judge)
        ours = [
            None if judgement is None else _of_trace(judgement, with_details=self.with_details)
            for judgement in traced.judgements()
        ]
        verdicts, missing, self.disagreements = merged(ours, others, "relevant")
        if missing or own is None:
            first = Place.of(groups, missing[0])
            if own is not None and self.trace is None:
                name = judgement_name(own)
            n, total = len(missing), len(keys)
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
        trace = self.trace
        if self.judgements or trace is None:
            return self.judgements or "the verdict cache"
        names = trace.context_names()
        if not names:
            scores = ", only scores of answers" if trace.names() else ""
            raise ReplayError(f"{trace.name} has no judgements of contexts{scores}")
        if len(names) > 1:
            raise UnclearName(
                f"{trace.name} has judgements by {', '.join(names)}; say whose to take"
            )
        return names[0]


def _check_rubric(judge: JudgeIdentity, rubrics: Sequence[RubricInfo]) -> None:
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


def without_ids(groups: Sequence[QueryGroup]) -> list[QueryGroup]:
    """Return the groups with empty ones where documents are matched by id: no judge takes those."""
    return [QueryGroup() if group.by_id else group for group in groups]


def _of_trace(judgement: Judgement, *, with_details: bool) -> Verdict:
    detail = None
    if with_details and (judgement.rationale or judgement.model):
        detail = VerdictDetail(judgement.rationale, (), Usage(), judgement.model, "")
    return alike(Verdict, judgement, relevant=judgement.passed, source=Source.REPLAY, detail=detail)


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
