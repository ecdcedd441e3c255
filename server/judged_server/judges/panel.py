"""The judge `panel`: several judges vote on the same contexts.

As in a vote of samples (`judges.llm`), only OK verdicts are votes, and without any vote the first
failure is the result. There is no vote if a member needs a reply from the cache that is not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
from judged.values.choices import Source, Status
from judged.values.groups import VerdictDetail, VerdictSample
from judged.values.judges import JudgeIdentity, Usage

from judged_server.domain import (
    BoolArray,
    ByteArray,
    Group,
    JudgeSpec,
    ScoreColumns,
    VerdictFault,
    Verdicts,
    check_unique,
)
from judged_server.judges.base import Caller, ComposedJudge, ComposedKind, Judge, Profile
from judged_server.llm.chat import Reason
from judged_server.scheduling.concurrency import fan_out

_NO_QUORUM = (
    "the members of the panel tie, or fewer than half of them have a verdict; "
    "name an odd number of members, or see why they have no verdict"
)


VERSION = 1
MAJORITY, MEAN, WEIGHTED = "majority", "mean", "weighted"
"""How the members' verdicts are combined.

Majority: the score is the share of yes votes; a verdict is relevant if most votes are yes and the
score meets the threshold; a tie is no verdict. Mean: the mean of the scores. Weighted: the mean by
the weights of the members, which also count in the quorum and the agreement.
"""
MIN_SCORE = 0.5
LIGHTEST, HEAVIEST = 1e-6, 1e6
"""Limits of weights: between them, rounding of sums is too small to show."""


class PanelKind(ComposedKind):
    """Builds panels."""

    kind = "panel"
    least, most = 2, 16
    profiles = (
        Profile(MAJORITY, "Several judges vote; the score is the share of yeses.", MIN_SCORE),
        Profile(MEAN, "The score is the mean of the scores of several judges.", MIN_SCORE),
        Profile(WEIGHTED, "The score is their mean, by the weights of the members.", MIN_SCORE),
    )

    def compose(self, spec: JudgeSpec, judges: Sequence[Judge], field: str) -> Panel:
        """Return the panel.

        Raises InvalidField if two members are the same judge.
        """
        fingerprints = [judge.identity.fingerprint for judge in judges]
        check_unique(fingerprints, f"{field}.members[{{}}].judge")
        weights = [1.0 if member.weight is None else member.weight for member in spec.panel]
        min_score = MIN_SCORE if spec.min_score is None else spec.min_score
        return Panel(judges, weights, spec.profile, min_score)


class Panel(ComposedJudge):
    """Several judges whose verdicts are combined into one."""

    def __init__(
        self, judges: Sequence[Judge], weights: Sequence[float], rule: str, min_score: float
    ) -> None:
        super().__init__(judges)
        self.weights = weights
        self._rule = rule
        names = self.names
        if rule == WEIGHTED:
            names = [f"{name}*{weight:.12g}" for name, weight in zip(names, weights, strict=True)]
        # A member's threshold changes its votes: use fingerprints, which include it, not keys.
        secret = zip(self.fingerprints, weights, strict=True)
        self.identity = JudgeIdentity.build(
            PanelKind.kind,
            rule,
            min_score,
            [("members", ",".join(names))],
            VERSION,
            [(f"member_{place}", f"{p}|{w!r}") for place, (p, w) in enumerate(secret)],
        )

    async def judge(self, groups: Sequence[Group], caller: Caller) -> ScoreColumns:
        """Return the combined verdict on each context; all members judge at the same time.

        If a member raises an error, the others are ended and the error is raised. A member without
        a verdict on a context has no vote on it.
        """

        async def judge(member: Judge) -> Verdicts:
            columns = await member.judge(groups, caller)
            return Verdicts.decide(columns, (), member.identity.min_score)

        verdicts = await fan_out(judge, self.judges, len(self.judges))
        return await asyncio.to_thread(self._decide, verdicts, caller.wants_details)

    def _decide(self, verdicts: Sequence[Verdicts], wants_details: bool) -> ScoreColumns:
        usages = [one.columns.usage for one in verdicts if one.columns.usage is not None]
        usage = reduce(add, usages) if usages else None
        columns = tally_votes(verdicts, self.weights, self._rule, usage)
        if not wants_details:
            return columns
        relevant = Verdicts.decide(columns, (), self.identity.min_score).relevant
        signatures = [judge.identity.signature for judge in self.judges]
        return describe(verdicts, signatures, columns, relevant)


def _stacked(verdicts: Sequence[Verdicts], name: str) -> ByteArray:
    """Return a column of the members' verdicts, one row per member."""
    return np.stack([one.columns.filled(name) for one in verdicts])


def tally_votes(
    verdicts: Sequence[Verdicts], weights: Sequence[float], rule: str, usage: Usage | None
) -> ScoreColumns:
    """Return the combined scores of the members; `usage` is the sum of theirs.

    The agreement is the share of votes on the larger side; members vote by their own thresholds.
    """
    statuses = _stacked(verdicts, "statuses")
    valid = statuses == Status.OK
    of_each = np.array(weights) if rule == WEIGHTED else np.ones(len(verdicts))
    votes = valid * of_each[:, np.newaxis]
    counted = votes.sum(axis=0)
    yes_votes = (votes * np.stack([one.relevant for one in verdicts])).sum(axis=0)
    noes = counted - yes_votes
    # The tolerance accepts exactly half of the weights, whatever the rounding of their sum.
    quorum = (counted > 0) & (2 * counted >= sum(of_each.tolist()) * (1 - 1e-12))
    if rule == MAJORITY:
        quorum &= yes_votes != noes
    # If a reply is not in the cache, the other votes would be those of a different panel.
    unknown = [
        fault.index
        for one in verdicts
        for fault in one.columns.faults
        if fault.reason == Reason.NOT_CACHED
    ]
    quorum[unknown] = False
    divisor = np.where(quorum, counted, 1.0)
    scores = yes_votes / divisor
    if rule != MAJORITY:
        given = np.stack([one.columns.scores for one in verdicts])
        scores = np.minimum((votes * given).sum(axis=0) / divisor, 1.0)
    any_vote = valid.any(axis=0)
    # Without any vote the outcome is ERROR if a member has it, else ABSTAINED if one has it.
    outcome = np.full(len(quorum), Status.NOT_ASSESSABLE, np.uint8)
    for status in (Status.ABSTAINED, Status.ERROR):
        outcome[(statuses == status).any(axis=0)] = status
    outcome[any_vote] = np.where(quorum, Status.OK, Status.ABSTAINED)[any_vote]
    outcome[unknown] = Status.ERROR
    return ScoreColumns(
        np.where(quorum, scores, 0.0),
        outcome,
        np.bitwise_or.reduce(_stacked(verdicts, "flags")),
        tuple(_faults(verdicts, statuses, outcome, any_vote)),
        (yes_votes > noes) & quorum if rule == MAJORITY else None,
        np.where(quorum, np.maximum(yes_votes, noes) / divisor, 0.0),
        usage=usage,
        sources=_sources(verdicts),
    ).compact()


def _sources(verdicts: Sequence[Verdicts]) -> ByteArray:
    """Return the source of each verdict: CACHE or SHARED if no member computed its own."""
    sources = _stacked(verdicts, "sources")
    computed = (sources == Source.COMPUTED).any(axis=0)
    found = np.where(computed, Source.COMPUTED, sources.max(axis=0))  # SHARED is above CACHE
    return found.astype(np.uint8)


def _faults(
    verdicts: Sequence[Verdicts], statuses: ByteArray, outcome: ByteArray, any_vote: BoolArray
) -> Iterator[VerdictFault]:
    """Yield why verdicts are missing: NO_QUORUM, or the fault of the first member that decides."""
    by_index = [{fault.index: fault for fault in one.columns.faults} for one in verdicts]
    for index in np.flatnonzero(outcome != Status.OK).tolist():
        found = [(place, of[index]) for place, of in enumerate(by_index) if index in of]
        retryable = any(fault.retryable for _, fault in found)
        decisive = [each for each in found if each[1].reason == Reason.NOT_CACHED]
        if not any_vote[index]:
            decisive += [each for each in found if statuses[each[0], index] == outcome[index]]
        if not decisive:
            yield VerdictFault(index, Reason.NO_QUORUM, _NO_QUORUM, retryable)
            continue
        place, fault = decisive[0]
        message = f"members[{place}] of the panel: {fault.message}"
        yield replace(fault, message=message, retryable=retryable)


def describe(
    verdicts: Sequence[Verdicts],
    signatures: Sequence[str],
    columns: ScoreColumns,
    relevant: BoolArray,
) -> ScoreColumns:
    """Return the columns with a detail for each context, which has each member as a sample.

    The rationale is that of the first member that has one and agrees with the verdict.
    """
    statuses, decided = _stacked(verdicts, "statuses"), columns.ok
    no_detail = VerdictDetail("", (), Usage(), "", "")
    reasons = [{fault.index: fault.reason for fault in one.columns.faults} for one in verdicts]

    def detail(index: int) -> VerdictDetail:
        found = [one.columns.details.get(index, no_detail) for one in verdicts]
        samples = tuple(
            VerdictSample(
                Status(int(statuses[place, index])),
                bool(one.relevant[index]),
                float(one.columns.scores[index]),
                reasons[place].get(index, ""),
                found[place].rationale,
                "",
                signatures[place],
            )
            for place, one in enumerate(verdicts)
        )
        agreeing = (
            sample.reasoning
            for sample in samples
            if decided[index]
            and sample.status is Status.OK
            and sample.relevant == bool(relevant[index])
        )
        return VerdictDetail(
            next(filter(None, agreeing), ""),
            samples,
            sum((own.usage for own in found), Usage()),
            next((own.model for own in found if own.model), ""),
            "",
        )

    return replace(columns, details={index: detail(index) for index in range(len(relevant))})
