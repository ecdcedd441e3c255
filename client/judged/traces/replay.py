"""Verdicts and scores without a judge, from a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import accumulate, chain

from judged._batching.scoring import summarise
from judged._views import of_all, word
from judged.traces.trace import (
    Breakdown,
    Item,
    Judgement,
    Trace,
    alike,
    answer_of,
    contexts_of,
    rubric_of,
)
from judged.values import (
    AnswerItem,
    AnswerScore,
    JudgeIdentity,
    QueryGroup,
    Rubric,
    RubricInfo,
    ScoredAnswers,
    Source,
    Usage,
    Verdict,
    VerdictDetail,
    Verdicts,
)

KIND = "answers"


class ReplayError(Exception):
    """A trace can't stand for a judge. The message says why."""

    __module__ = "judged.traces"


@dataclass(eq=False)
class Missing(ReplayError):
    """A trace lacks `missing` of `total` judgements, those called `name`.

    `judge` is the one they should come from, None where nothing tells. `first` says what the first
    is about that is missing: the path of a text of groups, or an item.
    """

    __module__ = "judged.traces"

    missing: int
    total: int
    name: str
    judge: JudgeIdentity | None
    first: str

    def __post_init__(self) -> None:
        super().__init__(
            f"{of_all(self.missing, self.total, 'judgement', 'judgements')} by {self.name} "
            f"{word(self.missing, 'is', 'are')} missing, first that of {self.first}; judge these "
            "items, keep what is said with record_verdicts or record_scores, and replay the trace "
            "again"
        )


class OtherRubric(ReplayError):
    """The judgements were made by a rubric that is not the server's. The message names both."""

    __module__ = "judged.traces"

    def __init__(self, rubrics: str) -> None:
        super().__init__(f"the judgements were made by {rubrics}")


def _traced(
    trace: Trace,
    items: Sequence[Item],
    name: str,
    rubrics: Sequence[RubricInfo],
    threshold: float | None,
    paths: Sequence[str],
) -> list[Judgement]:
    """Return the judgement of each item.

    `rubrics` are those of the server, `paths` what the items are known as. Raises OtherRubric,
    Missing, and ReplayError for those of several judges, or under another threshold than is asked.
    """
    kept = trace.items
    found = [kept[i.key].judgements.get(name) if i.key in kept else None for i in items]
    known = [one for one in found if one is not None]
    judges = list({one.judge.fingerprint: one.judge for one in known}.values())
    for judge in judges:
        _check_rubric(judge, rubrics)
    if len(judges) > 1:
        raise ReplayError(
            f"the judgements by {name} are those of several judges, {judges[0].signature} and "
            f"{judges[1].signature}"
        )
    if missing := len(found) - len(known):
        first = paths[found.index(None)]
        raise Missing(missing, len(found), name, judges[0] if judges else None, first)
    if threshold is not None and judges and threshold != judges[0].min_score:
        raise ReplayError(
            f"the judgements by {name} were made with the min_score {judges[0].min_score:g}; "
            "for another one judge anew"
        )
    return known


@dataclass(slots=True)
class Replay:
    """Stands for a judge: gives the verdicts that a trace has.

    `judgements` names those to take, "" when the trace has one kind only. `min_score`, where it is
    set, must be the threshold that they were made under. A failure is replayed as one.
    """

    trace: Trace
    judgements: str = ""
    min_score: float | None = None
    with_details: bool = False

    def verdicts(
        self, groups: Sequence[QueryGroup], rubrics: Sequence[RubricInfo]
    ) -> Verdicts | None:
        """Return the verdict of every context; None when there is nothing to judge.

        `rubrics` are those of the server. Raises OtherRubric when the trace has another version of
        one, Missing, and ReplayError where judgements don't fit together.
        """
        items = list(contexts_of(groups))
        if not items:
            return None
        paths = [
            f"groups[{number}].retrieved[{place}]"
            for number, group in enumerate(groups)
            for place in range(0 if group.by_id else group.n_retrieved)
            for _ in group.expected
        ]
        found = _traced(self.trace, items, self._name(), rubrics, self.min_score, paths)
        sizes = (0 if group.by_id else group.n_expected * group.n_retrieved for group in groups)
        offsets = list(accumulate(sizes, initial=0))
        judge = found[0].judge
        return Verdicts.of(list(map(self._verdict, found)), offsets, judge, groups=groups)

    def all_verdicts(self, groups: Sequence[QueryGroup], rubrics: Sequence[RubricInfo]) -> Verdicts:
        """Return `verdicts` of groups that have something to judge. Raises ReplayError."""
        found = self.verdicts(groups, rubrics)
        if found is None:
            raise ReplayError("there is nothing to judge")
        return found

    def _name(self) -> str:
        """Return the name of the judgements to take. Raises ReplayError when it is not clear."""
        trace = self.trace
        if self.judgements:
            return self.judgements
        names = [name for name in trace.names() if not name.startswith(f"{KIND}/")]
        if not names:
            scores = ", only scores of answers" if trace.names() else ""
            raise ReplayError(f"{trace.name} has no judgements of contexts{scores}")
        if len(names) > 1:
            raise ReplayError(
                f"{trace.name} has judgements by {', '.join(names)}; say whose to take, as "
                "judgements or --trace-judge NAME"
            )
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
    """Gives the scores that a trace has.

    They have the parameters and weights that they were made with, so a rubric that is asked for
    sets none.
    """

    trace: Trace

    def scores(
        self, items: Sequence[AnswerItem], rubrics: Sequence[Rubric], known: Sequence[RubricInfo]
    ) -> ScoredAnswers:
        """Return the score of every item by every rubric, in this order.

        A threshold that a rubric sets must be the one its scores were made under. `known` are the
        rubrics of the server. Raises OtherRubric when the trace has another version of one,
        Missing, and ReplayError where judgements don't fit together.
        """
        answers = [answer_of(item) for item in items]
        ids = [f"item {item.item_id!r}" for item in items]
        columns, summaries = [], []
        for rubric in rubrics:
            _check_version(rubric, known)
            if rubric.parameters or rubric.weights:
                raise ReplayError(
                    f"parameters or weights were asked for {rubric.id}, but a trace has scores as "
                    "they were made; ask for none"
                )
            name = f"{KIND}/{rubric.id}"
            found = _traced(self.trace, answers, name, known, rubric.min_score, ids)
            rows = zip(items, found, strict=True)
            columns.append([_score(item.item_id, rubric.id, one) for item, one in rows])
            summaries.append(summarise(rubric.id, columns[-1]))
        return ScoredAnswers(list(chain(*zip(*columns, strict=True))), summaries, Usage())


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


def _check_rubric(judge: JudgeIdentity, rubrics: Sequence[RubricInfo]) -> None:
    """Raise OtherRubric when a judge's rubric is not one that the server has."""
    used = rubric_of(judge)
    if used is None:
        return
    rubric, version, sha256 = used
    known = {info.rubric: info for info in rubrics}.get(rubric)
    if known is None:
        raise OtherRubric(f"rubric {rubric}@{version}, which this server lacks")
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
