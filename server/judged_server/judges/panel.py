"""The judge `panel`: several judges over the same contexts, and one verdict of theirs.

The rule by which the verdicts of several judges become one.

As in a vote of samples (`judges.llm`) only OK verdicts count, a failure or an abstention is no
vote, and without any vote the first failure stands. Nor does the rest vote without a member whose
reply was to come from the cache and is not there.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from operator import add

import numpy as np
from judged.values.choices import CacheMode, Source, Status
from judged.values.judges import JudgeIdentity, Usage

from judged_server import errors
from judged_server.domain import (
    BoolArray,
    ByteArray,
    JudgeSpec,
    ParameterScalar,
    QueryGroup,
    ScoreColumns,
    VerdictDetail,
    VerdictFault,
    Verdicts,
    VerdictSample,
)
from judged_server.judges.base import Caller, Judge, Profile
from judged_server.llm.chat import Reason
from judged_server.llm.question import PlannedCall
from judged_server.scheduling.concurrency import fan_out

NO_QUORUM = "NO_QUORUM"
_UNKNOWN = 2
_NO_QUORUM = (
    "the members of the panel tie, or fewer than half of them have a verdict; "
    "name an odd number of members, or see why they have no verdict"
)


class Rule(StrEnum):
    """What the members' verdicts become.

    MAJORITY: the score is the share of yeses, and a verdict is relevant when most said yes and the
    threshold is met; a tie is no verdict. MEAN: the mean of the scores. WEIGHTED: the mean by the
    weights of the members, which then also say what half of them is and which side is the larger.
    """

    MAJORITY = "majority"
    MEAN = "mean"
    WEIGHTED = "weighted"


@dataclass(frozen=True, slots=True)
class MemberVotes:
    """The verdicts of the members, with their weights and signatures, in one order."""

    verdicts: tuple[Verdicts, ...]
    weights: tuple[float, ...]
    signatures: tuple[str, ...]

    @property
    def statuses(self) -> ByteArray:
        """The statuses, a row a member."""
        return np.stack(
            [
                np.full(len(one.relevant), Status.OK, np.uint8)
                if one.columns.statuses is None
                else one.columns.statuses
                for one in self.verdicts
            ]
        )


def tally_votes(all_votes: MemberVotes, rule: Rule, usage: Usage | None) -> ScoreColumns:
    """Return the scores that the members make together; `usage` is what all of them took.

    The agreement is the share of the votes on the larger side, each member's by its own threshold.
    """
    statuses = all_votes.statuses
    valid = statuses == Status.OK
    weights = np.array(all_votes.weights)[:, np.newaxis] if rule is Rule.WEIGHTED else np.float64(1)
    relevant = np.stack([one.relevant for one in all_votes.verdicts])
    votes = valid * weights
    counted = votes.sum(axis=0)
    yes_votes = (votes * relevant).sum(axis=0)
    noes = counted - yes_votes
    # A half is a half, whatever rounding makes of a sum of weights.
    most = sum(all_votes.weights) if rule is Rule.WEIGHTED else float(len(all_votes.weights))
    quorum = (counted > 0) & (2 * counted >= most * (1 - 1e-12))
    if rule is Rule.MAJORITY:
        quorum &= yes_votes != noes
    # Without a reply that was to come from the cache, what the others say is another panel's.
    unknown = [
        fault.index
        for one in all_votes.verdicts
        for fault in one.columns.faults
        if fault.reason == Reason.NOT_CACHED
    ]
    quorum[unknown] = False
    divisor = np.where(quorum, counted, 1.0)
    if rule is Rule.MAJORITY:
        scores = yes_votes / divisor
    else:
        given = np.stack([one.columns.scores for one in all_votes.verdicts])
        scores = np.minimum((votes * given).sum(axis=0) / divisor, 1.0)
    outcome = _outcome(statuses, valid.any(axis=0), quorum)
    outcome[unknown] = Status.ERROR
    missing = outcome != Status.OK
    faults = _Faults(all_votes, outcome, valid.any(axis=0))
    flags = [one.columns.flags for one in all_votes.verdicts if one.columns.flags is not None]
    return ScoreColumns(
        np.where(quorum, scores, 0.0),
        outcome if missing.any() else None,
        reduce(np.bitwise_or, flags) if flags else None,
        tuple(map(faults.at, np.flatnonzero(missing).tolist())),
        (yes_votes > noes) & quorum if rule is Rule.MAJORITY else None,
        np.where(quorum, np.maximum(yes_votes, noes) / divisor, 0.0),
        usage=usage,
        sources=_sources(all_votes),
    )


def describe(all_votes: MemberVotes, columns: ScoreColumns, relevant: BoolArray) -> ScoreColumns:
    """Return the columns with a detail for each context, in which each member is a sample.

    The rationale is that of the first member that has one and agrees with the verdict.
    """
    statuses = all_votes.statuses
    told = [{detail.index: detail for detail in one.columns.details} for one in all_votes.verdicts]
    reasons = [
        {fault.index: fault.reason for fault in one.columns.faults} for one in all_votes.verdicts
    ]
    decided = columns.ok

    def detail(index: int) -> VerdictDetail:
        found = [seen.get(index) for seen in told]
        samples = tuple(
            VerdictSample(
                Status(int(statuses[place, index])),
                bool(one.relevant[index]),
                float(one.columns.scores[index]),
                reasons[place].get(index, ""),
                own.rationale if own else "",
                "",
                all_votes.signatures[place],
            )
            for place, (one, own) in enumerate(zip(all_votes.verdicts, found, strict=True))
        )
        agreeing = (
            sample.reasoning
            for sample in samples
            if sample.status is Status.OK
            and sample.relevant == bool(relevant[index])
            and sample.reasoning
        )
        return VerdictDetail(
            index,
            next(agreeing, "") if decided[index] else "",
            samples,
            sum((own.usage for own in found if own is not None), Usage()),
            next((own.model for own in found if own and own.model), ""),
            "",
        )

    return replace(columns, details=tuple(map(detail, range(len(relevant)))))


def _outcome(statuses: ByteArray, any_vote: BoolArray, quorum: BoolArray) -> ByteArray:
    """Return the status of each verdict: without any vote that of the member that speaks for it."""
    without = np.full(len(quorum), Status.NOT_ASSESSABLE, np.uint8)
    for status in (Status.ABSTAINED, Status.ERROR):  # the later one wins
        without[(statuses == status).any(axis=0)] = status
    with_votes = np.where(quorum, Status.OK, Status.ABSTAINED)
    return np.where(any_vote, with_votes, without).astype(np.uint8)


def _sources(all_votes: MemberVotes) -> ByteArray | None:
    """Return where each verdict came from: CACHE or SHARED where no member computed its own."""
    told = [one.sources for one in all_votes.verdicts if one.sources is not None]
    if len(told) < len(all_votes.verdicts):
        return None
    sources = np.stack(told)
    shared = np.where((sources == Source.CACHE).all(axis=0), Source.CACHE, Source.SHARED)
    found = np.where((sources == Source.COMPUTED).any(axis=0), Source.COMPUTED, shared)
    return found.astype(np.uint8) if (found != Source.COMPUTED).any() else None


class _Faults:
    """Why members have no verdict, found by context."""

    def __init__(self, all_votes: MemberVotes, outcome: ByteArray, any_vote: BoolArray) -> None:
        self._by_index = [
            {fault.index: fault for fault in one.columns.faults} for one in all_votes.verdicts
        ]
        self._statuses = all_votes.statuses
        self._outcome = outcome
        self._any_vote = any_vote

    def at(self, index: int) -> VerdictFault:
        """Return why the panel has no verdict: NO_QUORUM, or what its first such member says."""
        found = [(place, faults.get(index)) for place, faults in enumerate(self._by_index)]
        retryable = any(fault is not None and fault.retryable for _, fault in found)
        for place, fault in found:
            if fault is not None and fault.reason == Reason.NOT_CACHED:
                return _named(fault, place, retryable)
        if self._any_vote[index]:
            return VerdictFault(index, _UNKNOWN, NO_QUORUM, _NO_QUORUM, retryable)
        for place, fault in found:
            if fault is not None and self._statuses[place, index] == self._outcome[index]:
                return _named(fault, place, retryable)
        return VerdictFault(index, _UNKNOWN, NO_QUORUM, _NO_QUORUM, retryable)


def _named(fault: VerdictFault, place: int, retryable: bool) -> VerdictFault:
    """Return a member's fault as that of the panel."""
    message = f"members[{place}] of the panel: {fault.message}"
    return replace(fault, message=message, retryable=retryable)


VERSION = 1
MIN_SCORE = 0.5
LEAST_MEMBERS, MOST_MEMBERS = 2, 16
LIGHTEST, HEAVIEST = 1e-6, 1e6
"""Weights within these can be summed without loss that would show."""

_WANTS = {(False, False): "texts", (True, False): "embeddings", (False, True): "spans"}


@dataclass(frozen=True, slots=True)
class Member:
    """One judge of a panel, settled, and the weight of its verdict."""

    judge: Judge
    weight: float = 1.0

    @property
    def signature(self) -> str:
        """The signature of its judge."""
        return self.judge.identity.signature


class PanelKind:
    """Seats panels."""

    kind = "panel"
    asks_models = True
    for_embeddings: Mapping[str, ParameterScalar] | None = None
    profiles = (
        Profile("majority", "Several judges vote; the score is the share of yeses.", MIN_SCORE),
        Profile("mean", "The score is the mean of the scores of several judges.", MIN_SCORE),
        Profile("weighted", "The score is their mean, by the weights of the members.", MIN_SCORE),
    )

    def build(self, spec: JudgeSpec) -> Panel:  # noqa: ARG002 - of the protocol
        """Raise InvalidField: `of_members` makes a panel, of members that are built already."""
        raise errors.InvalidField("members", _too_few(0))

    def of_members(self, spec: JudgeSpec, members: Sequence[Member], field: str) -> Panel:
        """Return a panel of these members, of the profile and threshold of `spec`.

        `spec` stands at `field` of the request. Raises InvalidField when two members are the same
        judge, and when one takes spans, say, where another takes texts.
        """
        seen: dict[str, int] = {}
        for place, member in enumerate(members):
            path = f"{field}.members[{place}].judge"
            other = seen.setdefault(member.judge.identity.fingerprint, place)
            if other != place:
                raise errors.InvalidField(
                    path, f"is the judge of members[{other}] again, which would vote twice"
                )
            if _wants(member.judge) != _wants(members[0].judge):
                raise errors.InvalidField(
                    path,
                    f"takes {_WANTS[_wants(member.judge)]} and members[0] takes "
                    f"{_WANTS[_wants(members[0].judge)]}; all must take the same",
                )
        min_score = MIN_SCORE if spec.min_score is None else spec.min_score
        return Panel(tuple(members), Rule(spec.profile), min_score)


def check_members(spec: JudgeSpec, field: str) -> None:
    """Raise InvalidField when the members that a request names can't be a panel."""
    number = len(spec.members)
    if not LEAST_MEMBERS <= number <= MOST_MEMBERS:
        raise errors.InvalidField(f"{field}.members", _too_few(number))
    for place, member in enumerate(spec.members):
        if member.weight is None:
            continue
        path = f"{field}.members[{place}].weight"
        if not (math.isfinite(member.weight) and LIGHTEST <= member.weight <= HEAVIEST):
            raise errors.InvalidField(path, f"must be a number from {LIGHTEST:g} to {HEAVIEST:g}")
        if spec.profile != Rule.WEIGHTED:
            raise errors.InvalidField(path, "is for the profile weighted; leave it out, or ask so")


def _too_few(number: int) -> str:
    return f"{number} member{'s' * (number != 1)}; name {LEAST_MEMBERS} to {MOST_MEMBERS} judges"


def _wants(judge: Judge) -> tuple[bool, bool]:
    return judge.wants_embeddings, judge.wants_spans


class Panel:
    """Several judges that decide together."""

    def __init__(self, members: tuple[Member, ...], rule: Rule, min_score: float) -> None:
        self.members = members
        self.priced = all(member.judge.priced for member in members)
        self.unavailable = next((m.judge.unavailable for m in members if m.judge.unavailable), "")
        self._rule = rule
        self.wants_embeddings, self.wants_spans = _wants(members[0].judge)
        self.needs_expected = any(member.judge.needs_expected for member in members)
        identities = [member.judge.identity for member in members]
        # Members under other thresholds vote otherwise: their fingerprints count, not their keys.
        names = [f"{one.kind}/{one.fingerprint[:8]}" for one in identities]
        if rule is Rule.WEIGHTED:
            weights = [format(member.weight, ".12g") for member in members]
            names = [f"{name}*{weight}" for name, weight in zip(names, weights, strict=True)]
        self.identity = JudgeIdentity.build(
            PanelKind.kind,
            rule,
            min_score,
            [("members", ",".join(names))],
            VERSION,
            [
                (f"member_{place}", f"{member.judge.identity.fingerprint}|{member.weight!r}")
                for place, member in enumerate(members)
            ],
        )

    def planned_calls(self, groups: Sequence[QueryGroup]) -> Iterator[PlannedCall]:
        """Yield all that the members would ask a language model about the groups."""
        for member in self.members:
            yield from member.judge.planned_calls(groups)

    def check_api_keys(self, cache: CacheMode) -> None:
        """Raise ModelNotConfigured when a member may have to ask a model whose key is missing."""
        for member in self.members:
            member.judge.check_api_keys(cache)

    async def judge(self, groups: Sequence[QueryGroup], caller: Caller) -> ScoreColumns:
        """Return what the members decide on each context; all judge at the same time.

        The first member that can't judge at all ends the others, and its error is raised. What it
        could not judge of the contexts is its missing vote.
        """
        total = sum(group.n_contexts for group in groups)
        found: list[Verdicts | None] = [None] * len(self.members)

        async def judge(place: int) -> None:
            member = self.members[place].judge
            columns = await member.judge(groups, caller)
            if len(columns.scores) != total:
                raise RuntimeError(
                    f"{member.identity.kind} returned {len(columns.scores)} scores for {total}"
                )
            found[place] = Verdicts.decide(columns, (), member.identity.min_score)

        await fan_out(judge, range(len(self.members)), len(self.members))
        verdicts = [one for one in found if one is not None]
        return await asyncio.to_thread(self._decide, verdicts, caller.wants_details)

    def _decide(self, verdicts: Sequence[Verdicts], wants_details: bool) -> ScoreColumns:
        all_votes = MemberVotes(
            tuple(verdicts),
            tuple(member.weight for member in self.members),
            tuple(member.signature for member in self.members),
        )
        usages = [one.columns.usage for one in verdicts if one.columns.usage is not None]
        columns = tally_votes(all_votes, self._rule, reduce(add, usages) if usages else None)
        if not wants_details:
            return columns
        relevant = Verdicts.decide(columns, (), self.identity.min_score).relevant
        return describe(all_votes, columns, relevant)
