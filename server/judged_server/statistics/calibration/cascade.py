"""The scores between which a cascade's stage passes items on, and the data that they hold for.

"Relevant" is wrong at or above a score in some share of cases; the score is safe if the upper
Clopper-Pearson bound of that share on the labels (Clopper and Pearson 1934) is at most max_error.
Testing all scores and taking the best would find one by chance. So scores are tested from the
highest inward, and a walk stops at the first that fails: fixed-sequence testing, which keeps the
confidence over all tests (Angelopoulos, Bates, Candes, Jordan, Lei 2021, "Learn then Test", arXiv
2110.01052). As there, several walks share the risk 1 - confidence evenly, since one bad label stops
a walk that begins where labels are few. The first walk begins where labels without an error would
be enough, the others at two, four and eight times as many, as far as there are labels; this depends
on the scores and not on the labels. "Not relevant" is tested in the same way from the lowest score.
Each bound has the confidence for itself.

Items of one cluster are not independent. The bound is that for n / (1 + (m - 1) r) labels, where m
is the mean size of the cluster that an item is in and r the correlation of errors within clusters
(Kish 1965). It is estimated on the verdicts of that side by analysis of variance, and one standard
error by the jackknife over clusters is added. With fewer than MIN_ERRORS errors r can't be
estimated and is 1, which gives Kish's (sum m)^2 / sum m^2.

A guarantee is for data like the labels. To detect other data, it includes a small histogram of the
first stage's scores, of text lengths, and of flags and missing verdicts: the share of the items in
each bin, and that share's variance over clusters, by linearisation of the ratio (Cochran 1977,
"Sampling Techniques", 11). Judged items are counted in the same bins by BUCKETS of their query, so
that counts of any messages can be added without splitting clusters. The client, which knows when a
run is complete, adds them up and tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from judged.values.calibration import CascadeBounds
from judged.values.calibrators import ItemShares

from judged_server.domain import TIE_TOLERANCE, BoolArray, FloatArray, IntArray
from judged_server.scheduling.fairness import checkpoint
from judged_server.statistics.intervals import numbered, special
from judged_server.statistics.quality import LabelledScores

MAX_WALKS = 4
_MOST_LABELS = 2**53  # more than any caller has
MAX_STEPS = 1_000
"""The most scores that a walk tests; of more scores, this many evenly spaced ones are tested."""


MIN_ERRORS = 5
"""The fewest errors of which the correlation within clusters is estimated."""
_JACKKNIFE = 20


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a judge: its distinct scores, the most certain first.

    `share` is the share of wrong verdicts on the labels up to each score, `counted` the effective
    number of independent labels among them.
    """

    scores: FloatArray
    share: FloatArray
    counted: FloatArray

    @classmethod
    def of(
        cls, scores: FloatArray, wrong: BoolArray, clusters: IntArray, verdicts: BoolArray
    ) -> _Side:
        """Return the side; the errors of its `verdicts` give the correlation within clusters."""
        order = np.argsort(-scores, kind="stable")
        falling = scores[order]
        ends = np.flatnonzero(np.diff(falling, append=-np.inf) < 0)
        if len(ends) > MAX_STEPS:
            ends = ends[np.linspace(0, len(ends) - 1, MAX_STEPS).astype(np.int64)]
        correlation = _error_correlation(clusters[verdicts], wrong[verdicts])
        counted = _effective(clusters[order], correlation)[ends]
        return cls(falling[ends], np.cumsum(wrong[order])[ends] / (ends + 1), counted)


def settled_by(scores: FloatArray, accept: float | None, reject: float | None) -> BoolArray:
    """Return a mask of the scores that a stage settles: without bounds all, but never NaN."""
    if accept is None and reject is None:
        return ~np.isnan(scores)
    settled = np.zeros(len(scores), np.bool_)
    if accept is not None:
        settled |= scores + TIE_TOLERANCE >= accept
    if reject is not None:
        settled |= scores - TIE_TOLERANCE <= reject
    return settled


def cascade_bounds(
    items: LabelledScores,
    scores: FloatArray,
    max_error: float,
    confidence: float,
    min_score: float = 0.5,
) -> tuple[CascadeBounds, tuple[str, ...]]:
    """Return the bounds that labels support, with the share of scores between them, and warnings.

    `min_score` is the threshold of the verdicts whose errors give the correlation within clusters.
    """
    risk = 1 - confidence
    yes = items.relevant(min_score)
    clusters, _ = numbered(items.clusters, len(items.labels))
    sides = (
        _Side.of(items.scores, ~items.labels, clusters, yes),
        _Side.of(-items.scores, items.labels, clusters, ~yes),
    )
    safe = [each.scores[_walk(each, max_error, risk)] for each in sides]
    accepting, rejecting = safe[0], -safe[1]
    accept, reject = _apart(accepting, rejecting)
    escalated = 1.0
    if accept is not None or reject is not None:
        escalated = float((~settled_by(scores, accept, reject)).mean())
    warnings = [
        f"no score is safe to {name} at an error of {max_error:g}: the labels there are too few "
        f"(at least {labels_needed(max_error, risk)} without an error) or the judge errs too often"
        for name, some in (("accept", accepting), ("reject", rejecting))
        if not len(some)
    ]
    counted = float(min(side.counted[-1] for side in sides))
    effect = len(items.labels) / counted
    return CascadeBounds(accept, reject, escalated, max_error, counted, effect), tuple(warnings)


def _error_correlation(clusters: IntArray, wrong: BoolArray) -> float:
    """Return the correlation of errors within clusters plus a standard error, 1 if unknown."""
    errors = wrong.astype(np.float64)
    if errors.sum() < MIN_ERRORS:
        return 1.0
    names, cluster = np.unique(clusters, return_inverse=True)
    groups = min(_JACKKNIFE, len(names))
    if groups < 2 or len(names) == len(clusters):
        return 1.0
    group = (np.arange(len(names)) % groups)[cluster]
    found = _intraclass(errors, cluster)
    left_out = np.array(
        [_intraclass(errors[group != g], cluster[group != g]) for g in range(groups)]
    )
    spread = math.sqrt((groups - 1) / groups * float(np.sum((left_out - left_out.mean()) ** 2)))
    return min(1.0, found + spread)


def _intraclass(values: FloatArray, clusters: IntArray) -> float:
    """Return the intraclass correlation by analysis of variance, in [0, 1] (Donner 1986)."""
    _, place, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    n, k = len(values), len(sizes)
    if k < 2 or n == k:
        return 1.0
    means = np.bincount(place, values) / sizes
    between = float(np.sum(sizes * (means - values.mean()) ** 2)) / (k - 1)
    within = float(np.sum((values - means[place]) ** 2)) / (n - k)
    size = (n - float(np.sum(sizes.astype(np.float64) ** 2)) / n) / (k - 1)
    whole = between + (size - 1) * within
    return 0.0 if whole <= 0 else min(1.0, max(0.0, (between - within) / whole))


def count_labels(clusters: IntArray, wrong: BoolArray) -> float:
    """Return the effective number of independent labels, given which verdicts are wrong."""
    return float(_effective(clusters, _error_correlation(clusters, wrong))[-1])


def upper_bound(error: float, counted: float, risk: float) -> float:
    """Return the upper bound of Clopper and Pearson of an error seen on `counted` labels."""
    errors, rest = error * counted, counted * (1 - error)
    if rest <= 0:
        return 1.0
    return float(special().betaincinv(errors + 1, rest, 1 - risk))


def steps_reached(
    errors: FloatArray, counted: FloatArray, begins: Sequence[int], max_error: float, risk: float
) -> BoolArray:
    """Return a mask of the steps that walks reach: each walk stops at the first that fails.

    A step fails if the upper bound of its error, seen on `counted` labels, is above max_error. The
    bound is a beta quantile; comparing the distribution at max_error avoids computing it.
    """
    passed = np.zeros(len(errors), np.bool_)
    for begin in begins:
        for step in range(begin, len(errors)):
            checkpoint()
            wrong = errors[step] * counted[step]
            rest = counted[step] - wrong
            if not (rest > 0 and special().betainc(wrong + 1, rest, max_error) >= 1 - risk):
                break
            passed[step] = True
    return passed


def _walk(side: _Side, max_error: float, risk: float) -> BoolArray:
    begins, walk_risk = walks_begin(side.counted, max_error, risk)
    return steps_reached(side.share, side.counted, begins, max_error, walk_risk)


def walks_begin(n: FloatArray, max_error: float, risk: float) -> tuple[list[int], float]:
    """Return the steps at which walks begin, by the labels of each step, and the risk of each."""
    most = float(n.max())
    for walks in range(MAX_WALKS, 0, -1):
        needed = labels_needed(max_error, risk / walks)
        if needed * 2 ** (walks - 1) <= most:
            sizes = [needed * 2**walk for walk in range(walks)]
            return sorted({int(np.argmax(n >= size)) for size in sizes}), risk / walks
    return [], risk


def labels_needed(max_error: float, risk: float) -> int:
    """Return the fewest labels that, without an error, bound the error by max_error."""
    needed = math.log(risk) / math.log1p(-max_error)
    return math.ceil(needed) if needed < _MOST_LABELS else _MOST_LABELS


def _effective(clusters: IntArray, correlation: float) -> FloatArray:
    """Return, for each number of items from the first, their effective number."""
    order = np.argsort(clusters, kind="stable")
    sizes = np.unique(clusters, return_counts=True)[1]
    earlier = np.empty(len(clusters))  # the number of items of its cluster before each item
    earlier[order] = np.arange(len(clusters)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    n = np.arange(1, len(clusters) + 1, dtype=np.float64)
    # An item that joins a cluster adds 2 * earlier + 1 to the sum of squared sizes.
    mean_size = np.cumsum(2 * earlier + 1) / n
    effective: FloatArray = n / (1 + (mean_size - 1) * correlation)
    return effective


def _apart(accepting: FloatArray, rejecting: FloatArray) -> tuple[float | None, float | None]:
    """Return the widest bounds that do not cross.

    A good judge may be safe to accept and to reject at the same scores: then their middle
    separates the bounds.
    """
    if len(accepting) and len(rejecting) and rejecting.max() >= accepting.min():
        middle = (rejecting.max() + accepting.min()) / 2
        accepting, rejecting = accepting[accepting > middle], rejecting[rejecting <= middle]
    accept = float(accepting.min()) if len(accepting) else None
    return accept, float(rejecting.max()) if len(rejecting) else None


BUCKETS = 64
_PARTS = 4
SCORE, LENGTH, FLAGS = "score", "length", "flags"
PLAIN, FLAGGED, MISSING = 0.0, 1.0, 2.0
"""Values of FLAGS; an item without a verdict is MISSING."""


def describe(
    clusters: IntArray, scores: FloatArray, flags: FloatArray, lengths: FloatArray | None
) -> tuple[ItemShares, ...]:
    """Return the histograms of items; scores are NaN for items without one."""
    known = ~np.isnan(scores)
    parts = [_item_shares(FLAGS, flags, clusters, np.array([FLAGGED, MISSING]))]
    if known.any():
        parts.append(_item_shares(SCORE, scores[known], clusters[known]))
    if lengths is not None:
        parts.append(_item_shares(LENGTH, lengths, clusters))
    return tuple(part for part in parts if part is not None)


def _item_shares(
    name: str, values: FloatArray, clusters: IntArray, edges: FloatArray | None = None
) -> ItemShares | None:
    """Return the shares of values between edges, or their quartiles; None for a single cluster."""
    if edges is None:
        edges = np.unique(np.quantile(values, np.arange(1, _PARTS) / _PARTS))
        # Values at an edge count as above it despite rounding. No value is below the minimum.
        edges = edges[edges > values.min()] - TIE_TOLERANCE
    _, place = np.unique(clusters, return_inverse=True)
    counts = _counted(values, place, edges, int(place.max()) + 1)
    n = len(counts)
    if n < 2:
        return None
    shares = counts.sum(axis=0) / counts.sum()
    off = counts - counts.sum(axis=1)[:, None] * shares
    variances = n / (n - 1) * (off**2).sum(axis=0) / counts.sum() ** 2
    return ItemShares(
        name, tuple(edges.tolist()), tuple(shares.tolist()), tuple(variances.tolist())
    )


def count_items(
    data: Sequence[ItemShares],
    buckets: IntArray,
    scores: FloatArray,
    flags: FloatArray,
    lengths: FloatArray,
) -> IntArray:
    """Return the number of items of each bucket in all bins of `data`, bucket after bucket."""
    known = ~np.isnan(scores)
    tables = []
    for part in data:
        values = {SCORE: scores[known], FLAGS: flags, LENGTH: lengths}[part.name]
        of = buckets[known] if part.name == SCORE else buckets
        tables.append(_counted(values, of, np.array(part.edges), BUCKETS))
    return np.concatenate(tables, axis=1).astype(np.int64).ravel()


def _counted(values: FloatArray, rows: IntArray, edges: FloatArray, n_rows: int) -> FloatArray:
    """Return float64[n_rows, bins]: the number of values of each row between the edges."""
    bins = len(edges) + 1
    cells = rows * bins + np.searchsorted(edges, values, side="right")
    return np.bincount(cells, minlength=n_rows * bins).reshape(n_rows, bins).astype(np.float64)
