"""The judge `cascade`: judges in order, each of which settles what it is sure of.

What a stage is asked about is an item: one retrieved text with all expected ones of its group. Its
best score says whether the stage settles it; what it does not settle goes on. All scores are on one
scale, the probability where a stage is calibrated, so that one threshold fits all stages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from judged.values.choices import CacheMode

from judged_server import errors
from judged_server.domain import (
    CascadeUsage,
    ErrorGuarantee,
    JudgeIdentity,
    JudgeSpec,
    ParameterScalar,
    QueryGroup,
    ScoreColumns,
    StageUsage,
    Usage,
    stages_sha256,
)
from judged_server.domain.usage import nano_within, to_amount
from judged_server.judges.base import Caller, Judge, Parameter, Profile
from judged_server.judges.cascade_items import (
    Left,
    Stage,
    affordable,
    avoided_by,
    best_scores,
    count_left,
    money_left,
)
from judged_server.judges.cascade_verdicts import MergedVerdicts
from judged_server.llm.question import PlannedCall
from judged_server.statistics.calibration.reliability import Platt

VERSION = 1
MIN_SCORE = 0.5
MOST_STAGES = 8
ABSTAIN, EARLIER = "abstain", "earlier"
MOST_ROUNDS = 32
"""How often a stage is asked about more items, once the money that is left is known."""


class CascadeKind:
    """Puts cascades together."""

    kind = "cascade"
    asks_models = True
    for_embeddings: Mapping[str, ParameterScalar] | None = None
    profiles = (
        Profile(
            "",
            "Judges in order: each settles what it is sure of, the rest goes on to the next.",
            MIN_SCORE,
            (
                Parameter(
                    "unsettled",
                    ABSTAIN,
                    "What becomes of items that no stage settled, or could not for want of money: "
                    "no verdict, or that of the last stage that had one, flagged.",
                    choices=(ABSTAIN, EARLIER),
                ),
            ),
        ),
    )

    def build(self, spec: JudgeSpec) -> Cascade:  # noqa: ARG002 - of the protocol
        """Raise InvalidField: `of_stages` makes a cascade, of judges that are built already."""
        raise errors.InvalidField("members", _wrong_number(0))

    def of_stages(self, spec: JudgeSpec, judges: Sequence[Judge], field: str) -> Cascade:
        """Return the cascade of these judges; `spec` stands at `field` of the request.

        Raises InvalidField for a threshold of its own, for a stage behind one that settles all, for
        stages on another scale, and for judges that take other things than texts.
        """
        if spec.min_score not in {None, MIN_SCORE}:
            raise errors.InvalidField(
                f"{field}.min_score", "is of each stage; leave it out, or set it there"
            )
        stages = [Stage.of(judge) for judge in judges]
        for place, stage in enumerate(stages):
            last = place + 1 == len(stages)
            _check_stage(stage, f"{field}.members[{place}].judge", last=last)
        if spec.guarantee is not None:
            _check_guarantee(spec.guarantee, stages, f"{field}.guarantee")
        return Cascade(tuple(stages), str(spec.parameters["unsettled"]), spec.guarantee)


def check_stages(spec: JudgeSpec, field: str) -> None:
    """Raise InvalidField when the members that a request names can't be a cascade."""
    number = len(spec.members)
    if not 1 <= number <= MOST_STAGES:
        raise errors.InvalidField(f"{field}.members", _wrong_number(number))
    for place, member in enumerate(spec.members):
        if member.weight is not None:
            raise errors.InvalidField(
                f"{field}.members[{place}].weight", "is for panels; a stage has none"
            )


def _check_guarantee(guarantee: ErrorGuarantee, stages: Sequence[Stage], field: str) -> None:
    """Raise InvalidField where the guarantee is of other stages than these."""
    of = stages_sha256([(stage.scoring_key, stage.calibrator) for stage in stages])
    if guarantee.stages_sha256 != of:
        raise errors.InvalidField(
            f"{field}.stages_sha256",
            "is of other stages, in another order, or of other versions of their judges; make the "
            "cascade anew with `judged frontier`, or leave the guarantee out",
        )


def _wrong_number(number: int) -> str:
    return f"{number} stages; name 1 to {MOST_STAGES} judges, in the order they are asked"


def _check_stage(stage: Stage, path: str, *, last: bool) -> None:
    if stage.judge.wants_embeddings or stage.judge.wants_spans:
        raise errors.InvalidField(path, "takes no texts, which a cascade hands on")
    if stage.settles_all and not last:
        raise errors.InvalidField(
            f"{path}.calibration",
            "must have accept or reject, else the stages behind it are never asked; make one with "
            "`judged calibrate --max-error X` or `--max-share X`",
        )
    calibrator, min_score = stage.calibrator, stage.judge.identity.min_score
    if calibrator is None:
        if min_score != MIN_SCORE:
            raise errors.InvalidField(
                f"{path}.min_score",
                f"is {min_score:g}, and the scores of stages have the threshold {MIN_SCORE:g}; "
                "set it to that, or give the stage a calibration",
            )
        return
    platt = Platt(calibrator.slope, calibrator.intercept)
    for name, bound, sign in (("accept", calibrator.accept, 1), ("reject", calibrator.reject, -1)):
        if bound is None:
            continue
        probability = float(platt.probabilities(np.array([bound]))[0])
        if sign * (probability - MIN_SCORE) < 0:
            raise errors.InvalidField(
                f"{path}.calibration.calibrator.{name}",
                f"is the score of a probability of {probability:.3g}, on the other side of "
                f"{MIN_SCORE:g}; calibrate the judge anew",
            )


class Cascade:
    """Several judges in order."""

    wants_embeddings = False
    wants_spans = False

    def __init__(
        self,
        stages: tuple[Stage, ...],
        unsettled: str,
        guarantee: ErrorGuarantee | None = None,
    ) -> None:
        self.stages = stages
        self.guarantee = guarantee
        self._unsettled = unsettled
        judges = [stage.judge for stage in stages]
        self.needs_expected = any(judge.needs_expected for judge in judges)
        self.priced = all(judge.priced for judge in judges)
        self.unavailable = next((j.unavailable for j in judges if j.unavailable), "")
        prints = [judge.identity.fingerprint for judge in judges]
        names = [f"{j.identity.kind}/{p[:8]}" for j, p in zip(judges, prints, strict=True)]
        self.identity = JudgeIdentity.build(
            CascadeKind.kind,
            "",
            MIN_SCORE,
            [("stages", ",".join(names)), ("unsettled", unsettled)],
            VERSION,
            [(f"stage_{place}", text) for place, text in enumerate(prints)],
        )

    def check_api_keys(self, cache: CacheMode) -> None:
        """Raise ModelNotConfigured when a stage may have to ask a model whose key is missing."""
        for stage in self.stages:
            stage.judge.check_api_keys(cache)

    def planned_calls(self, groups: Sequence[QueryGroup]) -> Iterator[PlannedCall]:
        """Yield what the stages would ask, as far as that can be known without asking.

        Stages that ask no model are run: what they settle is asked of nobody. Behind one that does
        ask, all that it gets may go on.
        """
        left = Left.of(groups)
        for place, stage in enumerate(self.stages):
            yield from stage.judge.planned_calls(left.groups)
            if left.groups and (pure := stage.pure) is not None:
                best = best_scores(pure.score(left.groups), left, last=self._is_last(place))
                left = left.only(~stage.settled(best))

    def estimate(self, groups: Sequence[QueryGroup], max_cost: float | None) -> CascadeUsage:
        """Return how many items reach each stage at most, and what those that ask nobody settle.

        Of stages that do ask, it counts the items that `max_cost` is sure to reach.
        """
        left = Left.of(groups)
        limit = None if max_cost is None else nano_within(max_cost)
        counted = []
        for place, stage in enumerate(self.stages):
            signature = stage.judge.identity.signature
            asked = len(left.doubts)
            if left.groups and (pure := stage.pure) is not None:
                best = best_scores(pure.score(left.groups), left, last=self._is_last(place))
                settled = stage.settled(best)
                counted.append(StageUsage(signature, asked, int(settled.sum())))
                left = left.with_doubts(stage.probabilities(best)).only(~settled)
                continue
            if left.groups and limit is not None:
                left = left.only(affordable(stage.judge, left, limit))
            counted.append(StageUsage(signature, len(left.doubts), 0, None))
        return CascadeUsage(tuple(counted), None, self.guarantee)

    def _is_last(self, place: int) -> bool:
        return place + 1 == len(self.stages)

    async def judge(self, groups: Sequence[QueryGroup], caller: Caller) -> ScoreColumns:
        """Return what the stages settle, stage after stage, each asked about the rest alone.

        Where the call has a limit on its cost, items go on in the order of their doubt, as many as
        can be paid whatever the replies; once those are answered, as many as what is left can pay.
        """
        merged = MergedVerdicts(sum(group.n_contexts for group in groups))
        left, told = Left.of(groups), _Told(self)
        for place in range(len(self.stages)):
            if left.groups:
                left = await self._stage(place, left, caller, merged, told)
        return merged.columns(told.usage, keeps_earlier=self._unsettled == EARLIER)

    async def _stage(
        self, place: int, left: Left, caller: Caller, merged: MergedVerdicts, told: _Told
    ) -> Left:
        """Ask a stage about what is left; return what goes on to the next."""
        stage, goes_on, waiting = self.stages[place], [], left
        for _ in range(MOST_ROUNDS):
            now = waiting
            if place and (limit := money_left(caller.cost_tracker)) is not None:
                chosen = await asyncio.to_thread(affordable, stage.judge, waiting, limit)
                now, waiting = waiting.only(chosen), waiting.only(~chosen)
            else:
                waiting = waiting.only(np.zeros(len(waiting.doubts), np.bool_))
            if not now.groups:
                break
            columns = await stage.judge.judge(now.groups, caller)
            best = best_scores(columns, now, last=self._is_last(place))
            settled = stage.settled(best)
            if place == 0 and self.guarantee is not None and self.guarantee.data:
                data = self.guarantee.data
                counts = await asyncio.to_thread(count_left, data, columns, now, best)
                told.counts = tuple(counts.tolist())
            merged.take(place + 1, stage, columns, settled[now.items], now.places)
            goes_on.append(now.with_doubts(stage.probabilities(best)).only(~settled))
            gone = now.only(settled)
            avoided = await asyncio.to_thread(avoided_by, self.stages[place + 1 :], gone.groups)
            told.add(place, len(best), int(settled.sum()), columns.usage, avoided)
            if not waiting.groups:
                break
        merged.give_up(waiting.places)
        return Left.joined(goes_on)


class _Told:
    """What the stages did so far."""

    def __init__(self, cascade: Cascade) -> None:
        self._stages = [StageUsage(s.judge.identity.signature) for s in cascade.stages]
        self._guarantee = cascade.guarantee
        self.counts: tuple[int, ...] = ()
        self._avoided_cost: int | None = 0
        self._sum = Usage()

    def add(
        self,
        place: int,
        asked: int,
        settled: int,
        usage: Usage | None,
        avoided: tuple[int, int | None],
    ) -> None:
        """Take in how many items a stage was asked about, and settled, what it took and saved."""
        self._sum += usage or Usage()
        cost = 0.0 if usage is None else usage.cost
        signature = self._stages[place].judge
        self._stages[place] += StageUsage(signature, asked, settled, cost)
        calls, avoided_cost = avoided
        self._sum += Usage(avoided_calls=calls)
        known = avoided_cost is not None and self._avoided_cost is not None
        self._avoided_cost = (self._avoided_cost or 0) + (avoided_cost or 0) if known else None

    @property
    def usage(self) -> Usage:
        """What all of them took."""
        avoided = None if self._avoided_cost is None else to_amount(self._avoided_cost)
        stages = tuple(self._stages)
        return replace(
            self._sum, cascade=CascadeUsage(stages, avoided, self._guarantee, self.counts)
        )
