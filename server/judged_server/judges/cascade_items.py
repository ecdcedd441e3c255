"""The items that are left to a stage of a cascade, and those of them that its money reaches.

An item is one retrieved text with all expected ones of its group. It is in doubt as far as the
stage before was unsure of it: with a limit on what a call may cost, those most in doubt go first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from judged.values.choices import Flag

from judged_server.domain import (
    BoolArray,
    Calibrator,
    FloatArray,
    IntArray,
    ItemShares,
    QueryGroup,
    ScoreColumns,
)
from judged_server.domain.usage import CostTracker
from judged_server.judges.base import Judge, PureJudge
from judged_server.judges.calibrated import CalibratedJudge
from judged_server.llm.budget.pricing import estimate_calls
from judged_server.llm.question import PlannedCall
from judged_server.statistics.calibration.cascade import settled_by
from judged_server.statistics.calibration.reliability import Platt
from judged_server.statistics.calibration.shift import (
    BUCKETS,
    FLAGGED,
    MISSING,
    PLAIN,
    count_items,
)


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
        return Platt(self.calibrator.slope, self.calibrator.intercept).probabilities(best)


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
