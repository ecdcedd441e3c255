"""Thresholds chosen on labels, and what they are worth on labels that did not choose them.

Between two neighbouring scores all thresholds give the same verdicts: that is one candidate, and so
are the thresholds up to the lowest score and those above the highest. Where neighbouring candidates
are equally good they make a plateau. The threshold is the middle of the widest plateau with the
best value, the lower one of two as wide: as far as it can be from scores whose verdicts would turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from judged.values.calibration import Threshold, ThresholdCriterion
from judged.values.intervals import Estimate, IntervalOptions

from judged_server.domain import TIE_TOLERANCE, BoolArray, FloatArray, IntArray
from judged_server.statistics.quality import (
    LabelledScores,
    balanced_accuracy,
    cohen_kappa,
    confusion_columns,
    precision,
    recall,
)
from judged_server.statistics.resampling import estimate, sum_by_unit, units_of

_ROUNDING = 1e-12  # what two equal criteria may differ by


def choose_thresholds(
    items: LabelledScores, floor: float, folds: int, options: IntervalOptions
) -> tuple[list[Threshold], list[str]]:
    """Return the threshold of each criterion, and warnings.

    The value of PRECISION_FLOOR is the recall. Raises nothing: what can't be chosen is None.
    """
    fold_of, n_folds = cluster_folds(items, folds, options.seed)
    warnings = []
    if n_folds < 2:
        warnings.append(
            "thresholds are not cross-validated: all labels are of one cluster; label others"
        )
    all_held_out = [
        _held_out(items, criterion, floor, fold_of, n_folds) for criterion in ThresholdCriterion
    ]
    values = _cross_validated(items, all_held_out, options)
    thresholds = []
    for criterion, held_out, value in zip(ThresholdCriterion, all_held_out, values, strict=True):
        threshold = best_threshold(items, criterion, floor)
        fitted = None
        if threshold is not None:
            counts = _counts(items.relevant(threshold), items.labels)
            fitted = float(_value(counts, criterion)[0])
        thresholds.append(Threshold(criterion, threshold, fitted, value.known))
        if criterion is ThresholdCriterion.PRECISION_FLOOR:
            kept = held_out.decided
            counts = _counts(held_out.verdicts[kept], items.labels[kept])
            warnings += _floor_warnings(threshold, floor, counts)
    return thresholds, warnings


def best_threshold(
    items: LabelledScores, criterion: ThresholdCriterion, floor: float
) -> float | None:
    """Return the threshold in [0, 1] that is best at a criterion on all items; None without one."""
    order = np.argsort(items.scores, kind="stable")
    scores, labels = items.scores[order], items.labels[order]
    # Scores so close that no threshold tells them apart are one.
    starts = np.flatnonzero(np.diff(scores, prepend=-1.0) > 2 * TIE_TOLERANCE)
    lower = np.append(0.0, scores[np.append(starts[1:], len(scores)) - 1])
    upper = np.append(scores[starts], 1.0)
    positives = np.append(0, np.cumsum(labels))
    below = np.append(starts, len(scores))  # items under each candidate
    missed = positives[below]
    tp, fn = positives[-1] - missed, missed
    fp = (len(scores) - below) - tp
    tn = below - fn
    counts = np.stack([tp, fp, tn, fn], axis=1).astype(np.float64)
    values = _value(counts, criterion)
    if criterion is ThresholdCriterion.PRECISION_FLOOR:
        values = np.where(precision(counts) >= floor - _ROUNDING, values, np.nan)
    if upper[-1] - lower[-1] <= 2 * TIE_TOLERANCE:
        values[-1] = np.nan  # no threshold lies above the highest score
    if np.isnan(values).all():
        return None
    best = np.nan_to_num(values, nan=-np.inf) >= np.nanmax(values) - _ROUNDING
    edges = np.diff(np.concatenate([[0], best.astype(np.int8), [0]]))
    first, last = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
    widest = int(np.argmax(upper[last] - lower[first]))
    return float((lower[first[widest]] + upper[last[widest]]) / 2)


def _value(counts: FloatArray, criterion: ThresholdCriterion) -> FloatArray:
    """Return what a criterion makes as large as it can, of confusions [b, 4]."""
    if criterion is ThresholdCriterion.BALANCED_ACCURACY:
        return balanced_accuracy(counts)
    if criterion is ThresholdCriterion.KAPPA:
        return cohen_kappa(counts)
    return recall(counts)


def _counts(verdicts: BoolArray, labels: BoolArray) -> FloatArray:
    """Return float64[1, 4], the confusion of verdicts with labels."""
    return np.array([[column.sum() for column in confusion_columns(verdicts, labels)]])


def cluster_folds(items: LabelledScores, folds: int, seed: int) -> tuple[IntArray, int]:
    """Return the fold of each item, clusters dealt out whole, and how many folds there are."""
    n = len(items.labels)
    things, place = n, np.arange(n)
    if items.clusters is not None:
        names, place = np.unique(items.clusters, return_inverse=True)
        things = len(names)
    n_folds = min(folds, things)
    order = np.random.Generator(np.random.PCG64(seed)).permutation(things)
    return (order % n_folds)[place], n_folds


@dataclass(frozen=True, slots=True)
class _HeldOut:
    """Verdicts under thresholds that other folds chose; those that are not `decided` have none."""

    verdicts: BoolArray
    decided: BoolArray


def _held_out(
    items: LabelledScores,
    criterion: ThresholdCriterion,
    floor: float,
    fold_of: IntArray,
    n_folds: int,
) -> _HeldOut:
    """Return each item's verdict under the threshold of the other folds.

    Where no threshold keeps the precision's floor, nothing is relevant. Where the others' labels
    are of one kind, so that there is no criterion, the fold has no verdicts.
    """
    n = len(items.labels)
    held_out = _HeldOut(np.zeros(n, np.bool_), np.zeros(n, np.bool_))
    if n_folds < 2:
        return held_out
    for fold in range(n_folds):
        inside = fold_of == fold
        others = LabelledScores(items.scores[~inside], items.labels[~inside])
        if others.labels.all() or not others.labels.any():
            continue
        threshold = best_threshold(others, criterion, floor)
        held_out.decided[inside] = True
        if threshold is not None:
            held_out.verdicts[inside] = items.relevant(threshold)[inside]
    return held_out


def _cross_validated(
    items: LabelledScores, all_held_out: Sequence[_HeldOut], options: IntervalOptions
) -> tuple[Estimate, ...]:
    """Return each criterion's value over its pooled verdicts of all folds, with its interval.

    All criteria have verdicts in the same folds, so that one set of resamples serves them.
    """
    kept = all_held_out[0].decided
    if not kept.any():
        return (Estimate(),) * len(all_held_out)
    clusters = None if items.clusters is None else items.clusters[kept]
    unit_of, units = units_of(clusters, int(kept.sum()), options.seed)
    labels = items.labels[kept]
    columns = [confusion_columns(made.verdicts[kept], labels) for made in all_held_out]
    sums = sum_by_unit(unit_of, len(units.counts), [c for four in columns for c in four])

    def statistics(weights: FloatArray) -> FloatArray:
        drawn = np.split(weights @ sums, len(all_held_out), axis=1)
        return np.stack(
            [_value(c, k) for c, k in zip(drawn, ThresholdCriterion, strict=True)], axis=1
        )

    return estimate(statistics, units, options)[0]


def _floor_warnings(threshold: float | None, floor: float, counts: FloatArray) -> list[str]:
    if threshold is None:
        return [f"no threshold has a precision of {floor:g} on the labels; use a better judge"]
    reached = float(precision(counts)[0])
    if reached < floor - _ROUNDING:
        shortfall = (
            f"thresholds for a precision of {floor:g} reached {reached:.3f} on labels that did not"
        )
        return [f"{shortfall} choose them; ask for a higher precision_floor, or label more items"]
    return []
