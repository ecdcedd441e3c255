"""Proposes cascades from labels: the judges, their order, and the bounds of each stage.

This is Pareto testing (Laufer-Goldshtein, Fisch, Barzilay, Jaakkola 2023, "Efficiently controlling
multiple risks with Pareto testing", arXiv 2210.07913). The clusters are dealt into two halves. The
first half builds cascades: of every subset of the judges, every order in which none comes before a
cheaper one, with each stage passing on one of SHARES of its items. A stage is calibrated on the
items that earlier stages leave, so that all are fitted jointly. The frontier of these cascades is
kept: those that no other beats in both price and error.

The other half did not build the cascades, so its results hold for each: the error of the settled
items, and its upper bound by Clopper and Pearson (1934), with the labels of one cluster counted as
in `cascade`. Cascades are tested for `max_error` from the most expensive to the cheapest, and a
walk stops at the first that fails: fixed-sequence testing, which keeps the confidence over all. If
cascades may abstain, the first ones settle little; then several walks share the risk, as in
`cascade`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from judged.values.calibration import (
    CascadeFrontier,
    CascadeOptions,
    FrontierPoint,
    FrontierStage,
)
from judged.values.calibrators import Calibrator, ErrorGuarantee, stages_sha256

from judged_server.domain import (
    TIE_TOLERANCE,
    BoolArray,
    FloatArray,
    IntArray,
    need,
)
from judged_server.scheduling.fairness import checkpoint
from judged_server.statistics.calibration.cascade import (
    PLAIN,
    count_labels,
    describe,
    labels_needed,
    settled_by,
    steps_reached,
    upper_bound,
    walks_begin,
)
from judged_server.statistics.calibration.reliability import Platt, fit, least_certain
from judged_server.statistics.quality import LabelledScores, cluster_folds

MAX_STAGES = 4
MAX_LABELS = 20_000


@dataclass(frozen=True, slots=True)
class ScoredStage:
    """A judge's scores float64[n] of all items, NaN for no score, and the cost of one item.

    `shipped` is the calibration that comes with the judge, `flags` are the values that
    `cascade.describe` takes, and `scoring_key` is the judge's.
    """

    name: str
    scores: FloatArray
    cost: float
    shipped: Platt | None = None
    flags: FloatArray | None = None
    scoring_key: str = ""


@dataclass(frozen=True, slots=True)
class StagedItems:
    """Labels bool[n] of items, and the scores of each judge; `clusters` as in ScoredItems.

    `lengths` float64[n] are those of the retrieved texts, None if they are unknown.
    """

    stages: tuple[ScoredStage, ...]
    labels: BoolArray
    clusters: IntArray
    lengths: FloatArray | None = None


MIN_LABELS = 100
MIN_CLUSTERS = 15
MIN_OF_A_KIND = 10
"""The least that a stage is calibrated on; with less, it has the calibration of its judge."""
SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75)
"""The shares of its items that a stage may pass on."""


Stages = Sequence[FrontierStage]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a cascade on some rows: which are settled, which of them wrongly, the cost.

    `reached` is the share of the rows that reaches each stage.
    """

    stages: Stages
    settled: BoolArray
    wrong: BoolArray
    cost: float
    reached: tuple[float, ...]

    @property
    def error(self) -> float:
        """The share of settled rows that is wrong; NaN if none is settled."""
        return float(self.wrong.sum() / self.settled.sum()) if self.settled.any() else math.nan


def run(items: StagedItems, stages: Stages, rows: IntArray) -> Outcome:
    """Return the outcome of a cascade on some items, as of the judge `cascade`."""
    left = np.arange(len(rows))
    settled, wrong = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
    cost, reached = 0.0, []
    for stage in stages:
        judge, calibrator = items.stages[stage.stage], stage.calibrator
        reached.append(len(left) / len(rows))
        cost += judge.cost * len(left)
        scores = judge.scores[rows[left]]
        by_it = settled_by(scores, calibrator.accept, calibrator.reject)
        places = left[by_it]
        verdicts = Platt.of(calibrator).probabilities(scores[by_it]) + TIE_TOLERANCE >= 0.5
        settled[places] = True
        wrong[places] = verdicts != items.labels[rows[places]]
        left = left[~by_it]
    return Outcome(stages, settled, wrong, cost / len(rows), tuple(reached))


def best_cascades(items: StagedItems, rows: IntArray, *, may_abstain: bool) -> list[Outcome]:
    """Return the cascades that no other beats on these rows, the cheapest first.

    If stages may abstain, the share that is not settled counts before the price. Price and error
    are too low, since the cascades were made on these rows.
    """

    def order(one: Outcome) -> tuple[float, ...]:
        price = (1 - float(one.settled.mean()), one.cost)
        return (*(price if may_abstain else price[::-1]), one.error, len(one.stages))

    made = (run(items, stages, rows) for stages in _cascades(items, rows, may_abstain=may_abstain))
    kept: list[Outcome] = []
    for one in sorted((one for one in made if one.settled.any()), key=order):
        if not kept or one.error < kept[-1].error:
            kept.append(one)
    return kept


def _cascades(items: StagedItems, rows: IntArray, *, may_abstain: bool) -> Iterator[Stages]:
    """Return every cascade, with stages calibrated on the rows that earlier stages leave."""
    judges = items.stages
    scored = [rows[~np.isnan(judge.scores[rows])] for judge in judges]
    usual = [
        _calibration(items, place, each) or (judges[place].shipped or Platt(), False)
        for place, each in enumerate(scored)
    ]

    def grow(prefix: Stages, left: IntArray) -> Iterator[Stages]:
        """Yield every cascade that begins with the stages `prefix`, which leave the rows `left`."""
        taken = {stage.stage for stage in prefix}
        least = max((judges[place].cost for place in taken), default=0.0)
        is_last = len(taken) + 1 == len(judges)
        for place, judge in enumerate(judges):
            if place in taken or judge.cost < least:
                continue
            checkpoint()
            own = left[~np.isnan(judge.scores[left])]
            platt, fitted = _calibration(items, place, own) or usual[place]
            calibrator = Calibrator(judge.scoring_key, platt.slope, platt.intercept)
            stage = FrontierStage(place, calibrator, fitted, share=1.0)
            if not may_abstain:
                yield (*prefix, stage)
            for share in SHARES if len(own) and (may_abstain or not is_last) else ():
                accept, reject = least_certain(platt, judge.scores[own], share)
                if accept is None and reject is None:
                    continue
                bounded = replace(calibrator, accept=accept, reject=reject)
                cascade = (*prefix, replace(stage, calibrator=bounded))
                if may_abstain:
                    yield cascade
                settled = settled_by(judge.scores[left], accept, reject)
                if not settled.all():
                    yield from grow(cascade, left[~settled])

    return grow((), rows)


def _calibration(items: StagedItems, place: int, rows: IntArray) -> tuple[Platt, bool] | None:
    """Return a calibration of a judge on these rows, marked as fitted; None if impossible."""
    labels = items.labels[rows]
    enough = (
        len(rows) >= MIN_LABELS
        and min(labels.sum(), (~labels).sum()) >= MIN_OF_A_KIND
        and len(np.unique(items.clusters[rows])) >= MIN_CLUSTERS
    )
    found = fit(items.stages[place].scores[rows], labels) if enough else None
    return None if found is None else (found, True)


MAX_POINTS = 20
"""The most cascades of a frontier; of more, this many evenly spaced ones are kept."""
_MIN_HALF = 2
"""The fewest clusters in either half."""


@dataclass(frozen=True, slots=True)
class FrontierOptions(CascadeOptions):
    """What the proposed cascade must keep, with the server's defaults."""

    max_error: float = 0.05
    confidence: float = 0.95
    seed: int = 0

    @property
    def signature(self) -> str:
        """How the numbers are computed, in one stable line."""
        parts = [f"frontier|max_error:{self.max_error:.12g}"]
        for name, value in (("max_share", self.max_share), ("max_cost", self.max_cost)):
            parts += [] if value is None else [f"{name}:{value:.12g}"]
        parts += ["may_abstain"] if self.may_abstain else []
        return "|".join([*parts, f"confidence:{self.confidence:.12g}", f"seed:{self.seed}", "v1"])


def frontier(items: StagedItems, options: FrontierOptions) -> CascadeFrontier:
    """Return the best cascades by the first half of the labels, tested on the other half."""
    labelled = LabelledScores(np.zeros(len(items.labels)), items.labels, items.clusters)
    n_clusters = len(np.unique(items.clusters))
    rule = f"are {n_clusters}; label items of {2 * _MIN_HALF} queries at least"
    need(n_clusters >= 2 * _MIN_HALF, "clusters", rule)
    proposing, certifying = map(np.flatnonzero, cluster_folds(labelled, 2, options.seed))
    made = best_cascades(items, proposing, may_abstain=options.may_abstain)
    top_cost = max(judge.cost for judge in items.stages)
    keep = [
        place
        for place, one in enumerate(made)
        if (options.max_cost is None or one.cost <= options.max_cost)
        and all(
            options.max_share is None or share <= options.max_share
            for stage, share in zip(one.stages, one.reached, strict=True)
            if items.stages[stage.stage].cost == top_cost
        )
    ]
    wanted = min(keep, key=lambda place: made[place].error, default=None)
    evenly = np.linspace(0, len(made) - 1, min(len(made), MAX_POINTS)).round()
    places = sorted({*evenly.astype(int).tolist(), *([] if wanted is None else [wanted])})
    tested = [_tested(items, certifying, made[place].stages, options) for place in places]
    points = _certified(tested, options)
    proposed = None if wanted is None else places.index(wanted)
    if options.max_share is None and options.max_cost is None:
        proposed = next((place for place, point in enumerate(points) if point.certified), None)
    fine = (
        place
        for place, point in enumerate(points)
        if point.error is not None and point.error <= options.max_error
    )
    return CascadeFrontier(
        points,
        proposed,
        next(fine, None),
        len(proposing),
        len(certifying),
        n_clusters,
        options.signature,
        tuple(_warnings(items, points, proposed, options)),
    )


def _tested(
    items: StagedItems, certifying: IntArray, stages: Stages, options: FrontierOptions
) -> tuple[FrontierPoint, float]:
    """Return a cascade tested on labels that did not make it, and their number without errors.

    The latter is the effective number of these labels if none were wrong. Prices and shares are
    means over all items, since they do not depend on labels.
    """
    everything = run(items, stages, np.arange(len(items.labels)))
    outcome = run(items, stages, certifying)
    wrong = outcome.wrong[outcome.settled]
    n, n_wrong = len(wrong), int(wrong.sum())
    clusters = items.clusters[certifying][outcome.settled]
    counted, without_error, upper, needed = 0.0, 0.0, 1.0, 0
    if n:
        counted = count_labels(clusters, wrong)
        without_error = count_labels(clusters, np.zeros(n, np.bool_))
        upper = upper_bound(n_wrong / n, counted, 1 - options.confidence)
        needed = _labels_needed(n_wrong, n, counted, upper, options)
    first = items.stages[stages[0].stage]
    flags = np.full(len(items.labels), PLAIN) if first.flags is None else first.flags
    guarantee = ErrorGuarantee(
        upper,
        options.confidence,
        n,
        n_wrong,
        len(np.unique(clusters)),
        counted,
        stages_sha256([(stage.calibrator.scoring_key, stage.calibrator) for stage in stages]),
        describe(items.clusters, first.scores, flags, items.lengths),
        needed,
    )
    reached = zip(stages, everything.reached, strict=True)
    point = FrontierPoint(
        [replace(stage, share=share) for stage, share in reached],
        everything.cost,
        float(everything.settled.mean()),
        n_wrong / n if n else None,
        guarantee,
        certified=False,
    )
    return point, without_error


def _labels_needed(
    n_wrong: int, n: int, counted: float, upper: float, options: FrontierOptions
) -> int:
    """Return how many labels, half of them to make it, would certify a cascade like this."""
    if upper >= 1:
        return 0
    enough, target = 1.0, max(options.max_error, upper)
    while upper_bound(n_wrong / n, enough, 1 - options.confidence) > target and enough < counted:
        enough *= 1.1
    return math.ceil(2 * min(enough, counted) * n / counted)


def _certified(
    tested: Sequence[tuple[FrontierPoint, float]], options: FrontierOptions
) -> list[FrontierPoint]:
    """Return the points, certified for `max_error` as far as walks from the most costly reach.

    Where walks begin depends on the number of labels, and not on their values.
    """
    risk, begins, points = 1 - options.confidence, [0], [point for point, _ in tested[::-1]]
    if options.may_abstain and tested:
        counts = np.array([without_error for _, without_error in tested[::-1]])
        begins, _ = walks_begin(counts, options.max_error, risk)
        risk /= max(1, len(begins))
    errors = np.array([np.nan if point.error is None else point.error for point in points])
    counted = np.array([point.guarantee.labels_counted for point in points])
    passed = steps_reached(errors, counted, begins, options.max_error, risk)
    for place in np.flatnonzero(passed).tolist():
        guarantee = replace(points[place].guarantee, max_error=options.max_error)
        points[place] = replace(points[place], guarantee=guarantee, certified=True)
    return points[::-1]


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
        error = "nothing" if last.error is None else f"{last.error:.3f}"
        more = "" if options.may_abstain else ", or let it abstain"
        yield (
            f"no cascade is certified at an error of {options.max_error:g}: the most accurate errs "
            f"in {error} of {last.guarantee.n_labels} held-out labels, which count as "
            f"{last.guarantee.labels_counted:.1f}, and {needed} without an error are the least; "
            f"label items of more queries, allow a larger error, add a better judge{more}"
        )
    unfitted = {stage.stage for point in points for stage in point.stages if not stage.fitted}
    if unfitted:
        names = ", ".join(items.stages[place].name for place in sorted(unfitted))
        yield (
            f"not calibrated on these labels: {names}; half of the labels make the cascade, so "
            f"{2 * MIN_LABELS} labels of {2 * MIN_CLUSTERS} queries are needed, "
            f"{2 * MIN_OF_A_KIND} of "
            "either kind, and scores that rise with them"
        )
