"""Quality of a judge's scores and verdicts by human labels, and thresholds chosen by labels.

The measures are the confusion of verdicts with labels and what is computed from it, the area under
the ROC curve and the calibration error, as functions of how often clusters of items were drawn.

All thresholds between two adjacent scores give the same verdicts and are one candidate; so are the
thresholds up to the lowest score, and those above the highest. Adjacent candidates that are equally
good form a plateau. The threshold is the middle of the widest plateau with the best value, or of
the lower of two as wide: as far as possible from scores whose verdicts would change. The quality of
a threshold is measured on labels that did not choose it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from judged.values.calibration import QUALITY_MEASURES, JudgeQuality, Threshold, ThresholdCriterion
from judged.values.choices import Estimate, IntervalOptions

from judged_server.domain import TIE_TOLERANCE, BoolArray, FloatArray, IntArray, passes
from judged_server.scheduling.fairness import checkpoint
from judged_server.statistics.intervals import (
    by_name,
    check_resampling,
    estimate,
    estimate_sums,
    numbered,
    ratio,
    sum_by_unit,
    units_of,
)

FEW_LABELS = 50
FEW_OF_A_CLASS = 10
"""With fewer labels, in all or of one kind, there is a warning."""
BINS = 10
"""Bins of equal width of the calibration error."""
_ROUNDING = 1e-12  # the most that two equal criteria may differ by


@dataclass(frozen=True, slots=True)
class LabelledScores:
    """The items with a label: a score in [0, 1] and a human decision each.

    `clusters` has the number of each item's cluster; None if each item is its own.
    """

    scores: FloatArray
    labels: BoolArray
    clusters: IntArray | None = None

    def relevant(self, min_score: float) -> BoolArray:
        """Return the verdicts under a threshold, as `Verdicts.decide` gives them."""
        verdicts: BoolArray = passes(self.scores, min_score)
        return verdicts


def judge_quality(
    items: LabelledScores, min_score: float, options: IntervalOptions
) -> JudgeQuality:
    """Return the quality of a judge; a score of `min_score` or more is a relevant verdict.

    Intervals are from resampled items, or resampled clusters if there are some.
    """
    unit_of, units = units_of(items.clusters, len(items.labels), options.seed)
    n_units = units.n
    verdicts = items.relevant(min_score)
    columns = [*confusion_columns(verdicts, items.labels), *bin_columns(items)]
    sums = sum_by_unit(unit_of, n_units, columns)
    check_resampling(units, sums.shape[1] + n_units, options)
    wins = _wins(items, unit_of, n_units)

    def statistics(weights: FloatArray) -> FloatArray:
        drawn = weights @ sums
        counts = drawn[:, :4]
        positives, negatives = counts[:, 0] + counts[:, 3], counts[:, 1] + counts[:, 2]
        return np.stack(
            [
                accuracy(counts),
                balanced_accuracy(counts),
                cohen_kappa(counts),
                precision(counts),
                recall(counts),
                ratio(((weights @ wins) * weights).sum(axis=1), positives * negatives),
                calibration_error(counts, drawn[:, 4:]),
            ],
            axis=1,
        )

    found, no_interval = by_name(QUALITY_MEASURES, estimate(statistics, units, options))
    tp, fp, tn, fn = (int(count) for count in sums[:, :4].sum(axis=0))
    warnings = (*_warnings(tp, fp, tn, fn), *no_interval)
    return JudgeQuality(len(verdicts), tp, fp, tn, fn, **found, warnings=warnings)


def confusion_columns(verdicts: BoolArray, labels: BoolArray) -> list[FloatArray]:
    """Return four columns of 0 and 1: true and false positives, true and false negatives."""
    cells = (verdicts & labels, verdicts & ~labels, ~verdicts & ~labels, ~verdicts & labels)
    return [cell.astype(np.float64) for cell in cells]


def accuracy(counts: FloatArray) -> FloatArray:
    """Return the share of verdicts that the labels confirm; counts are [b, 4], tp, fp, tn, fn."""
    return ratio(counts[:, 0] + counts[:, 2], counts.sum(axis=1))


def balanced_accuracy(counts: FloatArray) -> FloatArray:
    """Return the mean of sensitivity and specificity."""
    tp, fp, tn, fn = counts.T
    return (ratio(tp, tp + fn) + ratio(tn, tn + fp)) / 2


def cohen_kappa(counts: FloatArray) -> FloatArray:
    """Return Cohen's kappa between verdicts and labels (Cohen 1960)."""
    tp, fp, tn, fn = counts.T
    differ = (tp + fp) * (fp + tn) + (fn + tn) * (tp + fn)
    return 1 - ratio((fp + fn) * (tp + fp + tn + fn), differ)


def precision(counts: FloatArray) -> FloatArray:
    """Return the share of relevant verdicts that the labels confirm."""
    return ratio(counts[:, 0], counts[:, 0] + counts[:, 1])


def recall(counts: FloatArray) -> FloatArray:
    """Return the share of relevant labels that the verdicts find."""
    return ratio(counts[:, 0], counts[:, 0] + counts[:, 3])


def _wins(items: LabelledScores, unit_of: IntArray, n_units: int) -> FloatArray:
    """Return float64[u, v]: pairs won by a relevant item of unit u over an irrelevant one of v.

    A pair of equal scores is half won. Summed over all units and divided by the number of pairs
    this is the area under the ROC curve (Hanley and McNeil 1982); weighted sums over units give
    the area of a resample.
    """
    won, lost = np.flatnonzero(items.labels), np.flatnonzero(~items.labels)
    won = won[np.argsort(items.scores[won])]
    lost = lost[np.argsort(unit_of[lost], kind="stable")]
    ascending, winners = items.scores[won], unit_of[won]
    bounds = np.searchsorted(unit_of[lost], np.arange(1, n_units))
    wins = np.empty((n_units, n_units))
    for unit, scores in enumerate(np.split(items.scores[lost], bounds)):
        checkpoint()
        # Half of each pair is won from the first equal score on, half from the first higher one.
        begins = [ascending.searchsorted(scores, side) for side in ("left", "right")]
        halves = np.bincount(np.concatenate(begins), minlength=len(won) + 1)[:-1].cumsum()
        wins[:, unit] = np.bincount(winners, halves, n_units) / 2
    return wins


def bin_columns(items: LabelledScores) -> list[FloatArray]:
    """Return BINS columns: in a score's bin, the score minus its label; 0 in the others."""
    bins, gaps = bins_of(items.scores), items.scores - items.labels
    return [np.where(bins == b, gaps, 0.0) for b in range(BINS)]


def bins_of(scores: FloatArray) -> IntArray:
    """Return the bin of each score: closed below and open above, except the last.

    A score that prints as an edge is in the bin above it.
    """
    return np.minimum(np.floor(scores * BINS + TIE_TOLERANCE), BINS - 1).astype(np.int64)


def calibration_error(counts: FloatArray, bin_sums: FloatArray) -> FloatArray:
    """Return the expected calibration error (Naeini, Cooper and Hauskrecht 2015).

    It weighs each bin's |mean score - share of relevant| by the bin's share of items; the number
    of items in the bin cancels.
    """
    return ratio(np.abs(bin_sums).sum(axis=1), counts.sum(axis=1))


def _warnings(tp: int, fp: int, tn: int, fn: int) -> list[str]:
    warnings = []
    positives, negatives = tp + fn, fp + tn
    fewer = min(positives, negatives)
    if positives + negatives < FEW_LABELS:
        warnings.append(
            f"only {positives + negatives} labels: below {FEW_LABELS} the intervals cover less "
            "often than they say; label more items"
        )
    if fewer < FEW_OF_A_CLASS:
        only = "1 label is" if fewer == 1 else f"{fewer} labels are"
        warnings.append(
            f"only {only} {'relevant' if positives < negatives else 'irrelevant'}: below "
            f"{FEW_OF_A_CLASS} their measures depend on single items; label more of that kind"
        )
    if not fewer:
        names = "balanced_accuracy, auc, recall" if not positives else "balanced_accuracy, auc"
        kind = "irrelevant" if positives else "relevant"
        warnings.append(f"{names}: undefined, since no label is {kind}")
    if not tp + fp:
        warnings.append("precision: undefined, since no labelled item scores min_score or more")
    if not (tp + fp + fn and fp + tn + fn):
        warnings.append("cohen_kappa: undefined, since all verdicts and all labels are the same")
    return warnings


_VALUES = {
    ThresholdCriterion.BALANCED_ACCURACY: balanced_accuracy,
    ThresholdCriterion.KAPPA: cohen_kappa,
    ThresholdCriterion.PRECISION_FLOOR: recall,
}
"""The value that each criterion maximizes, of confusions [b, 4]."""


def choose_thresholds(
    items: LabelledScores, floor: float, folds: int, options: IntervalOptions
) -> tuple[list[Threshold], list[str]]:
    """Return the threshold of each criterion, and warnings.

    The value of PRECISION_FLOOR is the recall. A threshold that can't be chosen is None.
    """
    masks = cluster_folds(items, folds, options.seed)
    warnings = []
    if len(masks) < 2:
        warnings.append(
            "thresholds are not cross-validated: all labels are of one cluster; label others"
        )
    held_out = [_held_out(items, criterion, floor, masks) for criterion in _VALUES]
    kept = ~np.isnan(held_out[0])  # the same folds have verdicts for all criteria
    labels, columns = items.labels[kept], []
    for verdicts in held_out:
        columns += confusion_columns(verdicts[kept] == 1, labels)

    def statistics(drawn: FloatArray) -> FloatArray:
        counts = np.split(drawn, len(_VALUES), axis=1)
        values = _VALUES.values()
        return np.stack([value(own) for value, own in zip(values, counts, strict=True)], axis=1)

    estimates = (Estimate(),) * len(_VALUES)
    if kept.any():
        clusters = None if items.clusters is None else items.clusters[kept]
        estimates = estimate_sums(columns, clusters, statistics, options)
    thresholds = []
    for (criterion, value), estimated in zip(_VALUES.items(), estimates, strict=True):
        threshold, fitted = best_threshold(items, criterion, floor), None
        if threshold is not None:
            fitted = float(value(_counts(items.relevant(threshold), items.labels))[0])
        thresholds.append(Threshold(criterion, threshold, fitted, estimated.known))
    reached = float(precision(_counts(held_out[-1][kept] == 1, labels))[0])
    if threshold is None:
        warnings.append(
            f"no threshold has a precision of {floor:g} on the labels; use a better judge"
        )
    elif reached < floor - _ROUNDING:
        warnings.append(
            f"thresholds for a precision of {floor:g} reached {reached:.3f} on labels that did "
            "not choose them; ask for a higher precision_floor, or label more items"
        )
    return thresholds, warnings


def best_threshold(
    items: LabelledScores, criterion: ThresholdCriterion, floor: float
) -> float | None:
    """Return the threshold in [0, 1] that is best by a criterion on all items; None if none is."""
    order = np.argsort(items.scores, kind="stable")
    scores, labels = items.scores[order], items.labels[order]
    # Scores too close for a threshold to separate count as one.
    starts = np.flatnonzero(np.diff(scores, prepend=-1.0) > 2 * TIE_TOLERANCE)
    below = np.append(starts, len(scores))  # items under each candidate
    lower = np.append(0.0, scores[below[1:] - 1])
    upper = np.append(scores[starts], 1.0)
    missed = np.append(0, np.cumsum(labels))[below]
    found = missed[-1] - missed
    counts = np.stack([found, len(scores) - below - found, below - missed, missed], axis=1)
    counts = counts.astype(np.float64)
    values = _VALUES[criterion](counts)
    if criterion is ThresholdCriterion.PRECISION_FLOOR:
        values = np.where(precision(counts) >= floor - _ROUNDING, values, np.nan)
    if upper[-1] - lower[-1] <= 2 * TIE_TOLERANCE:
        values[-1] = np.nan  # no threshold lies above the highest score
    if np.isnan(values).all():
        return None
    best = values >= np.nanmax(values) - _ROUNDING
    edges = np.diff(best.astype(np.int8), prepend=0, append=0)
    first, last = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
    widest = int(np.argmax(upper[last] - lower[first]))
    return float((lower[first[widest]] + upper[last[widest]]) / 2)


def _counts(verdicts: BoolArray, labels: BoolArray) -> FloatArray:
    """Return float64[1, 4], the confusion of verdicts with labels."""
    return np.array([[column.sum() for column in confusion_columns(verdicts, labels)]])


def cluster_folds(items: LabelledScores, folds: int, seed: int) -> list[BoolArray]:
    """Return a mask of the items of each fold; clusters are not split."""
    place, n_clusters = numbered(items.clusters, len(items.labels))
    n_folds = min(folds, n_clusters)
    order = np.random.Generator(np.random.PCG64(seed)).permutation(n_clusters)
    fold_of = (order % n_folds)[place]
    return [fold_of == fold for fold in range(n_folds)]


def _held_out(
    items: LabelledScores, criterion: ThresholdCriterion, floor: float, masks: Sequence[BoolArray]
) -> FloatArray:
    """Return each item's verdict under the threshold of the other folds: 1, 0, or NaN for none.

    If no threshold reaches the precision floor, nothing is relevant. If all labels of the other
    folds are equal, the criterion is undefined and the fold has no verdicts.
    """
    verdicts = np.full(len(items.labels), np.nan)
    for inside in masks if len(masks) > 1 else ():
        others = LabelledScores(items.scores[~inside], items.labels[~inside])
        if others.labels.any() and not others.labels.all():
            threshold = best_threshold(others, criterion, floor)
            verdicts[inside] = threshold is not None and items.relevant(threshold)[inside]
    return verdicts
