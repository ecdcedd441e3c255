"""The judge `panel`: several judges over the same contexts, and one verdict of theirs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

from judged.values.choices import CacheMode

from judged_server import errors
from judged_server.domain import (
    JudgeIdentity,
    JudgeSpec,
    ParameterScalar,
    QueryGroup,
    ScoreColumns,
    Verdicts,
)
from judged_server.judges.base import Caller, Judge, Profile
from judged_server.judges.panel_vote import MemberVotes, Rule, describe, tally_votes
from judged_server.llm.question import PlannedCall
from judged_server.scheduling.concurrency import fan_out

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
