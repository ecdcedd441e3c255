"""The scores between which a judge should hand a context on to a better one.

How a cascade runs is no concern of this module.

"Relevant" is wrong at or above a score in some share of cases; the score is good enough when the
upper Clopper-Pearson bound of that share on the labels (Clopper and Pearson 1934) is at most
max_error. Trying all scores and taking the best would find one by luck. So they are tried in the
order from the highest inward, and a walk stops at the first that fails: fixed-sequence testing,
which keeps the confidence over all that were tried (Angelopoulos, Bates, Candes, Jordan, Lei
2021, "Learn then Test", arXiv 2110.01052). There as here several walks share the risk 1 -
confidence evenly, since a walk that begins where there are few labels is stopped by one bad
label. Walks begin where no error at all would be enough labels, and at two, four and eight times
as many as far as there are labels; that hangs on the scores and not on the labels. For "not
relevant" everything is the other way round. Each bound has the confidence for itself.

Items of one cluster are not independent. The bound is that for as many labels as there would be if
items of a cluster were copies of each other, Kish's (sum m)^2 / sum m^2 over clusters of m items.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from judged_server.checkpoint import checkpoint
from judged_server.domain import TIE_TOLERANCE, BoolArray, FloatArray, IntArray
from judged_server.statistics.agreement.quality import LabelledScores
from judged_server.statistics.distributions import beta_cdf

MAX_WALKS = 4
_MOST_LABELS = 2**53  # more than anybody has
MAX_STEPS = 1_000
"""Scores that a walk tries at most; of more, as many evenly spaced ones are tried."""


@dataclass(frozen=True, slots=True)
class CascadeBounds:
    """Scores from `accept` are relevant, those up to `reject` are not, the rest escalates."""

    accept: float | None
    reject: float | None
    escalated: float
    max_error: float
    warnings: tuple[str, ...] = ()


def cascade_bounds(
    items: LabelledScores, scores: FloatArray, max_error: float, confidence: float
) -> CascadeBounds:
    """Return the bounds that labels vouch for, and the share of all scores between them."""
    risk = 1 - confidence
    accepting = _walk(items.scores, ~items.labels, items.clusters, max_error, risk)
    rejecting = -_walk(-items.scores, items.labels, items.clusters, max_error, risk)
    accept, reject = _apart(items, accepting, rejecting)
    escalated = np.ones(len(scores), np.bool_)
    if accept is not None:
        escalated &= ~(scores + TIE_TOLERANCE >= accept)
    if reject is not None:
        escalated &= ~(scores - TIE_TOLERANCE <= reject)
    warnings = [
        f"no score is safe to {name} at an error of {max_error:g}: the labels there are too few "
        f"(at least {_labels_needed(max_error, risk)} without an error) or the judge errs too often"
        for name, safe in (("accept", accepting), ("reject", rejecting))
        if not len(safe)
    ]
    if warnings and items.clusters is not None:
        warnings.append(_count_as(items.clusters))
    return CascadeBounds(accept, reject, float(escalated.mean()), max_error, tuple(warnings))


def _count_as(clusters: IntArray) -> str:
    """Return how many independent labels those of clusters are worth (Kish's effective size)."""
    sizes = np.unique(clusters, return_counts=True)[1].astype(np.float64)
    worth = float(sizes.sum() ** 2 / np.sum(sizes**2))
    return (
        f"{len(clusters)} labels of {len(sizes)} clusters count as {worth:.1f} in these bounds: "
        "labels of one cluster are not independent; label items of more clusters"
    )


def _walk(
    scores: FloatArray,
    wrong: BoolArray,
    clusters: IntArray | None,
    max_error: float,
    risk: float,
) -> FloatArray:
    """Return the scores, falling, at or above which the error is bounded by max_error."""
    order = np.argsort(-scores, kind="stable")
    falling = scores[order]
    ends = np.flatnonzero(np.diff(falling, append=-np.inf) < 0)
    if len(ends) > MAX_STEPS:
        ends = ends[np.linspace(0, len(ends) - 1, MAX_STEPS).astype(np.int64)]
    n = (ends + 1).astype(np.float64)
    if clusters is not None:
        n = n**2 / np.cumsum(_added_squares(clusters[order]))[ends]
    share = np.cumsum(wrong[order])[ends] / (ends + 1)
    passed = np.zeros(len(ends), np.bool_)
    begins, walk_risk = _begins(n, max_error, risk)
    for begin in begins:
        for step in range(begin, len(ends)):
            checkpoint()
            # The upper bound of Clopper and Pearson is a beta quantile; this asks whether it is
            # at most max_error without finding it.
            errors = float(share[step] * n[step])
            rest = float(n[step]) - errors
            if rest <= 0 or beta_cdf(max_error, errors + 1, rest) < 1 - walk_risk:
                break
            passed[step] = True
    return falling[ends[passed]]


def _begins(n: FloatArray, max_error: float, risk: float) -> tuple[list[int], float]:
    """Return the steps at which walks begin, and the risk of each."""
    most = float(n.max())
    for walks in range(MAX_WALKS, 0, -1):
        needed = _labels_needed(max_error, risk / walks)
        if needed * 2 ** (walks - 1) <= most:
            sizes = [needed * 2**walk for walk in range(walks)]
            return sorted({int(np.argmax(n >= size)) for size in sizes}), risk / walks
    return [], risk


def _labels_needed(max_error: float, risk: float) -> int:
    """Return the least number of labels that, all right, bound the error by max_error."""
    needed = math.log(risk) / math.log1p(-max_error)
    return math.ceil(needed) if needed < _MOST_LABELS else _MOST_LABELS


def _added_squares(clusters: IntArray) -> FloatArray:
    """Return what each item adds to the sum of squared cluster sizes when it joins its cluster."""
    order = np.argsort(clusters, kind="stable")
    sizes = np.unique(clusters, return_counts=True)[1]
    places = np.arange(len(clusters)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    added = np.empty(len(clusters))
    added[order] = 2.0 * places + 1
    return added


def _apart(
    items: LabelledScores, accepting: FloatArray, rejecting: FloatArray
) -> tuple[float | None, float | None]:
    """Return the widest bounds that do not cross.

    A good judge may be safe to accept and to reject at the same scores. Then those bounds are taken
    with the fewest labels that are wrong or between them, the higher ones of two such pairs.
    """
    if not len(accepting) or not len(rejecting):
        return _least(accepting), _most(rejecting)
    if rejecting.max() < accepting.min():
        return float(accepting.min()), float(rejecting.max())
    pairs = []
    for accept in accepting.tolist():
        checkpoint()
        lower = rejecting[rejecting < accept]
        if len(lower):
            pairs.append((accept, float(lower.max())))
    if not pairs:
        return float(accepting.min()), None
    accepts, rejects = np.array(pairs).T
    right_above = _counts_above(np.sort(items.scores[items.labels]), accepts)
    irrelevant_below = np.searchsorted(np.sort(items.scores[~items.labels]), rejects, "right")
    # What is neither rightly accepted nor rightly rejected is wrong or between the bounds.
    settled = right_above + irrelevant_below
    best = int(np.argmax(settled))  # accepts fall, so that the first is the highest
    return float(accepts[best]), float(rejects[best])


def _counts_above(ascending: FloatArray, bounds: FloatArray) -> IntArray:
    """Return how many of the scores are at or above each bound."""
    return len(ascending) - np.searchsorted(ascending, bounds, "left").astype(np.int64)


def _least(scores: FloatArray) -> float | None:
    return float(scores.min()) if len(scores) else None


def _most(scores: FloatArray) -> float | None:
    return float(scores.max()) if len(scores) else None
