"""Makes cascades from labels: orders of judges, shares that go on, calibrations of what is left.

Whether they keep anything is for other labels to say; `frontier` asks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from judged_server.domain import TIE_TOLERANCE, BoolArray, IntArray
from judged_server.scheduling.checkpoint import checkpoint
from judged_server.statistics.calibration.cascade import settled_by
from judged_server.statistics.calibration.reliability import Platt, fit, least_certain
from judged_server.statistics.calibration.staged_items import StagedItems

MIN_LABELS = 100
MIN_CLUSTERS = 15
MIN_OF_A_KIND = 10
"""What a stage is calibrated on at least; without it, as its judge comes."""
SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75)
"""Shares of what a stage gets that it may hand on."""


@dataclass(frozen=True, slots=True)
class FrontierStage:
    """A judge by its place among the scored ones, its calibration, and its bounds.

    Without bounds it settles all that it gets. `fitted` says whether labels made the calibration,
    `share` which share of all items reaches it.
    """

    place: int
    platt: Platt
    fitted: bool
    accept: float | None = None
    reject: float | None = None
    share: float = 1.0

    @property
    def settles_all(self) -> bool:
        """Whether nothing goes on."""
        return self.accept is None and self.reject is None


Stages = tuple[FrontierStage, ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A cascade with what the labels that made it say: price and error, both flattered."""

    stages: Stages
    cost: float
    error: float
    dearest_share: float


def best_cascades(items: StagedItems, rows: IntArray, *, may_abstain: bool) -> list[Proposal]:
    """Return the cascades that no other beats on these rows, the cheapest first.

    Where stages may abstain, what is not settled counts before what is paid.
    """
    maker = _Maker(items, may_abstain)
    maker.begin(rows)
    dearest = max(judge.cost for judge in items.stages)
    found = []
    for stages in maker.grow((), rows, len(rows)):
        outcome = run(items, stages, rows)
        n_settled = int(outcome.settled.sum())
        if n_settled == 0:
            continue
        error = float(outcome.wrong.sum()) / n_settled
        unsettled = 1 - n_settled / len(rows)
        price = (unsettled, outcome.cost) if may_abstain else (outcome.cost, unsettled)
        share = max((s.share for s in stages if items.stages[s.place].cost == dearest), default=0.0)
        proposal = Proposal(stages, outcome.cost, error, share)
        found.append((price, error, len(stages), proposal))
    found.sort(key=lambda each: each[:3])
    kept: list[Proposal] = []
    for *_, proposal in found:
        if not kept or proposal.error < kept[-1].error:
            kept.append(proposal)
    return kept


@dataclass(slots=True)
class _Maker:
    """Makes cascades on the rows that propose."""

    items: StagedItems
    may_abstain: bool
    marginal: dict[int, tuple[Platt, bool]] = field(default_factory=dict)

    def grow(
        self, prefix: tuple[FrontierStage, ...], left: IntArray, n: int
    ) -> Iterator[tuple[FrontierStage, ...]]:
        """Yield every cascade that begins with some stages, which leave the rows `left` of n."""
        taken = {stage.place for stage in prefix}
        least = max((self.items.stages[place].cost for place in taken), default=0.0)
        for place, judge in enumerate(self.items.stages):
            if place in taken or judge.cost < least:
                continue
            checkpoint()
            scored = left[~np.isnan(judge.scores[left])]
            platt, fitted = self._calibration(place, scored)
            stage = FrontierStage(place, platt, fitted, share=len(left) / n)
            if not self.may_abstain:
                yield (*prefix, stage)
            if not len(scored) or (
                len(taken) + 1 == len(self.items.stages) and not self.may_abstain
            ):
                continue
            for share in SHARES:
                accept, reject = least_certain(platt, judge.scores[scored], share)
                bounded = replace(stage, accept=accept, reject=reject)
                if bounded.settles_all:
                    continue
                if self.may_abstain:
                    yield (*prefix, bounded)
                settled = settled_by(judge.scores[left], accept, reject)
                if not settled.all():
                    yield from self.grow((*prefix, bounded), left[~settled], n)

    def _calibration(self, place: int, rows: IntArray) -> tuple[Platt, bool]:
        """Return a calibration on these rows, else on all of the half, else the shipped one."""
        found = self._fitted(place, rows)
        if found is not None:
            return found, True
        if place not in self.marginal:
            kept = self.items.stages[place].shipped or Platt()
            self.marginal[place] = (kept, False)
        return self.marginal[place]

    def _fitted(self, place: int, rows: IntArray) -> Platt | None:
        labels = self.items.labels[rows]
        n_yes = int(labels.sum())
        if (
            len(rows) < MIN_LABELS
            or min(n_yes, len(rows) - n_yes) < MIN_OF_A_KIND
            or len(np.unique(self.items.clusters[rows])) < MIN_CLUSTERS
        ):
            return None
        return fit(self.items.stages[place].scores[rows], labels)

    def begin(self, rows: IntArray) -> None:
        """Calibrate each judge on all rows, for where too few are left."""
        for place, judge in enumerate(self.items.stages):
            scored = rows[~np.isnan(judge.scores[rows])]
            found = self._fitted(place, scored)
            if found is not None:
                self.marginal[place] = (found, True)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a cascade says of some rows: which are settled, which of them wrongly, what it costs."""

    settled: BoolArray
    wrong: BoolArray
    cost: float
    reached: tuple[float, ...]


def run(items: StagedItems, stages: Sequence[FrontierStage], rows: IntArray) -> Outcome:
    """Return what a cascade makes of some items, as the judge `cascade` would."""
    left = np.arange(len(rows))
    settled, wrong = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
    cost, reached = 0.0, []
    for stage in stages:
        judge = items.stages[stage.place]
        reached.append(len(left) / len(rows))
        cost += judge.cost * len(left)
        scores = judge.scores[rows[left]]
        by_it = settled_by(scores, stage.accept, stage.reject)
        places = left[by_it]
        said = stage.platt.probabilities(scores[by_it]) + TIE_TOLERANCE >= 0.5
        settled[places] = True
        wrong[places] = said != items.labels[rows[places]]
        left = left[~by_it]
    return Outcome(settled, wrong, cost / len(rows), tuple(reached))
