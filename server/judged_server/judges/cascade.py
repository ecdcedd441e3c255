"""The judge `cascade`: judges in order, each of which settles what it is sure of.

What a stage is asked about is an item: one retrieved text with all expected ones of its group. Its
best score says whether the stage settles it; what it does not settle goes on. All scores are on one
scale, the probability where a stage is calibrated, so that one threshold fits all stages.

An item is in doubt as far as the stage before was unsure of it: with a limit on what a call may
cost, those most in doubt go first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
from judged.values.calibrators import Calibrator, ErrorGuarantee, ItemShares, stages_sha256
from judged.values.choices import Flag, Source, Status
from judged.values.judges import CascadeUsage, JudgeIdentity, StageUsage, Usage

from judged_server import errors
from judged_server.domain import (
    BoolArray,
    ByteArray,
    CostTracker,
    FloatArray,
    IntArray,
    JudgeSpec,
    Parameter,
    QueryGroup,
    ScoreColumns,
    VerdictDetail,
    VerdictFault,
    nano_within,
    to_amount,
)
from judged_server.judges.base import (
    Caller,
    ComposedJudge,
    ComposedKind,
    Judge,
    Profile,
    PureJudge,
)
from judged_server.judges.calibrated import CalibratedJudge
from judged_server.llm.budget.budgets import estimate_calls
from judged_server.llm.question import PlannedCall
from judged_server.statistics.calibration.cascade import (
    BUCKETS,
    FLAGGED,
    MISSING,
    PLAIN,
    count_items,
    settled_by,
)
from judged_server.statistics.calibration.reliability import Platt


@dataclass(frozen=True, slots=True)
class Stage:
    """One judge of a cascade, and its calibration, if any.

    A stage whose calibration has neither `accept` nor `reject`, or that has none, settles all that
    it judges.
    """

    judge: Judge
    calibrator: Calibrator | None

    @classmethod
    def of(cls, judge: Judge) -> Stage:
        """Return the stage of a judge, calibrated or not."""
        return cls(judge, judge.calibrator if isinstance(judge, CalibratedJudge) else None)

    @property
    def scoring_key(self) -> str:
        """The key of the judge's scores, calibrated or not."""
        return self.judge.identity.scoring_key

    @property
    def settles_all(self) -> bool:
        """Whether nothing that it judges goes on."""
        calibrator = self.calibrator
        return calibrator is None or (calibrator.accept is None and calibrator.reject is None)

    @property
    def pure(self) -> PureJudge | None:
        """The judge, or that which is calibrated, where it asks nobody."""
        judge = self.judge.inner if isinstance(self.judge, CalibratedJudge) else self.judge
        return judge if isinstance(judge, PureJudge) else None

    def settled(self, best: FloatArray) -> BoolArray:
        """Return which items it settles by their best scores; NaN never."""
        if self.calibrator is None:
            return settled_by(best, None, None)
        return settled_by(best, self.calibrator.accept, self.calibrator.reject)

    def probabilities(self, best: FloatArray) -> FloatArray:
        """Return how sure it is that items are relevant, by their best scores."""
        if self.calibrator is None:
            return best
        return Platt.of(self.calibrator).probabilities(best)


@dataclass(frozen=True, slots=True)
class Left:
    """Items that are left: their groups, the place of each of their contexts, and their doubts.

    `doubts` is float64 an item, the larger the less sure the last stage was.
    """

    groups: Sequence[QueryGroup]
    places: IntArray
    doubts: FloatArray

    @classmethod
    def of(cls, groups: Sequence[QueryGroup]) -> Left:
        """Return all items of the groups."""
        filled = [group for group in groups if group.n_contexts]
        n = sum(group.n_contexts for group in filled)
        items = sum(group.n_retrieved for group in filled)
        return cls(filled, np.arange(n), np.zeros(items))

    @property
    def items(self) -> IntArray:
        """The item of each context."""
        sizes = [group.n_expected for group in self.groups for _ in range(group.n_retrieved)]
        of_each: IntArray = np.repeat(np.arange(len(sizes)), sizes)
        return of_each

    def only(self, chosen: BoolArray) -> Left:
        """Return the chosen items."""
        if chosen.all():
            return self
        left, item = [], 0
        for group in self.groups:
            ranks = np.flatnonzero(chosen[item : item + group.n_retrieved]).tolist()
            item += group.n_retrieved
            if ranks:
                left.append(group if len(ranks) == group.n_retrieved else group.at_ranks(ranks))
        return Left(left, self.places[chosen[self.items]], self.doubts[chosen])

    def with_doubts(self, probabilities: FloatArray) -> Left:
        """Return the items as far in doubt as they are near 0.5; without a verdict, entirely."""
        sure = np.where(np.isnan(probabilities), 0.0, np.abs(probabilities - 0.5))
        return Left(self.groups, self.places, -sure)

    @classmethod
    def joined(cls, parts: Sequence[Left]) -> Left:
        """Return the items of all parts."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            [group for part in parts for group in part.groups],
            np.concatenate([np.zeros(0, np.int64), *(part.places for part in parts)]),
            np.concatenate([np.zeros(0), *(part.doubts for part in parts)]),
        )


def best_scores(columns: ScoreColumns, left: Left, *, last: bool) -> FloatArray:
    """Return each item's best score; NaN where all its verdicts are missing.

    NaN too where a stage before the `last` one did not read a text: others may.
    """
    items, ok = left.items, columns.ok
    best = np.full(len(left.doubts), -1.0)
    np.maximum.at(best, items[ok], columns.scores[ok])
    if columns.flags is not None and not last:
        best[items[(columns.flags & (Flag.NO_TOKENS | Flag.UNKNOWN_TOKENS)) > 0]] = -1.0
    return np.where(best < 0, np.nan, best)


def count_left(
    data: Sequence[ItemShares], columns: ScoreColumns, left: Left, best: FloatArray
) -> IntArray:
    """Return the items in the bins of a guarantee's data, by buckets of their queries."""
    flagged = np.zeros(len(best), np.bool_)
    if columns.flags is not None:
        flagged[left.items[columns.flags != 0]] = True
    flags = np.where(np.isnan(best), MISSING, np.where(flagged, FLAGGED, PLAIN))
    names = [group.query or group.query_id or "".join(group.expected[:1]) for group in left.groups]
    buckets = np.array([crc32(name.encode()) % BUCKETS for name in names], np.int64)
    lengths = [len(text) for group in left.groups for text in group.retrieved]
    of_each = np.repeat(buckets, [group.n_retrieved for group in left.groups])
    return count_items(data, of_each, best, flags, np.array(lengths, np.float64))


def affordable(judge: Judge, left: Left, limit: int) -> BoolArray:
    """Return which items can be asked about for `limit` nano-units, those most in doubt first.

    Each counts as dear as its questions may be at most, whatever the cache knows.
    """
    costs = []
    for group in left.groups:
        for rank in range(group.n_retrieved):
            calls = judge.planned_calls([group.at_ranks([rank])])
            costs.append(_priced(calls)[1] or 0)
    order = np.argsort(-left.doubts, kind="stable")
    within = np.cumsum(np.array(costs, np.float64)[order]) <= limit
    chosen = np.zeros(len(costs), np.bool_)
    chosen[order[within]] = True
    return chosen


def money_left(tracker: CostTracker) -> int | None:
    """Return the nano-units that a call may still spend; None where there is no limit."""
    return None if tracker.limit is None else tracker.limit - tracker.spent - tracker.held


def avoided_by(stages: Sequence[Stage], groups: Sequence[QueryGroup]) -> tuple[int, int | None]:
    """Return how many questions the first of the stages that asks any would ask.

    Beside it what they would cost at most, in nano-units; None where a price is not known.
    """
    for stage in stages:
        calls, cost = _priced(stage.judge.planned_calls(groups))
        if calls:
            return calls, cost
    return 0, 0


def _priced(planned_calls: Iterable[PlannedCall]) -> tuple[int, int | None]:
    calls, cost = 0, 0
    known = True
    for planned, weight in estimate_calls(planned_calls):
        calls += planned.times
        known &= weight.cost is not None
        cost += planned.times * (weight.cost or 0)
    return calls, cost if known else None


_UNSETTLED = (
    "no stage of the cascade was sure of it; add a stage that settles everything, llm for "
    'instance, or ask for "unsettled": "earlier"'
)
_NO_MONEY = (
    "the items most in doubt used up max_cost before its turn; allow more, or ask for "
    '"unsettled": "earlier"'
)


class _Run:
    """What the stages of one call settled, and what they took."""

    def __init__(self, cascade: Cascade, groups: Sequence[QueryGroup]) -> None:
        n = sum(group.n_contexts for group in groups)
        self._guarantee = cascade.guarantee
        self._left: BoolArray = np.ones(n, np.bool_)
        self._scores: FloatArray = np.zeros(n)
        self._majorities: BoolArray = np.ones(n, np.bool_)
        self._probabilities: FloatArray = np.zeros(n)
        self._calibrated = True
        self._statuses: ByteArray = np.full(n, Status.ABSTAINED, np.uint8)
        self._flags: ByteArray = np.zeros(n, np.uint8)
        self._sources: ByteArray = np.full(n, Source.COMPUTED, np.uint8)
        self._stages: ByteArray = np.zeros(n, np.uint8)
        self._faults: dict[int, VerdictFault] = {}
        self._details: dict[int, VerdictDetail] = {}
        self._took = [StageUsage(stage.judge.identity.signature) for stage in cascade.stages]
        self._usage = Usage()
        self._avoided_cost: int | None = 0
        self.counts: tuple[int, ...] = ()

    def take(
        self, place: int, stage: Stage, columns: ScoreColumns, settled: BoolArray, asked: Left
    ) -> None:
        """Take in what a stage says of the items it was asked about, and which of them it settles.

        What it does not settle it says for the time being: a later stage writes over it. Where a
        stage has no verdict, that of an earlier one is not lost.
        """
        ok, places = columns.ok, asked.places
        at = places[ok]
        scores, probabilities = columns.scores, columns.probabilities
        if probabilities is None:
            self._calibrated = False
        else:
            self._probabilities[at] = probabilities[ok]
            scores = scores if stage.calibrator is None else probabilities
        self._scores[at] = scores[ok]
        self._majorities[at] = columns.filled("majorities")[ok]
        self._flags[at] = columns.filled("flags")[ok]
        if columns.sources is not None:
            self._sources[places] = columns.sources
        self._stages[at] = place + 1
        done = settled[asked.items]
        self._statuses[places[done & ok]] = Status.OK
        self._statuses[places[~ok]] = columns.filled("statuses")[~ok]
        for fault in columns.faults:
            index = int(places[fault.index])
            self._faults[index] = replace(fault, index=index)
        for detail in columns.details:
            index = int(places[detail.index])
            self._details[index] = replace(detail, index=index)
        self._left[places[done]] = False
        usage = columns.usage or Usage()
        signature = stage.judge.identity.signature
        self._took[place] += StageUsage(signature, len(settled), int(settled.sum()), usage.cost)
        self._usage += usage

    def avoid(self, calls: int, cost: int | None) -> None:
        """Note questions that later stages need not ask, and what they would have cost."""
        self._usage += Usage(avoided_calls=calls)
        if self._avoided_cost is not None:
            self._avoided_cost = None if cost is None else self._avoided_cost + cost

    def give_up(self, places: IntArray) -> None:
        """Note that the money did not reach contexts on which an earlier stage has a verdict."""
        for place in places[self._stages[places] > 0].tolist():
            self._faults[place] = VerdictFault(place, "BUDGET", _NO_MONEY)

    def columns(self, *, keeps_earlier: bool) -> ScoreColumns:
        """Return the verdicts; what nothing settled abstains, or is that of an earlier stage."""
        for place in np.flatnonzero(self._left & (self._stages > 0)).tolist():
            if keeps_earlier:
                self._statuses[place] = Status.OK
                self._flags[place] |= Flag.UNSETTLED
                continue
            self._statuses[place] = Status.ABSTAINED
            self._faults.setdefault(place, VerdictFault(place, "UNSETTLED", _UNSETTLED))
        ok = self._statuses == Status.OK
        avoided = None if self._avoided_cost is None else to_amount(self._avoided_cost)
        did = CascadeUsage(tuple(self._took), avoided, self._guarantee, self.counts)
        return ScoreColumns(
            np.where(ok, self._scores, 0.0),
            self._statuses,
            self._flags,
            tuple(self._faults[place] for place in sorted(self._faults) if not ok[place]),
            majorities=self._majorities,
            details=tuple(self._details[place] for place in sorted(self._details)),
            usage=replace(self._usage, cascade=did),
            sources=self._sources,
            probabilities=np.where(ok, self._probabilities, 0.0) if self._calibrated else None,
            stages=np.where(ok, self._stages, 0).astype(np.uint8),
        ).compact()


VERSION = 1
MIN_SCORE = 0.5
MOST_STAGES = 8
ABSTAIN, EARLIER = "abstain", "earlier"
MOST_ROUNDS = 32
"""How often a stage is asked about more items, once the money that is left is known."""


class CascadeKind(ComposedKind):
    """Builds cascades."""

    kind = "cascade"
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

    def check_members(self, spec: JudgeSpec, field: str) -> None:
        """Raise InvalidField for too few stages, too many, and for weights."""
        number = len(spec.members)
        if not 1 <= number <= MOST_STAGES:
            rule = f"{number} stages; name 1 to {MOST_STAGES} judges, in the order they are asked"
            raise errors.InvalidField(f"{field}.members", rule)
        for place, member in enumerate(spec.members):
            if member.weight is not None:
                raise errors.InvalidField(
                    f"{field}.members[{place}].weight", "is for panels; a stage has none"
                )

    def compose(self, spec: JudgeSpec, judges: Sequence[Judge], field: str) -> Cascade:
        """Return the cascade.

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


def _check_guarantee(guarantee: ErrorGuarantee, stages: Sequence[Stage], field: str) -> None:
    """Raise InvalidField where the guarantee is of other stages than these."""
    of = stages_sha256([(stage.scoring_key, stage.calibrator) for stage in stages])
    if guarantee.stages_sha256 != of:
        raise errors.InvalidField(
            f"{field}.stages_sha256",
            "is of other stages, in another order, or of other versions of their judges; make the "
            "cascade anew with `judged frontier`, or leave the guarantee out",
        )


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


class Cascade(ComposedJudge):
    """Several judges in order."""

    def __init__(
        self,
        stages: tuple[Stage, ...],
        unsettled: str,
        guarantee: ErrorGuarantee | None = None,
    ) -> None:
        super().__init__([stage.judge for stage in stages])
        self.stages = stages
        self.guarantee = guarantee
        self._unsettled = unsettled
        self.identity = JudgeIdentity.build(
            CascadeKind.kind,
            "",
            MIN_SCORE,
            [("stages", ",".join(self.names)), ("unsettled", unsettled)],
            VERSION,
            [(f"stage_{place}", text) for place, text in enumerate(self.fingerprints)],
        )

    def _reach(
        self, groups: Sequence[QueryGroup], limit: int | None = None
    ) -> Iterator[tuple[Stage, Left, int | None]]:
        """Yield for each stage the items that reach it at most, and how many it settles.

        That is known of stages that ask nobody, which are run; None of others. Of those, the items
        are counted that `limit` nano-units are sure to reach, and all of them may go on.
        """
        left = Left.of(groups)
        for place, stage in enumerate(self.stages):
            reached, n_settled = left, None
            if left.groups and (pure := stage.pure) is not None:
                best = best_scores(pure.score(left.groups), left, last=self._is_last(place))
                settled = stage.settled(best)
                n_settled = int(settled.sum())
                left = left.with_doubts(stage.probabilities(best)).only(~settled)
            elif left.groups and limit is not None:
                reached = left = left.only(affordable(stage.judge, left, limit))
            yield stage, reached, n_settled

    def planned_calls(self, groups: Sequence[QueryGroup]) -> Iterator[PlannedCall]:
        """Yield what the stages would ask, as far as that can be known without asking."""
        for stage, left, _ in self._reach(groups):
            yield from stage.judge.planned_calls(left.groups)

    def estimate(self, groups: Sequence[QueryGroup], max_cost: float | None) -> CascadeUsage:
        """Return how many items reach each stage at most, and what those that ask nobody settle."""
        limit = None if max_cost is None else nano_within(max_cost)
        stages = [
            StageUsage(
                stage.judge.identity.signature,
                len(left.doubts),
                n_settled or 0,
                None if n_settled is None else 0.0,
            )
            for stage, left, n_settled in self._reach(groups, limit)
        ]
        return CascadeUsage(tuple(stages), None, self.guarantee)

    def _is_last(self, place: int) -> bool:
        return place + 1 == len(self.stages)

    async def judge(self, groups: Sequence[QueryGroup], caller: Caller) -> ScoreColumns:
        """Return what the stages settle, stage after stage, each asked about the rest alone.

        Where the call has a limit on its cost, items go on in the order of their doubt, as many as
        can be paid whatever the replies; once those are answered, as many as what is left can pay.
        """
        run, left = _Run(self, groups), Left.of(groups)
        for place in range(len(self.stages)):
            if left.groups:
                left = await self._stage(place, left, caller, run)
        return run.columns(keeps_earlier=self._unsettled == EARLIER)

    async def _stage(self, place: int, left: Left, caller: Caller, run: _Run) -> Left:
        """Ask a stage about what is left; return what goes on to the next."""
        stage, goes_on, waiting = self.stages[place], [], left
        for _ in range(MOST_ROUNDS):
            chosen: BoolArray = np.ones(len(waiting.doubts), np.bool_)
            if place and (limit := money_left(caller.cost_tracker)) is not None:
                chosen = await asyncio.to_thread(affordable, stage.judge, waiting, limit)
            now, waiting = waiting.only(chosen), waiting.only(~chosen)
            if not now.groups:
                break
            columns = await stage.judge.judge(now.groups, caller)
            best = best_scores(columns, now, last=self._is_last(place))
            settled = stage.settled(best)
            if place == 0 and self.guarantee is not None and self.guarantee.data:
                data = self.guarantee.data
                counts = await asyncio.to_thread(count_left, data, columns, now, best)
                run.counts = tuple(counts.tolist())
            run.take(place, stage, columns, settled, now)
            goes_on.append(now.with_doubts(stage.probabilities(best)).only(~settled))
            later, gone = self.stages[place + 1 :], now.only(settled).groups
            run.avoid(*await asyncio.to_thread(avoided_by, later, gone))
            if not waiting.groups:
                break
        run.give_up(waiting.places)
        return Left.joined(goes_on)
