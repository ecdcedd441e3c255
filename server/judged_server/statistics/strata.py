"""Means of labelled items in strata: how much each cluster moves them, and how sure they are.

Without strata all items are one. What is estimated by them is up to `prediction_powered`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.statistics.intervals import mean

FEW_DEPARTURES = 10
"""With fewer labelled clusters off the middle value, the normal approximation is not trusted."""

_EQUAL = 1e-9


@dataclass(frozen=True, slots=True)
class Stratum:
    """The labelled items of a stratum, and which share of all items it holds.

    share      its items over all.
    items      int64[k]: which of all items are in it.
    places     int64[m]: which of the labelled items are in it.
    weights    float64[m]: for how many items each of them stands, in proportion.
    clusters   int64[c]: the clusters that have labelled items here, and
    of_label   int64[m]: which of these each labelled item belongs to.
    """

    share: float
    items: IntArray
    places: IntArray
    weights: FloatArray
    clusters: IntArray
    of_label: IntArray

    @property
    def n_clusters(self) -> int:
        """How many clusters have labels here."""
        return len(self.clusters)

    @property
    def counted(self) -> int:
        """As how many clusters they count: fewer, the more their weights differ (Kish 1965)."""
        return counted(self.n_clusters, self.weights)

    @property
    def leverage(self) -> FloatArray:
        """Which share of the stratum's labels, by weight, each of its clusters has."""
        sums = np.bincount(self.of_label, self.weights, minlength=self.n_clusters)
        return sums / float(self.weights.sum())

    def influence(self, values: FloatArray) -> FloatArray:
        """Return float64[c]: what each cluster adds to the mean of the values, in all 0.

        `values` has an entry for each labelled item of the stratum.
        """
        deviations = self.weights * (values - weighted_mean(values, self.weights))
        sums = np.bincount(self.of_label, deviations, minlength=self.n_clusters)
        return sums / float(self.weights.sum())

    def jackknifed(self, moved: FloatArray, leverage: FloatArray) -> FloatArray:
        """Return what leaving each cluster out would move, scaled so that the squares add up.

        For clusters of one item and no power the sum of squares is var / n, with n - 1 below var.
        """
        n = self.n_clusters
        left = np.maximum(1.0 - leverage, 1.0 / n)
        return moved / left * math.sqrt((n - 1) / n)


@dataclass(frozen=True, slots=True)
class Strata:
    """All strata that have enough labels to stand alone; `remarks` tell which were joined."""

    parts: Sequence[Stratum]
    of_item: IntArray
    remarks: tuple[str, ...] = ()

    @classmethod
    def build(
        cls,
        strata: IntArray | None,
        total: int,
        labelled: IntArray,
        weights: FloatArray,
        groups: IntArray,
    ) -> Strata:
        """Return the strata of `total` items.

        `strata` is integers[total], or None when all are one; `groups` the cluster of each item;
        `labelled` and `weights` as in `correct_mean`. A stratum of which fewer than two clusters
        have labels is joined with the one before it, by number, or after it if it is the first:
        the labels of both then count by the sizes of their strata.
        """
        if strata is None:
            of_item = np.zeros(total, np.int64)
            return cls([_stratum(of_item, 0, labelled, weights, groups)], of_item)
        of_item = np.unique(strata, return_inverse=True)[1].astype(np.int64)
        sizes = np.bincount(of_item).astype(np.float64)
        of_label = of_item[labelled]
        drawn = np.bincount(of_label, weights, minlength=len(sizes))
        weights = weights * (sizes / np.where(drawn > 0, drawn, 1.0))[of_label]
        pairs = np.unique(np.stack([of_label, groups[labelled]]), axis=1)
        labels = np.bincount(pairs[0], minlength=len(sizes))
        into = _joined(labels)
        remarks = []
        if len(short := np.flatnonzero(labels < 2)) and len(sizes) > 1:
            empty = sizes[labels == 0].sum() / total
            remarks.append(
                f"{len(short)} of {len(sizes)} strata have fewer than 2 labelled clusters and were "
                "joined with others"
                + (f"; nobody labelled anything of {empty:.1%} of the items" if empty else "")
            )
        of_item = into[of_item]
        parts = [
            _stratum(of_item, number, labelled, weights, groups)
            for number in range(int(into.max()) + 1)
        ]
        return cls(parts, of_item, tuple(remarks))

    @property
    def weights(self) -> FloatArray:
        """How many items each labelled one stands for, in the order of the labelled items."""
        weights = np.empty(sum(len(part.places) for part in self.parts))
        for part in self.parts:
            scale = 1.0 if len(self.parts) == 1 else len(part.items) / part.weights.sum()
            weights[part.places] = part.weights * scale
        return weights


def _joined(labels: IntArray) -> IntArray:
    """Return the number of the stratum that each becomes part of, so that all have 2 clusters."""
    into = np.zeros(len(labels), np.int64)
    number, inside = 0, int(labels[0])
    for i in range(1, len(labels)):
        if inside >= 2 and labels[i] >= 2:
            number, inside = number + 1, 0
        inside += int(labels[i])
        into[i] = number
    return into


def _stratum(
    of_item: IntArray, number: int, labelled: IntArray, weights: FloatArray, groups: IntArray
) -> Stratum:
    items = np.flatnonzero(of_item == number)
    places = np.flatnonzero(of_item[labelled] == number)
    clusters, of_label = np.unique(groups[labelled[places]], return_inverse=True)
    return Stratum(
        len(items) / max(len(of_item), 1),
        items,
        places,
        weights[places],
        clusters,
        of_label.astype(np.int64, copy=False),
    )


def weighted_mean(values: FloatArray, weights: FloatArray) -> float:
    """Return the mean of values by their weights."""
    if bool((weights == weights[0]).all()):
        return mean(values) or 0.0  # to the last bit that of a table
    return float(values @ weights / weights.sum())


def counted(n_clusters: int, weights: FloatArray) -> int:
    """Return as how many clusters some count: fewer, the more their weights differ (Kish 1965)."""
    share = float(weights.sum()) ** 2 / (len(weights) * float(weights @ weights))
    return max(1, round(n_clusters * share))


def freedom(variances: Sequence[float], degrees: Sequence[int]) -> float:
    """Return the degrees of freedom of a sum of variances (Satterthwaite 1946), at least 1."""
    whole = math.fsum(variances)
    if len(degrees) == 1 or whole <= 0.0:
        return float(max(sum(degrees), 1))
    parts = zip(variances, degrees, strict=True)
    return max(whole**2 / math.fsum(v**2 / max(d, 1) for v, d in parts), 1.0)


@dataclass(frozen=True, slots=True)
class Spare:
    """How far an interval must reach at least, and how many clusters depart from the rest."""

    below: float
    above: float
    departures: int


def spare(strata: Strata, values: FloatArray, low: float, high: float, confidence: float) -> Spare:
    """Return the least reach of an interval around a mean of almost equal values in low to high.

    That of n equal values has no width by any formula that knows the values only, yet it is sure
    of little: in n clusters without a departure, departures may still make up a share of
    1 - tail^(1/n) (Clopper and Pearson 1934), each as far as the range goes. With FEW_DEPARTURES
    or more, over all strata, the values speak for themselves.
    """
    departures, n_clusters = 0, 0
    below = above = 0.0
    for part in strata.parts:
        own = values[part.places]
        middle = np.sort(own)[[(len(own) - 1) // 2, len(own) // 2]]
        off = [part.of_label[np.abs(own - common) > _EQUAL] for common in middle]
        departures += min(len(np.unique(each)) for each in off)
        n_clusters += part.n_clusters
        below += part.share * (float(middle[1]) - low)
        above += part.share * (high - float(middle[0]))
    if departures >= FEW_DEPARTURES:
        return Spare(0.0, 0.0, departures)
    share = 1 - ((1 - confidence) / 2) ** (1 / counted(n_clusters, strata.weights))
    return Spare(share * below, share * above, departures)


def spread(moved: Sequence[FloatArray], strata: Strata, n: int) -> FloatArray:
    """Return float64[n]: what each cluster moves in all strata together, by their shares."""
    whole = np.zeros(n)
    for part, own in zip(strata.parts, moved, strict=True):
        whole[part.clusters] += part.share * own
    return whole


def has_label(strata: Strata, n: int) -> BoolArray:
    """Return which of the n clusters have a label."""
    found = np.zeros(n, np.bool_)
    for part in strata.parts:
        found[part.clusters] = True
    return found
