"""The judge `cascade`: stages in order, each of which settles the items it is sure of.

An item is one retrieved text with all expected texts of its group. Its best score decides whether a
stage settles it; the other items go to the next stage. All scores are on one scale, the probability
if a stage is calibrated, so that one threshold fits all stages.

If the cost of a call is limited, the next stage is asked first about the items in most doubt, so
that those it can't pay for are the ones in least doubt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
from judged.values.calibrators import Calibrator, ErrorGuarantee, ItemShares, stages_sha256
from judged.values.choices import Flag, Source, Status
from judged.values.groups import VerdictDetail
from judged.values.judges import CascadeUsage, JudgeIdentity, StageUsage, Usage

from judged_server.domain import (
    TIE_TOLERANCE,
    BoolArray,
    FloatArray,
    Group,
    IntArray,
    JudgeSpec,
    Parameter,
    ScoreColumns,
    VerdictFault,
    need,
)
from judged_server.judges.base import (
    CalibratedJudge,
    Caller,
    ComposedJudge,
    ComposedKind,
    Judge,
    Profile,
    PureJudge,
)
from judged_server.llm.chat import Reason
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

    A stage without a calibration, or with one that has neither `accept` nor `reject`, settles all
    that it judges. Only the `last` stage settles texts that it did not read: a later one may read
    them.
    """

    judge: Judge
    calibrator: Calibrator | None
    last: bool

    @property
    def settles_all(self) -> bool:
        """Whether it settles all items that it judges."""
        calibrator = self.calibrator
        return calibrator is None or (calibrator.accept is None and calibrator.reject is None)

    @property
    def pure(self) -> PureJudge | None:
        """The judge without its calibration, if it is a PureJudge, else None."""
        judge = self.judge.inner if isinstance(self.judge, CalibratedJudge) else self.judge
        return judge if isinstance(judge, PureJudge) else None

    def settled(self, best: FloatArray) -> BoolArray:
        """Return a mask of the items that it settles, by their best scores; NaN is not settled."""
        if self.calibrator is None:
            return settled_by(best, None, None)
        return settled_by(best, self.calibrator.accept, self.calibrator.reject)

    def by_doubt(self, best: FloatArray) -> IntArray:
        """Return the items that it does not settle, the least certain first."""
        sure = best if self.calibrator is None else Platt.of(self.calibrator).probabilities(best)
        sure = np.where(np.isnan(best), 0.0, np.abs(sure - 0.5))
        order: IntArray = np.argsort(sure, kind="stable")
        return order[~self.settled(best)[order]]


@dataclass(frozen=True, slots=True)
class Left:
    """The items not settled yet: their groups, and the index of each context in the call."""

    groups: Sequence[Group]
    places: IntArray

    @classmethod
    def of(cls, groups: Sequence[Group]) -> Left:
        """Return all items of the groups."""
        filled = [group for group in groups if group.n_contexts]
        return cls(filled, np.arange(sum(group.n_contexts for group in filled)))

    @property
    def sizes(self) -> list[int]:
        """The number of contexts of each item."""
        return [group.n_expected for group in self.groups for _ in range(group.n_retrieved)]

    @property
    def items(self) -> IntArray:
        """The index of each context's item."""
        of_each: IntArray = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return of_each

    def take(self, items: IntArray) -> Left:
        """Return the items in the order given, each as a group of its own."""
        of_each = [(group, rank) for group in self.groups for rank in range(group.n_retrieved)]
        groups = [of_each[item][0].at_ranks([of_each[item][1]]) for item in items.tolist()]
        places = np.split(self.places, np.cumsum(self.sizes)[:-1])
        chosen = [places[item] for item in items.tolist()]
        return Left(groups, np.concatenate([np.zeros(0, np.int64), *chosen]))

    def best_scores(self, columns: ScoreColumns, stage: Stage) -> FloatArray:
        """Return each item's best score in a stage; NaN if all its verdicts are missing.

        Unless the stage is the last one, also NaN if it did not read a text of the item, or if a
        verdict is missing that might have been above `accept`.
        """
        items, ok = self.items, columns.ok
        best = np.full(len(self.sizes), -1.0)
        np.maximum.at(best, items[ok], columns.scores[ok])
        if not stage.last and not ok.all():
            accept = None if stage.calibrator is None else stage.calibrator.accept
            open_items = items[~ok]
            below = best[open_items] + TIE_TOLERANCE < (np.inf if accept is None else accept)
            best[open_items[below]] = -1.0
        if columns.flags is not None and not stage.last:
            best[items[(columns.flags & (Flag.NO_TOKENS | Flag.UNKNOWN_TOKENS)) > 0]] = -1.0
        return np.where(best < 0, np.nan, best)

    def counts(
        self, data: Sequence[ItemShares], columns: ScoreColumns, best: FloatArray
    ) -> IntArray:
        """Count the items in each bin of a guarantee's data, by buckets of their queries."""
        flagged = np.zeros(len(best), np.bool_)
        if columns.flags is not None:
            flagged[self.items[columns.flags != 0]] = True
        flags = np.where(np.isnan(best), MISSING, np.where(flagged, FLAGGED, PLAIN))
        names = [each.query or each.query_id or "".join(each.expected[:1]) for each in self.groups]
        buckets = np.array([crc32(name.encode()) % BUCKETS for name in names], np.int64)
        lengths = [len(text) for group in self.groups for text in group.retrieved]
        of_each = np.repeat(buckets, [group.n_retrieved for group in self.groups])
        return count_items(data, of_each, best, flags, np.array(lengths, np.float64))


_UNSETTLED = (
    "no stage of the cascade was sure of it; add a stage that settles everything, llm for "
    'instance, or ask for "unsettled": "earlier"'
)


class _Run:
    """The verdicts and the usage of the stages in one call."""

    def __init__(self, cascade: Cascade, groups: Sequence[Group]) -> None:
        self.left = Left.of(groups)
        n = len(self.left.places)
        self._cascade = cascade
        self._found = ScoreColumns(
            np.zeros(n),
            np.full(n, Status.ABSTAINED, np.uint8),
            np.zeros(n, np.uint8),
            majorities=np.ones(n, np.bool_),
            sources=np.full(n, Source.COMPUTED, np.uint8),
            probabilities=np.zeros(n),
            stages=np.zeros(n, np.uint8),
        )
        self._settled: BoolArray = np.zeros(n, np.bool_)
        self._calibrated = True
        self._faults: dict[int, VerdictFault] = {}
        self._details: dict[int, VerdictDetail] = {}
        self._took = [StageUsage(stage.judge.identity.signature) for stage in cascade.stages]
        self._usage = Usage()
        self._counts: tuple[int, ...] = ()

    def take(self, place: int, columns: ScoreColumns, *, limited: bool) -> None:
        """Record a stage's verdicts on all items left, and keep those that it does not settle.

        Verdicts on unsettled items are provisional: a later stage replaces them, unless its own are
        missing. With `limited` cost, the items that are kept are ordered by doubt, most doubt
        first.
        """
        stage, left, found = self._cascade.stages[place], self.left, self._found
        ok, places, items = columns.ok, left.places, left.items
        best = left.best_scores(columns, stage)
        order, done = stage.by_doubt(best), stage.settled(best)
        given = {name: columns.filled(name) for name in ("scores", "majorities", "flags")}
        given["stages"] = np.full(len(places), place + 1, np.uint8)
        self._calibrated &= columns.probabilities is not None
        if columns.probabilities is not None:
            given["probabilities"] = columns.probabilities
            if stage.calibrator is not None:
                given["scores"] = columns.probabilities
        for name, column in given.items():
            found.filled(name)[places[ok]] = column[ok]
        found.filled("sources")[places] = columns.filled("sources")
        statuses = found.filled("statuses")
        statuses[places[done[items] & ok]] = Status.OK
        statuses[places[~ok]] = columns.filled("statuses")[~ok]
        self._settled[places] = done[items]
        for fault in columns.faults:
            index = int(places[fault.index])
            self._faults[index] = replace(fault, index=index)
        for item, detail in columns.details.items():
            self._details[int(places[item])] = detail
        unpaid = {items[fault.index] for fault in columns.faults if fault.reason == Reason.BUDGET}
        usage = columns.usage or Usage()
        signature, n_asked = stage.judge.identity.signature, len(done) - len(unpaid)
        self._took[place] += StageUsage(signature, n_asked, int(done.sum()), usage.cost)
        guarantee = self._cascade.guarantee
        if place == 0 and guarantee is not None and guarantee.data:
            self._counts = tuple(left.counts(guarantee.data, columns, best).tolist())
        self._usage += usage
        self.left = left.take(order if limited else np.sort(order))

    def columns(self) -> ScoreColumns:
        """Return the verdicts; unsettled items abstain or keep the verdict of an earlier stage."""
        found = self._found
        statuses, stages = found.filled("statuses"), found.filled("stages")
        for place in np.flatnonzero(~self._settled & (stages > 0)).tolist():
            if self._cascade.unsettled == EARLIER:
                statuses[place] = Status.OK
                found.filled("flags")[place] |= Flag.UNSETTLED
                continue
            statuses[place] = Status.ABSTAINED
            self._faults.setdefault(place, VerdictFault(place, "UNSETTLED", _UNSETTLED))
        ok = found.ok
        for name in ("scores", "probabilities", "stages"):
            found.filled(name)[~ok] = 0
        did = CascadeUsage(tuple(self._took), None, self._cascade.guarantee, self._counts)
        return replace(
            found,
            faults=tuple(self._faults[place] for place in sorted(self._faults) if not ok[place]),
            details=dict(sorted(self._details.items())),
            usage=replace(self._usage, cascade=did),
            probabilities=found.probabilities if self._calibrated else None,
        ).compact()


VERSION = 1
MIN_SCORE = 0.5
ABSTAIN, EARLIER = "abstain", "earlier"


class CascadeKind(ComposedKind):
    """Builds cascades."""

    kind = "cascade"
    least, most = 1, 8
    wants = "texts"
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

    def compose(self, spec: JudgeSpec, judges: Sequence[Judge], field: str) -> Cascade:
        """Return the cascade.

        Raises InvalidField for a threshold of the cascade itself, a stage after one that settles
        all items, a stage with another scale, and a guarantee made for other stages.
        """
        rule = "is of each stage; leave it out, or set it there"
        need(spec.min_score in {None, MIN_SCORE}, f"{field}.min_score", rule)
        stages = []
        for place, judge in enumerate(judges):
            calibrator = judge.calibrator if isinstance(judge, CalibratedJudge) else None
            stage = Stage(judge, calibrator, place + 1 == len(judges))
            for name, holds, rule in _rules(stage):
                need(holds, f"{field}.members[{place}].judge.{name}", rule)
            stages.append(stage)
        guarantee = spec.guarantee
        of = [(stage.judge.identity.scoring_key, stage.calibrator) for stage in stages]
        need(
            guarantee is None or guarantee.stages_sha256 == stages_sha256(of),
            f"{field}.guarantee.stages_sha256",
            "is of other stages, in another order, or of other versions of their judges; make a "
            "new cascade with `judged frontier`, or leave the guarantee out",
        )
        return Cascade(stages, str(spec.parameters["unsettled"]), guarantee)


def _rules(stage: Stage) -> Iterator[tuple[str, bool, str]]:
    """Yield the rules of a stage: a field of its judge, whether the rule holds, and its words."""
    rule = (
        "must have accept or reject, else the stages after it are never asked; make one with "
        "`judged calibrate --max-error X` or `--max-share X`"
    )
    yield "calibration", stage.last or not stage.settles_all, rule
    calibrator, min_score = stage.calibrator, stage.judge.identity.min_score
    if calibrator is None:
        rule = (
            f"is {min_score:g}, and the scores of stages have the threshold {MIN_SCORE:g}; "
            "set it to that, or give the stage a calibration"
        )
        yield "min_score", min_score == MIN_SCORE, rule
        return
    for name, bound, sign in (("accept", calibrator.accept, 1), ("reject", calibrator.reject, -1)):
        given = np.array([MIN_SCORE if bound is None else bound])
        probability = float(Platt.of(calibrator).probabilities(given)[0])
        rule = (
            f"is the score of a probability of {probability:.3g}, on the other side of "
            f"{MIN_SCORE:g}; calibrate the judge again"
        )
        holds = bound is None or sign * (probability - MIN_SCORE) >= 0
        yield f"calibration.calibrator.{name}", holds, rule


class Cascade(ComposedJudge):
    """Several judges in order."""

    def __init__(
        self, stages: Sequence[Stage], unsettled: str, guarantee: ErrorGuarantee | None = None
    ) -> None:
        super().__init__([stage.judge for stage in stages])
        self.stages = stages
        self.guarantee = guarantee
        self.unsettled = unsettled
        self.identity = JudgeIdentity.build(
            CascadeKind.kind,
            "",
            MIN_SCORE,
            [("stages", ",".join(self.names)), ("unsettled", unsettled)],
            VERSION,
            [(f"stage_{place}", text) for place, text in enumerate(self.fingerprints)],
        )

    def _reach(self, groups: Sequence[Group]) -> Iterator[tuple[Stage, Left, int | None]]:
        """Yield each stage with the items that can reach it, and the number that it settles.

        Stages that ask no model are run to find the number; it is None for the others.
        """
        left = Left.of(groups)
        for stage in self.stages:
            reached, n_settled = left, None
            if left.groups and (pure := stage.pure) is not None:
                best = left.best_scores(pure.score(left.groups), stage)
                rest = np.flatnonzero(~stage.settled(best))
                n_settled, left = len(best) - len(rest), left.take(rest)
            yield stage, reached, n_settled

    def planned_calls(self, groups: Sequence[Group]) -> Iterator[PlannedCall]:
        """Yield the model calls of the stages, as far as known without making any."""
        for stage, left, _ in self._reach(groups):
            yield from stage.judge.planned_calls(left.groups)

    def estimate(self, groups: Sequence[Group]) -> CascadeUsage:
        """Return the most items that reach each stage, and the number settled without models."""
        stages = [
            StageUsage(
                stage.judge.identity.signature,
                len(left.sizes),
                n_settled or 0,
                None if n_settled is None else 0.0,
            )
            for stage, left, n_settled in self._reach(groups)
        ]
        return CascadeUsage(tuple(stages), None, self.guarantee)

    async def judge(self, groups: Sequence[Group], caller: Caller) -> ScoreColumns:
        """Run the stages in order, each on the items left by the one before."""
        run = _Run(self, groups)
        limited = caller.cost_tracker.limit is not None
        for place, stage in enumerate(self.stages):
            if run.left.groups:
                columns = await stage.judge.judge(run.left.groups, caller)
                await asyncio.to_thread(run.take, place, columns, limited=limited)
        return run.columns()
