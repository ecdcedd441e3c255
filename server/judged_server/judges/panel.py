"""The judge `panel`: several judges over the same contexts, and one verdict of theirs.

Owns the members, what enters the panel's identity, and that they run side by side. Leaves building
the members to `catalog`, running one to whoever makes the panel, the rule by which verdicts become
one to `panel_vote`.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

from judged_server import errors
from judged_server.domain import (
    CacheMode,
    JudgeIdentity,
    JudgeSpec,
    ParameterScalar,
    QueryGroup,
    ScoreColumns,
    Verdicts,
)
from judged_server.judges.llm.concurrency import fan_out
from judged_server.judges.panel_vote import Ballots, Rule, describe, poll
from judged_server.llm.caller import Prospect
from judged_server.ports import AskingJudge, AsyncJudge, Caller, LexicalJudge, Profile
from judged_server.threads import off_loop_if

VERSION = 1
MIN_SCORE = 0.5
LEAST_MEMBERS, MOST_MEMBERS = 2, 16
LIGHTEST, HEAVIEST = 1e-6, 1e6
"""Weights within these can be summed without loss that would show."""
LARGE_CONTEXTS = 10_000
"""More verdicts than this, over all members, are put together off the event loop: about 1 ms."""
LARGE_DETAILS = 500

_WANTS = {(False, False): "texts", (True, False): "embeddings", (False, True): "spans"}

AnyMember = LexicalJudge | AsyncJudge | AskingJudge
Run = Callable[[AnyMember, Sequence[QueryGroup], Caller], Awaitable[ScoreColumns]]
"""Runs one judge, whatever its kind."""


@dataclass(frozen=True, slots=True)
class Member:
    """One judge of a panel, settled, and the weight of its verdict."""

    judge: AnyMember
    weight: float = 1.0

    @property
    def signature(self) -> str:
        """The signature of its judge."""
        return self.judge.identity.signature


class PanelKind:
    """Seats panels; `run` runs a member."""

    kind = "panel"
    asks_models = True
    for_embeddings: Mapping[str, ParameterScalar] | None = None
    profiles = (
        Profile("majority", "Several judges vote; the score is the share of yeses.", MIN_SCORE),
        Profile("mean", "The score is the mean of the scores of several judges.", MIN_SCORE),
        Profile("weighted", "The score is their mean, by the weights of the members.", MIN_SCORE),
    )

    def __init__(self, run: Run) -> None:
        self._run = run

    def build(self, spec: JudgeSpec) -> Panel:  # noqa: ARG002 - of the protocol
        """Raise InvalidField: a panel is made by `seat`, of members that are built already."""
        raise errors.InvalidField("members", _too_few(0))

    def seat(self, spec: JudgeSpec, members: Sequence[Member], field: str) -> Panel:
        """Return a panel of these members, of the profile and bar of `spec`.

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
        return Panel(tuple(members), Rule(spec.profile), min_score, self._run)


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


def _wants(judge: AnyMember) -> tuple[bool, bool]:
    return judge.wants_embeddings, judge.wants_spans


class Panel:
    """Several judges that decide together; implements ports.AskingJudge."""

    def __init__(self, members: tuple[Member, ...], rule: Rule, min_score: float, run: Run) -> None:
        self.members = members
        self.priced = all(getattr(member.judge, "priced", True) for member in members)
        self._rule = rule
        self._run = run
        self.wants_embeddings, self.wants_spans = _wants(members[0].judge)
        identities = [member.judge.identity for member in members]
        # Members under other bars vote otherwise, so their fingerprints count, not their keys.
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

    def prospects(self, groups: Sequence[QueryGroup]) -> Iterator[Prospect]:
        """Yield all that the members would ask a language model about the groups."""
        for member in self.members:
            if hasattr(member.judge, "prospects"):
                yield from member.judge.prospects(groups)

    def refuse_keyless(self, cache: CacheMode) -> None:
        """Raise ModelNotConfigured when a member may have to ask a model whose key is missing."""
        for member in self.members:
            if hasattr(member.judge, "refuse_keyless"):
                member.judge.refuse_keyless(cache)

    async def ask(self, groups: Sequence[QueryGroup], caller: Caller) -> ScoreColumns:
        """Return what the members decide on each context; all judge at the same time.

        The first member that can't judge at all ends the others, and its error is raised. What it
        could not judge of the contexts is its missing vote.
        """
        total = sum(group.n_contexts for group in groups)
        found: list[Verdicts | None] = [None] * len(self.members)

        async def judge(place: int) -> None:
            member = self.members[place].judge
            columns = await self._run(member, groups, caller)
            if len(columns.scores) != total:
                raise RuntimeError(
                    f"{member.identity.kind} returned {len(columns.scores)} scores for {total}"
                )
            found[place] = Verdicts.decide(columns, (), member.identity.min_score)

        await fan_out(judge, range(len(self.members)), len(self.members))
        verdicts = [one for one in found if one is not None]
        large = total * len(verdicts) > LARGE_CONTEXTS
        large = large or (caller.wants_details and total > LARGE_DETAILS)
        return await off_loop_if(large, self._decide, verdicts, caller.wants_details)

    def _decide(self, verdicts: Sequence[Verdicts], wants_details: bool) -> ScoreColumns:
        ballots = Ballots(
            tuple(verdicts),
            tuple(member.weight for member in self.members),
            tuple(member.signature for member in self.members),
        )
        usages = [one.columns.usage for one in verdicts if one.columns.usage is not None]
        columns = poll(ballots, self._rule, reduce(add, usages) if usages else None)
        if not wants_details:
            return columns
        relevant = Verdicts.decide(columns, (), self.identity.min_score).relevant
        return describe(ballots, columns, relevant)
