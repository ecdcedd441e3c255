"""Cascades proposed from labels: which judges, in which order, between which scores items go on.

This is Pareto testing (Laufer-Goldshtein, Fisch, Barzilay, Jaakkola 2023, "Efficiently controlling
multiple risks with Pareto testing", arXiv 2210.07913). The clusters are dealt into two halves. On
the first one cascades are made: every order of the judges in which none comes before
a cheaper one, some left out, each stage handing on one of SHARES of what it gets. A stage is
calibrated on what the stages before it leave, so that all are fitted jointly. Of these cascades
the frontier is kept: those that no other beats in both price and error.

The other half made none of them, so what it says holds for each: the error of what is settled, and
its upper bound by Clopper and Pearson (1934), with the labels of one cluster counted as `cascade`
counts them. Which cascades keep `max_error` is tested from the dearest to the cheapest, and a walk
stops at the first that fails: fixed-sequence testing, which keeps the confidence over all. Where
cascades may abstain the first ones settle little; then several walks share the risk, as those of
`cascade` do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from judged.values.calibrators import ItemShares

from judged_server.domain import TIE_TOLERANCE, BoolArray, FloatArray, IntArray
from judged_server.errors import InvalidField, LimitExceeded
from judged_server.scheduling.checkpoint import checkpoint
from judged_server.statistics.calibration.calibrate import number_clusters
from judged_server.statistics.calibration.cascade import (
    PLAIN,
    count_labels,
    describe,
    labels_needed,
    settled_by,
    upper_bound,
    walks_begin,
)
from judged_server.statistics.calibration.reliability import Platt, fit, least_certain
from judged_server.statistics.calibration.thresholds import cluster_folds
from judged_server.statistics.quality import LabelledScores

MAX_STAGES = 4
MAX_LABELS = 20_000


@dataclass(frozen=True, slots=True)
class ScoredStage:
    """A judge's scores float64[n] of all items, NaN where it has none, and what one item costs.

    `shipped` is the calibration that comes with the judge, `flags` as `shift` counts them.
    """

    name: str
    scores: FloatArray
    cost: float
    shipped: Platt | None = None
    flags: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class StagedItems:
    """Labels bool[n] of items, and the scores of each judge; `clusters` as of ScoredItems.

    `lengths` float64[n] are those of the retrieved texts, None where they are not known.
    """

    stages: tuple[ScoredStage, ...]
    labels: BoolArray
    clusters: IntArray
    lengths: FloatArray | None = None

    @classmethod
    def build(
        cls,
        stages: Sequence[ScoredStage],
        labels: Sequence[bool],
        clusters: Sequence[int],
        lengths: Sequence[int] = (),
    ) -> StagedItems:
        """Return the items.

        Raises InvalidField for no label, a judge without one score an item, a score outside [0, 1],
        a price that is none, and columns of other lengths; LimitExceeded above MAX_LABELS.
        """
        n = len(labels)
        if n == 0:
            raise InvalidField("labels", "must hold at least one label")
        if n > MAX_LABELS:
            raise LimitExceeded("labels", "labels", MAX_LABELS, n)
        if not 1 <= len(stages) <= MAX_STAGES:
            raise InvalidField("stages", f"{len(stages)} judges; give 1 to {MAX_STAGES}")
        if clusters and len(clusters) != n:
            raise InvalidField("clusters", f"has {len(clusters)} entries for {n} labels")
        if lengths and len(lengths) != n:
            raise InvalidField("lengths", f"has {len(lengths)} entries for {n} labels")
        for place, stage in enumerate(stages):
            field_ = f"stages[{place}]"
            if len(stage.scores) != n:
                raise InvalidField(
                    f"{field_}.scores", f"has {len(stage.scores)} entries for {n} labels"
                )
            wrong = np.flatnonzero((stage.scores < 0) | (stage.scores > 1))
            if len(wrong):
                raise InvalidField(f"{field_}.scores[{wrong[0]}]", "must lie in 0 to 1")
            if not (math.isfinite(stage.cost) and stage.cost >= 0):
                raise InvalidField(f"{field_}.cost", "must be a number, 0 or more")
        groups = number_clusters(clusters) if clusters else np.arange(n)
        known = np.array(lengths, np.float64) if lengths else None
        return cls(tuple(stages), np.fromiter(labels, np.bool_, n), groups, known)


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
    shipped = [(judge.shipped or Platt(), False) for judge in items.stages]
    maker = _Maker(items, may_abstain, shipped)
    scored = [rows[~np.isnan(judge.scores[rows])] for judge in items.stages]
    maker.usual = [maker.calibration(place, own) for place, own in enumerate(scored)]
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
    """Makes cascades on the rows that propose.

    `usual` is the calibration of each judge where too few rows are left to fit one, and whether
    labels made it.
    """

    items: StagedItems
    may_abstain: bool
    usual: list[tuple[Platt, bool]]

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
            platt, fitted = self.calibration(place, scored)
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

    def calibration(self, place: int, rows: IntArray) -> tuple[Platt, bool]:
        """Return a calibration of a judge on these rows, where they are enough, else its usual."""
        labels = self.items.labels[rows]
        n_yes = int(labels.sum())
        found = None
        if (
            len(rows) >= MIN_LABELS
            and min(n_yes, len(rows) - n_yes) >= MIN_OF_A_KIND
            and len(np.unique(self.items.clusters[rows])) >= MIN_CLUSTERS
        ):
            found = fit(self.items.stages[place].scores[rows], labels)
        return self.usual[place] if found is None else (found, True)


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


MAX_POINTS = 20
"""Cascades of a frontier; of more, as many evenly spaced ones are kept."""
_MIN_HALF = 2
"""Clusters of either half without which nothing can be said."""


@dataclass(frozen=True, slots=True)
class FrontierOptions:
    """What the proposed cascade is to keep, and how its guarantee is made.

    With `max_share` at most that share of the items reaches the dearest judge, with `max_cost` an
    item costs that at most in the mean; otherwise the error is at most `max_error`. With
    `may_abstain` no stage settles everything: what none is sure of has no verdict.
    """

    max_error: float = 0.05
    max_share: float | None = None
    max_cost: float | None = None
    may_abstain: bool = False
    confidence: float = 0.95
    seed: int = 0

    @property
    def signature(self) -> str:
        """How the numbers are made, in one stable line."""
        parts = [f"frontier|max_error:{self.max_error:.12g}"]
        for name, value in (("max_share", self.max_share), ("max_cost", self.max_cost)):
            parts += [] if value is None else [f"{name}:{value:.12g}"]
        parts += ["may_abstain"] if self.may_abstain else []
        return "|".join([*parts, f"confidence:{self.confidence:.12g}", f"seed:{self.seed}", "v1"])


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """A cascade, with what one item costs in the mean and what the held-out labels say of it.

    `error` is the share of what is `settled` that the labels contradict, None where nothing is;
    `upper` bounds it. `data` says how all items are spread, and `labels_needed` how many labels of
    others would bound it as well. `certified` says that the walk reached it.
    """

    stages: tuple[FrontierStage, ...]
    cost: float
    settled: float
    n_settled: int
    n_wrong: int
    error: float | None
    upper: float
    n_clusters: int
    labels_counted: float
    data: tuple[ItemShares, ...] = ()
    labels_needed: int = 0
    certified: bool = False


@dataclass(frozen=True, slots=True)
class Frontier:
    """The cascades worth having, the cheapest first, and the one proposed; None where none will do.

    `uncertified` is the cheapest one that keeps max_error on the held-out labels alone.
    """

    points: tuple[FrontierPoint, ...]
    proposed: int | None
    uncertified: int | None
    n_proposing: int
    n_certifying: int
    n_clusters: int
    signature: str
    warnings: tuple[str, ...] = ()


def frontier(items: StagedItems, options: FrontierOptions) -> Frontier:
    """Return the cascades worth having by the first half of the labels, tested on the other."""
    half, halves = cluster_folds(
        LabelledScores(np.zeros(len(items.labels)), items.labels, items.clusters), 2, options.seed
    )
    n_clusters = len(np.unique(items.clusters))
    if halves < 2 or n_clusters < 2 * _MIN_HALF:
        raise InvalidField(
            "clusters", f"are {n_clusters}; label items of {2 * _MIN_HALF} queries at least"
        )
    proposing, certifying = np.flatnonzero(half == 0), np.flatnonzero(half == 1)
    made = best_cascades(items, proposing, may_abstain=options.may_abstain)
    kept, wanted = _thinned(made, options)
    points = [_tested(items, certifying, stages, options) for stages in kept]
    points = _certified(points, items, certifying, options)
    if options.max_share is None and options.max_cost is None:
        wanted = next((place for place, point in enumerate(points) if point.certified), None)
    fine = (
        place
        for place, point in enumerate(points)
        if point.error is not None and point.error <= options.max_error
    )
    return Frontier(
        tuple(points),
        wanted,
        next(fine, None),
        len(proposing),
        len(certifying),
        n_clusters,
        options.signature,
        tuple(_warnings(items, points, wanted, options)),
    )


def _thinned(
    made: Sequence[Proposal], options: FrontierOptions
) -> tuple[list[tuple[FrontierStage, ...]], int | None]:
    """Return MAX_POINTS cascades at most, and the place of the best that keeps share and price."""
    places = set(range(len(made)))
    if len(made) > MAX_POINTS:
        places = set(np.linspace(0, len(made) - 1, MAX_POINTS).round().astype(int).tolist())
    keep = [
        place
        for place, one in enumerate(made)
        if (options.max_share is None or one.dearest_share <= options.max_share)
        and (options.max_cost is None or one.cost <= options.max_cost)
    ]
    wanted = min(keep, key=lambda place: made[place].error, default=None)
    if wanted is not None:
        places.add(wanted)
    ordered = sorted(places)
    chosen = None if wanted is None else ordered.index(wanted)
    return [made[place].stages for place in ordered], chosen


def _tested(
    items: StagedItems,
    certifying: IntArray,
    stages: tuple[FrontierStage, ...],
    options: FrontierOptions,
) -> FrontierPoint:
    """Return a cascade with what the labels say of it that did not make it.

    Prices and shares hang on no label: they are means over all items.
    """
    everything = run(items, stages, np.arange(len(items.labels)))
    outcome = run(items, stages, certifying)
    wrong = outcome.wrong[outcome.settled]
    n, n_wrong = len(wrong), int(wrong.sum())
    counted, upper = 0.0, 1.0
    clusters = items.clusters[certifying][outcome.settled]
    if n:
        counted = count_labels(clusters, wrong)
        upper = upper_bound(n_wrong / n, counted, 1 - options.confidence)
    first = items.stages[stages[0].place]
    flags = np.full(len(items.labels), PLAIN) if first.flags is None else first.flags
    reached = zip(stages, everything.reached, strict=True)
    return FrontierPoint(
        tuple(replace(stage, share=share) for stage, share in reached),
        everything.cost,
        float(everything.settled.mean()),
        n,
        n_wrong,
        n_wrong / n if n else None,
        upper,
        len(np.unique(clusters)),
        counted,
        describe(items.clusters, first.scores, flags, items.lengths),
        _labels_needed(n_wrong, n, counted, upper, options),
    )


def _labels_needed(
    n_wrong: int, n: int, counted: float, upper: float, options: FrontierOptions
) -> int:
    """Return how many labels, half of them to make a cascade, would test one as good as this."""
    if not n or upper >= 1:
        return 0
    error, risk = n_wrong / n, 1 - options.confidence
    target = max(options.max_error, upper)
    enough = 1.0
    while upper_bound(error, enough, risk) > target and enough < counted:
        enough *= 1.1
    return math.ceil(2 * min(enough, counted) * n / counted)


def _certified(
    points: Sequence[FrontierPoint],
    items: StagedItems,
    certifying: IntArray,
    options: FrontierOptions,
) -> list[FrontierPoint]:
    """Return the points, marked as far as the walks from the dearest ones reach.

    Where walks begin hangs on how many labels there are, and not on what they say.
    """
    if not points:
        return []
    marked = list(points)[::-1]
    risk = 1 - options.confidence
    begins = [0]
    if options.may_abstain:
        counts = []
        for point in marked:
            settled = run(items, point.stages, certifying).settled
            clusters = items.clusters[certifying][settled]
            none_wrong = np.zeros(len(clusters), np.bool_)
            counts.append(count_labels(clusters, none_wrong) if len(clusters) else 0.0)
        begins, _ = walks_begin(np.array(counts), options.max_error, risk)
    for begin in begins:
        for place in range(begin, len(marked)):
            point = marked[place]
            if point.error is None or (
                upper_bound(point.error, point.labels_counted, risk / len(begins))
                > options.max_error
            ):
                break
            marked[place] = replace(point, certified=True)
    return marked[::-1]


def _warnings(
    items: StagedItems,
    points: Sequence[FrontierPoint],
    proposed: int | None,
    options: FrontierOptions,
) -> Iterator[str]:
    if not points:
        yield "none of these judges has a score that settles anything; add another one"
        return
    if proposed is None and (options.max_share is not None or options.max_cost is not None):
        yield "no cascade of these judges keeps what was asked; allow more, or add another judge"
    elif proposed is None:
        last = points[-1]
        needed = labels_needed(options.max_error, 1 - options.confidence)
        said = "nothing" if last.error is None else f"{last.error:.3f}"
        more = "" if options.may_abstain else ", or let it abstain"
        yield (
            f"no cascade is certified at an error of {options.max_error:g}: the surest one errs in "
            f"{said} of {last.n_settled} held-out labels, which count as "
            f"{last.labels_counted:.1f}, and {needed} without an error are the least; label items "
            f"of more queries, allow a larger error, add a better judge{more}"
        )
    unfitted = {stage.place for point in points for stage in point.stages if not stage.fitted}
    if unfitted:
        names = ", ".join(items.stages[place].name for place in sorted(unfitted))
        yield (
            f"not calibrated on these labels: {names}; half of the labels make the cascade, so "
            f"{2 * MIN_LABELS} labels of {2 * MIN_CLUSTERS} queries are needed, "
            f"{2 * MIN_OF_A_KIND} of "
            "either kind, and scores that rise with them"
        )
