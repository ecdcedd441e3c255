"""Corrects means of a judge's many verdicts by a few human labels, with the judge's error.

Prediction-powered inference for means, and for shares of items that come in clusters. The callers,
`metrics.compute` and calibration, decide which machine value belongs to which label.

Angelopoulos, Bates, Fannjiang, Jordan, Zrnic (2023), "Prediction-Powered Inference", Science 382;
Angelopoulos, Duchi, Zrnic (2023), "PPI++", arXiv 2311.01453. There, labelled and unlabelled items
are two samples. Here the labelled items are drawn at random from all items, and the estimate is

    corrected = mean_L(human) - power * (mean_L(machine) - mean(machine))

where L are the n labelled of N items. It is the estimate of PPI++ on the n labelled and the N - n
other items with lambda = power * (1 - n / N), since mean(machine) is n / N of the labelled mean
plus 1 - n / N of the other.

The variance includes the overlap. With f = machine and r = human - power * f, cluster c moves the
estimate by

    psi_c = sum_{i in c, L} (r_i - mean_L(r)) / n + power * sum_{i in c} (f_i - mean(f)) / N

and the variance is the sum of psi_c^2, since clusters are independent draws. If each item is a
cluster of its own this is var(r) / n + power * (2 cov(r, f) + power * var(f)) / N. The power that
minimizes it is the slope of human on machine values in the labelled clusters, limited to [0, 1].
So that fitting it costs no coverage, each labelled term is that of the jackknife (divided by
1 - h_c, with h_c its leverage in that regression), and the quantile is Student's, with the number
of labelled clusters minus two as degrees of freedom.

Labels may be drawn with unequal probabilities, if these are known and above 0 (Zrnic, Candes
(2024), "Active statistical inference", arXiv 2403.03208). Each label then represents 1 / its
inclusion probability items: means over the labelled become weighted means (Hajek 1971), and so do
their terms in psi. For the quantile, and if labels hardly differ, the number of labelled clusters
is reduced to Kish's share, (sum of weights)^2 / (n * sum of squared weights).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from judged.values.choices import CorrectedEstimate, Estimate, Interval

from judged_server.domain import FloatArray, IntArray
from judged_server.statistics.intervals import mean, numbered, special

ENOUGH_LABELS = 200
"""With fewer labelled clusters the result carries a warning."""

FEW_DEPARTURES = 10
"""With fewer labelled clusters off the middle value, the normal approximation is not used alone."""

_TUNABLE_FROM = 4  # labelled clusters; fewer leave no degrees of freedom for a power
_EQUAL = 1e-9
_NOT_BY_CHANCE = 3.5  # standard errors


def correct_mean(
    machine: FloatArray,
    human: FloatArray,
    labelled: IntArray,
    *,
    clusters: IntArray | None = None,
    inclusion: FloatArray | None = None,
    confidence: float = 0.95,
    unit: str = "queries",
) -> CorrectedEstimate:
    """Return the mean of the human values of all items, estimated from some of them.

    machine   float64[N], finite: the machine's value of every item.
    human     float64[n], finite: the human values of the labelled items.
    labelled  int64[n]: the indices of those items in `machine`, each once.
    clusters  integers[N]: the cluster of each item. None: every item is its own.
    inclusion  float64[n], above 0 and at most 1: the probability that each labelled item was
              drawn. None: all are equal.
    unit      the name of a cluster in warnings, in the plural.

    The mean is over items, so that clusters weigh by their size. Values are in [0, 1]; if some
    are not, the range is that of all values given. No estimate and no interval leaves the range.
    """
    total = len(machine)
    places, n_clusters = numbered(clusters, total)
    weights = np.ones(len(labelled))
    if inclusion is not None:
        weights = inclusion.max(initial=0.0) / inclusion
    everything = np.concatenate([machine, human])
    items = _Items(
        places,
        n_clusters,
        float(everything.min(initial=0.0)),
        float(everything.max(initial=1.0)),
        confidence,
    )
    sample = _Sample.of(weights, places[labelled])
    naive = items.plain(machine, _Sample.of(np.ones(total), places))
    labels_only = items.plain(human, sample)
    n = sample.n_clusters
    if n < 2:
        warning = f"labelled {unit}: {n}; a correction needs 2, and {ENOUGH_LABELS} to hold"
        return CorrectedEstimate(None, naive, labels_only, n, items.n_clusters, 0.0, (warning,))
    fit = _tune(machine, human, labelled, sample)
    method = "prediction_powered|variance:jackknife"
    value, interval, departures = items.estimate(human, machine, labelled, fit, method)
    warnings = []
    if n < ENOUGH_LABELS:
        warnings.append(
            f"coverage not assured: {n} labelled {unit}; {ENOUGH_LABELS} are needed for "
            "the interval to cover as often as it says"
        )
    if departures < FEW_DEPARTURES <= n // 2:
        warnings.append(
            f"human and machine values differ by the same in all but {departures} of {n} "
            f"labelled {unit}; the interval is no narrower than Clopper and Pearson's for no event"
        )
    if fit.power == 0.0 and total != len(labelled):
        warnings.append(
            "the power is 0: the labels alone make the estimate, since the machine's values do "
            "not rise with them"
        )
    gap = items.gap(machine, labelled, sample)
    if gap > _NOT_BY_CHANCE:
        warnings.append(
            f"the labelled {unit} differ from the others in the machine's values, by "
            f"{gap:.1f} standard errors; the correction holds for labels drawn at random only"
        )
    value = min(max(value, items.low), items.high)
    return CorrectedEstimate(
        Estimate(value, interval),
        naive,
        labels_only,
        n,
        items.n_clusters,
        fit.power,
        warnings=tuple(warnings),
    )


@dataclass(frozen=True, slots=True)
class _Sample:
    """The labelled items in their clusters.

    weights    float64[m]: the number of items that each represents, in proportion.
    clusters   int64[c]: the clusters that have labelled items.
    of_label   int64[m]: the index in `clusters` of each labelled item's cluster.
    """

    weights: FloatArray
    clusters: IntArray
    of_label: IntArray

    @classmethod
    def of(cls, weights: FloatArray, groups: IntArray) -> _Sample:
        """Return the items with these weights; `groups` has the cluster of each."""
        return cls(weights, *np.unique(groups, return_inverse=True))

    @property
    def n_clusters(self) -> int:
        """The number of clusters with labels."""
        return len(self.clusters)

    @property
    def counted(self) -> int:
        """The effective number of clusters: smaller if their weights differ more (Kish 1965)."""
        weights = self.weights
        share = float(weights.sum()) ** 2 / (len(weights) * float(weights @ weights))
        return max(1, round(self.n_clusters * share))

    @property
    def alike(self) -> bool:
        """Whether all weights are equal."""
        return bool((self.weights == self.weights[0]).all())

    def mean(self, values: FloatArray) -> float:
        """Return the weighted mean of values of the labelled items."""
        if self.alike:
            return mean(values) or 0.0  # equal to a table's to the last bit
        return float(values @ self.weights / self.weights.sum())

    def shares(self, values: FloatArray) -> FloatArray:
        """Return float64[c]: the part of each cluster in the weighted mean of the values."""
        sums = np.bincount(self.of_label, self.weights * values, minlength=self.n_clusters)
        return sums / float(self.weights.sum())

    def influence(self, values: FloatArray) -> FloatArray:
        """Return float64[c]: how each cluster moves the mean of the values; the sum is 0."""
        return self.shares(values - self.mean(values))


@dataclass(frozen=True, slots=True)
class _Fit:
    """The power, and the data for the variance.

    leverage    float64[c] of the labelled clusters in the regression.
    free        degrees of freedom.
    """

    sample: _Sample
    power: float
    leverage: FloatArray
    free: int


def _tune(machine: FloatArray, human: FloatArray, labelled: IntArray, sample: _Sample) -> _Fit:
    """Return the power: the slope of human on machine values over the sums of labelled clusters.

    It is 0 if nothing can be fitted: with fewer than _TUNABLE_FROM clusters, with equal machine
    values, or with a label for every item, so that there is nothing to correct.
    """
    leverage = sample.shares(np.ones(len(labelled)))
    a, f = sample.influence(human), sample.influence(machine[labelled])
    squares = float(f @ f)
    power, free = 0.0, sample.counted - 1
    if sample.n_clusters >= _TUNABLE_FROM and len(labelled) < len(machine) and squares > 0.0:
        slope = float(a @ f) / squares
        power = min(max(slope, 0.0), 1.0)
        if abs(power - slope) <= _EQUAL:
            leverage = leverage + f**2 / squares
            free -= 1
    return _Fit(sample, power, leverage, max(free, 1))


@dataclass(frozen=True, slots=True)
class _Items:
    """All items by the number of their cluster, and the range of their values."""

    cluster_of: IntArray
    n_clusters: int
    low: float
    high: float
    confidence: float

    def plain(self, values: FloatArray, sample: _Sample) -> Estimate | None:
        """Return the mean of labels only; its interval is Student's if each item is a cluster."""
        if not len(values):
            return None
        if sample.n_clusters < 2:
            return Estimate(sample.mean(values))
        leverage = sample.shares(np.ones(len(values)))
        fit = _Fit(sample, 0.0, leverage, max(sample.counted - 1, 1))
        zeros = np.zeros(len(self.cluster_of))
        value, interval, _ = self.estimate(values, zeros, np.arange(0), fit, "t:clustered")
        return Estimate(value, interval)

    def estimate(
        self,
        human: FloatArray,
        machine: FloatArray,
        labelled: IntArray,
        fit: _Fit,
        method: str,
    ) -> tuple[float, Interval, int]:
        """Return the corrected mean, its interval, and the number of clusters off a common value.

        The mean is that of the labels' residuals plus that of `power` times all machine values.
        """
        sample, power, n_items = fit.sample, fit.power, len(self.cluster_of)
        rest = human - power * machine[labelled] if power else human
        trusted = power * machine
        middle = sample.mean(rest)
        value = middle + float(trusted.mean())
        # The effect of leaving each cluster out, scaled so that the squares add up: for clusters of
        # one item and power 0 their sum is var / n, where the divisor of var is n - 1.
        n = sample.n_clusters
        left = np.maximum(1.0 - fit.leverage, 1.0 / n)
        of_labels = np.zeros(self.n_clusters)
        of_labels[sample.clusters] = sample.influence(rest) / left * math.sqrt((n - 1) / n)
        moved = (trusted + middle - value) / n_items
        of_machine = np.bincount(self.cluster_of, moved, self.n_clusters)
        below, above, departures = self._least(rest, fit)
        tail = (1 + self.confidence) / 2
        error = math.sqrt(float(np.sum((of_labels + of_machine) ** 2)))
        reach = float(special().stdtrit(fit.free, tail)) * error
        drawn = "" if sample.alike else "|weights:hajek"
        interval = Interval(
            min(max(value - max(reach, below), self.low), self.high),
            min(max(value + max(reach, above), self.low), self.high),
            self.confidence,
            error,
            f"{method}{drawn}|confidence:{self.confidence:.12g}|v1",
        )
        return value, interval, departures

    def _least(self, values: FloatArray, fit: _Fit) -> tuple[float, float, int]:
        """Return the least reach of an interval to each side, and the number of departures.

        Departures are clusters off the middle value. The interval of n equal values has no width by
        any formula of the values, but n clusters without a departure only show that departures have
        at most a share of 1 - tail^(1/n) (Clopper and Pearson 1934), each as far as the range goes.
        With FEW_DEPARTURES or more there is no least reach.
        """
        middle = np.sort(values)[[(len(values) - 1) // 2, len(values) // 2]]
        off = [fit.sample.of_label[np.abs(values - common) > _EQUAL] for common in middle]
        departures = min(len(np.unique(each)) for each in off)
        if departures >= FEW_DEPARTURES:
            return 0.0, 0.0, departures
        share = 1 - ((1 - self.confidence) / 2) ** (1 / fit.sample.counted)
        below = float(middle[1]) - (self.low - fit.power * self.high)
        above = self.high - fit.power * self.low - float(middle[0])
        return share * below, share * above, departures

    def gap(self, machine: FloatArray, labelled: IntArray, sample: _Sample) -> float:
        """Return the distance of labelled from all items by machine values, in standard errors.

        It is 0.0 if no values differ, or if all items are labelled.
        """
        own, of_all = machine[labelled], float(machine.mean())
        off = -np.bincount(self.cluster_of, machine - of_all, self.n_clusters) / len(machine)
        off[sample.clusters] += sample.influence(own)
        error = math.sqrt(float(off @ off))
        if error == 0.0 or len(labelled) == len(machine):
            return 0.0
        return abs(sample.mean(own) - of_all) / error
