"""

How well a judge's scores and verdicts follow human labels.

The confusion of verdicts with labels, what is computed from it, the area under the ROC curve and
the calibration error, each as a function of how often clusters of items were drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from judged.values.calibration import QUALITY_MEASURES, JudgeQuality
from judged.values.intervals import IntervalOptions

from judged_server.domain import TIE_TOLERANCE, BoolArray, FloatArray, IntArray, min_passing_score
from judged_server.statistics.resampling import (
    check_resampling,
    estimate,
    ratio,
    sum_by_unit,
    undefined_intervals,
    units_of,
)

FEW_LABELS = 50
FEW_OF_A_CLASS = 10
"""Below as many labels, in all or of one kind, there is a warning."""
BINS = 10
"""Bins of equal width of the calibration error."""

_STRETCH = 64  # items whose pairs are counted one by one
_STRETCHES = 1 << 10  # that are counted at once


@dataclass(frozen=True, slots=True)
class LabelledScores:
    """The items with a label: a score in [0, 1] and a human decision each.

    `clusters` names by number which items belong together; None when each stands alone.
    """

    scores: FloatArray
    labels: BoolArray
    clusters: IntArray | None = None

    def relevant(self, min_score: float) -> BoolArray:
        """Return the verdicts under a threshold, as `Verdicts.decide` gives them."""
        verdicts: BoolArray = self.scores >= min_passing_score(min_score)
        return verdicts


def judge_quality(
    items: LabelledScores, min_score: float, options: IntervalOptions
) -> JudgeQuality:
    """Return the quality of a judge whose verdicts are scores of `min_score` or more.

    Intervals come from resampled items, or resampled clusters where there are some.
    """
    unit_of, units = units_of(items.clusters, len(items.labels), options.seed)
    n_units = len(units.counts)
    verdicts = items.relevant(min_score)
    sums = sum_by_unit(
        unit_of, n_units, [*confusion_columns(verdicts, items.labels), *bin_columns(items)]
    )
    check_resampling(units, sums.shape[1] + n_units, options)
    wins = _wins(items, unit_of, n_units)

    def statistics(weights: FloatArray) -> FloatArray:
        drawn = weights @ sums
        counts = drawn[:, :4]
        positives, negatives = counts[:, 0] + counts[:, 3], counts[:, 1] + counts[:, 2]
        return np.stack(
            [
                ratio(counts[:, 0] + counts[:, 2], positives + negatives),
                balanced_accuracy(counts),
                cohen_kappa(counts),
                precision(counts),
                recall(counts),
                ratio(((weights @ wins) * weights).sum(axis=1), positives * negatives),
                ratio(bin_gaps(drawn[:, 4:]), positives + negatives),
            ],
            axis=1,
        )

    estimates, _ = estimate(statistics, units, options)
    tp, fp, tn, fn = (int(count) for count in sums[:, :4].sum(axis=0))
    warnings = [
        *_label_warnings(tp + fn, fp + tn),
        *_undefined(tp, fp, fn, tn),
        *undefined_intervals(QUALITY_MEASURES, estimates),
    ]
    known = (one.known for one in estimates)
    found = dict(zip(QUALITY_MEASURES, known, strict=True))
    return JudgeQuality(len(verdicts), tp, fp, tn, fn, **found, warnings=tuple(warnings))


def confusion_columns(verdicts: BoolArray, labels: BoolArray) -> list[FloatArray]:
    """Return four columns of 0 and 1: true and false positives, true and false negatives."""
    cells = (verdicts & labels, verdicts & ~labels, ~verdicts & ~labels, ~verdicts & labels)
    return [cell.astype(np.float64) for cell in cells]


def balanced_accuracy(counts: FloatArray) -> FloatArray:
    """Return the mean of sensitivity and specificity; counts are [b, 4], tp, fp, tn, fn."""
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
    """Return float64[u, u]: pairs won by a relevant item of u over an irrelevant one of v.

    A pair of equal scores is half won. Summed over all units and divided by the number of pairs
    this is the area under the ROC curve (Hanley and McNeil 1982); the sums by unit make it that
    of a resample with every unit as often as it was drawn.
    """
    order = np.argsort(items.scores, kind="stable")
    scores, relevant, units = items.scores[order], items.labels[order], unit_of[order]
    wins = _ordered_wins(relevant, units, n_units)
    if bool(np.any(scores[1:] == scores[:-1])):
        # In the order above each pair of equal scores is won or lost; turned round in another.
        other = np.lexsort((-np.arange(len(scores)), scores))
        wins = (wins + _ordered_wins(relevant[other], units[other], n_units)) / 2
    return wins


def _ordered_wins(relevant: BoolArray, units: IntArray, n_units: int) -> FloatArray:
    """Return float64[u, u]: pairs of a relevant item of u behind an irrelevant one of v.

    Counted in stretches of _STRETCH items: over earlier stretches by sums for each unit, within a
    stretch pair by pair.
    """
    n = -(-len(relevant) // _STRETCH) * _STRETCH
    place = np.zeros(n, np.int64)
    place[: len(units)] = units
    won, lost = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    won[: len(units)], lost[: len(units)] = relevant, ~relevant
    shape = (-1, _STRETCH)
    place, won, lost = place.reshape(shape), won.reshape(shape), lost.reshape(shape)
    wins = np.zeros((n_units, n_units))
    below = np.zeros(n_units)
    for begin in range(0, len(place), _STRETCHES):
        some = slice(begin, begin + _STRETCHES)
        wins += _wins_within(place[some], won[some], lost[some], n_units)
        above, under = (_by_stretch(place[some], kind[some], n_units) for kind in (won, lost))
        earlier = below + np.cumsum(under, axis=0) - under
        wins += above.T @ earlier
        below += under.sum(axis=0)
    return wins


def _by_stretch(units: IntArray, chosen: BoolArray, n_units: int) -> FloatArray:
    """Return float64[stretches, units]: how many chosen items of each unit are in each."""
    cells = (units + np.arange(0, len(units) * n_units, n_units)[:, None])[chosen]
    counts = np.bincount(cells, minlength=len(units) * n_units).reshape(-1, n_units)
    return counts.astype(np.float64)


def _wins_within(units: IntArray, won: BoolArray, lost: BoolArray, n_units: int) -> FloatArray:
    cells = []
    for ahead in range(1, _STRETCH):
        pairs = won[:, ahead:] & lost[:, :-ahead]
        cells.append(units[:, ahead:][pairs] * n_units + units[:, :-ahead][pairs])
    counts = np.bincount(np.concatenate(cells), minlength=n_units**2)
    return counts.reshape(n_units, n_units).astype(np.float64)


def bin_columns(items: LabelledScores) -> list[FloatArray]:
    """Return BINS columns: in a score's bin, the score less its label; 0 in the others.

    Bins are closed below and open above, but for the last; a score that prints as an edge is in
    the bin above it.
    """
    bins = np.minimum(np.floor(items.scores * BINS + TIE_TOLERANCE), BINS - 1)
    gaps = items.scores - items.labels
    return [np.where(bins == b, gaps, 0.0) for b in range(BINS)]


def bin_gaps(sums: FloatArray) -> FloatArray:
    """Return n times the expected calibration error (Naeini, Cooper and Hauskrecht 2015).

    It weighs each bin's |mean score - share of relevant| by the bin's share of items; the number
    of items in the bin cancels.
    """
    gaps: FloatArray = np.abs(sums).sum(axis=1)
    return gaps


def _label_warnings(positives: int, negatives: int) -> list[str]:
    warnings = []
    n = positives + negatives
    if n < FEW_LABELS:
        warnings.append(
            f"only {n} labels: below {FEW_LABELS} the intervals cover less often than they say; "
            "label more items"
        )
    if min(positives, negatives) < FEW_OF_A_CLASS:
        few = "relevant" if positives < negatives else "irrelevant"
        only = (
            "1 label is"
            if min(positives, negatives) == 1
            else f"{min(positives, negatives)} labels are"
        )
        warnings.append(
            f"only {only} {few}: below {FEW_OF_A_CLASS} what is "
            "said of them rests on single items; label more of that kind"
        )
    return warnings


def _undefined(tp: int, fp: int, fn: int, tn: int) -> list[str]:
    warnings = []
    if tp + fn == 0 or fp + tn == 0:
        names = ["balanced_accuracy", "auc"] + (["recall"] if tp + fn == 0 else [])
        kind = "relevant" if tp + fn == 0 else "irrelevant"
        warnings.append(f"{', '.join(names)}: undefined, since no label is {kind}")
    if tp + fp == 0:
        warnings.append("precision: undefined, since no labelled item scores min_score or more")
    if (tp + fp == 0 and tp + fn == 0) or (fp + tn == 0 and fn + tn == 0):
        warnings.append("cohen_kappa: undefined, since all verdicts and all labels are the same")
    return warnings
