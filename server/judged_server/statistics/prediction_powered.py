"""Means with the judge's error carried into them: a few human labels beside many verdicts.

Prediction-powered inference for means, and for shares of items that come in clusters. Which machine
value belongs to which label is up to `metrics.corrected` and to calibration.

Angelopoulos, Bates, Fannjiang, Jordan, Zrnic (2023), "Prediction-Powered Inference", Science 382;
Angelopoulos, Duchi, Zrnic (2023), "PPI++", arXiv 2311.01453. There, labelled and unlabelled items
are two samples. Here the labelled items are some of all, drawn at random, and the estimate is

    corrected = mean_L(human) - power * (mean_L(machine) - mean(machine))

where L are the n labelled of N items. It is the estimate of PPI++ on the n labelled and the N - n
other items with lambda = power * (1 - n / N): put mean(machine) as n / N of the labelled mean and
1 - n / N of the other, and the two are the same.

The variance counts the overlap. With f = machine and r = human - power * f, cluster c moves the
estimate by

    psi_c = sum_{i in c, L} (r_i - mean_L(r)) / n + power * sum_{i in c} (f_i - mean(f)) / N

and the variance is the sum of psi_c^2, clusters being independent draws. When each item is a
cluster of its own this is var(r) / n + power * (2 cov(r, f) + power * var(f)) / N. The power that
makes it smallest is the slope of human on machine values in the labelled clusters, kept in [0, 1].
So that fitting it costs no coverage, each labelled term is that of the jackknife (divided by
1 - h_c, with h_c its leverage in that regression), and the quantile is Student's with as many
degrees of freedom as clusters with labels, less two.

Labels may be drawn with unequal probabilities, as long as these are known and none is 0 (Zrnic,
Candes (2024), "Active statistical inference", arXiv 2403.03208). Each label then stands for 1 / its
inclusion probability items: means over the labelled become weighted ones (Hajek 1971), and so do
their terms in psi. Clusters with labels count as many as Kish's share of them says, (sum of
weights)^2 / (n * sum of squared weights), for the quantile and where labels hardly differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from judged.values.intervals import CorrectedEstimate, Estimate, Interval

from judged_server.domain import FloatArray, IntArray
from judged_server.statistics.intervals import mean, t_quantile

ENOUGH_LABELS = 200
"""Below as many labelled clusters the result carries a warning."""

FEW_DEPARTURES = 10
"""With fewer labelled clusters off the middle value, the normal approximation is not trusted."""

MORE_LABELS = 50
"""How many labels more the forecast of a narrower interval is for."""

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
    """Return the mean that human values of all items would have, estimated from some of them.

    machine   float64[N], finite: the machine's value of every item.
    human     float64[n], finite: the human values of the labelled items.
    labelled  int64[n]: where those items are in `machine`, each once.
    clusters  integers[N]: which items belong together. None: every item stands alone.
    inclusion  float64[n], above 0 and at most 1: with which probability each of the labelled items
              was drawn. None: all with the same.
    unit      what a cluster is called in warnings, in the plural.

    The mean is over items, so that clusters weigh by their size. Values lie in [0, 1]; where some
    do not, the range is that of all values given. No estimate and no interval leaves the range.
    """
    total = len(machine)
    groups, n = _numbered(clusters, total)
    everything = np.concatenate([machine, human])
    range_ = _Range(float(everything.min(initial=0.0)), float(everything.max(initial=1.0)))
    weights = (
        np.ones(len(labelled)) if inclusion is None else inclusion.max(initial=0.0) / inclusion
    )
    naive = _plain(machine, _Sample.of(np.ones(total), groups), groups, n, range_, confidence)
    sample = _Sample.of(weights, groups[labelled])
    labels_only = _plain(human, sample, groups, n, range_, confidence)
    n_labelled = sample.n_clusters
    if n_labelled < 2:
        warning = (
            f"labelled {unit}: {n_labelled}; a correction needs 2, and {ENOUGH_LABELS} to hold"
        )
        return CorrectedEstimate(None, naive, labels_only, n_labelled, n, 0.0, (warning,))
    fit = _tune(machine, human, labelled, sample)
    rest = human - fit.power * machine[labelled]
    possible = _Range(range_.low - fit.power * range_.high, range_.high - fit.power * range_.low)
    least = sample.spare(rest, possible, confidence)
    found = _estimate(rest, fit.power * machine, sample, fit, groups, n, least, range_, confidence)
    warnings = _warnings(
        fit.power,
        _gap(machine, labelled, sample, groups, n),
        least.departures,
        n_labelled,
        total == len(labelled),
        unit,
    )
    corrected = Estimate(
        range_.clip(found.value), found.interval("prediction_powered|variance:jackknife")
    )
    return CorrectedEstimate(
        corrected, naive, labels_only, n_labelled, n, fit.power, warnings, found.with_more()
    )


@dataclass(frozen=True, slots=True)
class _Range:
    """What a value can be."""

    low: float
    high: float

    def clip(self, value: float) -> float:
        return min(max(value, self.low), self.high)


@dataclass(frozen=True, slots=True)
class _Spare:
    """How far an interval must reach at least, and how many clusters depart from the rest."""

    below: float
    above: float
    departures: int


@dataclass(frozen=True, slots=True)
class _Sample:
    """The labelled items in their clusters.

    weights    float64[m]: for how many items each of them stands, in proportion.
    clusters   int64[c]: the clusters that have labelled items, and
    of_label   int64[m]: which of these each labelled item belongs to.
    """

    weights: FloatArray
    clusters: IntArray
    of_label: IntArray

    @classmethod
    def of(cls, weights: FloatArray, groups: IntArray) -> _Sample:
        """Return the items with these weights; `groups` has the cluster of each."""
        clusters, of_label = np.unique(groups, return_inverse=True)
        return cls(weights, clusters, of_label.astype(np.int64, copy=False))

    @property
    def n_clusters(self) -> int:
        """How many clusters have labels."""
        return len(self.clusters)

    @property
    def counted(self) -> int:
        """As how many clusters they count: fewer, the more their weights differ (Kish 1965)."""
        weights = self.weights
        share = float(weights.sum()) ** 2 / (len(weights) * float(weights @ weights))
        return max(1, round(self.n_clusters * share))

    @property
    def leverage(self) -> FloatArray:
        """Which share of the labels, by weight, each cluster has."""
        sums = np.bincount(self.of_label, self.weights, minlength=self.n_clusters)
        return sums / float(self.weights.sum())

    def mean(self, values: FloatArray) -> float:
        """Return the mean of values of the labelled items by their weights."""
        if bool((self.weights == self.weights[0]).all()):
            return mean(values) or 0.0  # to the last bit that of a table
        return float(values @ self.weights / self.weights.sum())

    def influence(self, values: FloatArray) -> FloatArray:
        """Return float64[c]: what each cluster adds to the mean of the values, in all 0."""
        deviations = self.weights * (values - self.mean(values))
        sums = np.bincount(self.of_label, deviations, minlength=self.n_clusters)
        return sums / float(self.weights.sum())

    def jackknifed(self, moved: FloatArray, leverage: FloatArray) -> FloatArray:
        """Return what leaving each cluster out would move, scaled so that the squares add up.

        For clusters of one item and no power the sum of squares is var / n, with n - 1 below var.
        """
        n = self.n_clusters
        left = np.maximum(1.0 - leverage, 1.0 / n)
        return moved / left * math.sqrt((n - 1) / n)

    def spread(self, moved: FloatArray, n: int) -> FloatArray:
        """Return float64[n] of what the labelled clusters move: 0 for the others."""
        whole = np.zeros(n)
        whole[self.clusters] = moved
        return whole

    def spare(self, values: FloatArray, range_: _Range, confidence: float) -> _Spare:
        """Return the least reach of an interval around a mean of almost equal values.

        That of n equal values has no width by any formula that knows the values only, yet it is
        sure of little: in n clusters without a departure, departures may still make up a share of
        1 - tail^(1/n) (Clopper and Pearson 1934), each as far as the range goes. With
        FEW_DEPARTURES or more the values speak for themselves.
        """
        middle = np.sort(values)[[(len(values) - 1) // 2, len(values) // 2]]
        off = [self.of_label[np.abs(values - common) > _EQUAL] for common in middle]
        departures = min(len(np.unique(each)) for each in off)
        if departures >= FEW_DEPARTURES:
            return _Spare(0.0, 0.0, departures)
        share = 1 - ((1 - confidence) / 2) ** (1 / self.counted)
        below, above = float(middle[1]) - range_.low, range_.high - float(middle[0])
        return _Spare(share * below, share * above, departures)


@dataclass(frozen=True, slots=True)
class _Fit:
    """The power and what the variance needs of it.

    leverage    float64[c] of its labelled clusters in the regression.
    free        degrees of freedom.
    """

    power: float
    leverage: FloatArray
    free: int


def _numbered(clusters: IntArray | None, total: int) -> tuple[IntArray, int]:
    """Return int64[N] numbers from 0 for the clusters, and how many there are."""
    if clusters is None:
        return np.arange(total, dtype=np.int64), total
    names, groups = np.unique(clusters, return_inverse=True)
    return groups.astype(np.int64, copy=False), len(names)


def _tune(machine: FloatArray, human: FloatArray, labelled: IntArray, sample: _Sample) -> _Fit:
    """Return the power: the slope of human on machine values over the sums of labelled clusters.

    It is zero where nothing can be fitted: with fewer than _TUNABLE_FROM clusters, where all
    machine values are alike, and where every item has a label, so that there is nothing to correct.
    """
    leverage = sample.leverage
    a, f = sample.influence(human), sample.influence(machine[labelled])
    squares = float(f @ f)
    power, free = 0.0, sample.counted - 1
    if sample.n_clusters >= _TUNABLE_FROM and len(labelled) < len(machine) and squares > 0.0:
        slope = float(a @ f) / squares
        power = min(max(slope, 0.0), 1.0)
        if abs(power - slope) <= _EQUAL:
            leverage = leverage + f**2 / squares
            free -= 1
    return _Fit(power, leverage, max(free, 1))


def _gap(
    machine: FloatArray, labelled: IntArray, sample: _Sample, groups: IntArray, n: int
) -> float:
    """Return how far the labelled items lie from all in the machine's values, in standard errors.

    0.0 where nothing differs.
    """
    own, of_all = machine[labelled], float(machine.mean())
    whole = np.bincount(groups, machine - of_all, minlength=n) / len(machine)
    error = math.sqrt(float(np.sum((sample.spread(sample.influence(own), n) - whole) ** 2)))
    if error == 0.0 or len(labelled) == len(machine):
        return 0.0
    return abs(sample.mean(own) - of_all) / error


@dataclass(frozen=True, slots=True)
class _Estimate:
    """An estimate before its interval is cut to what values can be."""

    value: float
    of_labels: FloatArray
    of_machine: FloatArray
    free: int
    least: _Spare
    sample: _Sample
    n_items: int
    range: _Range
    confidence: float

    def interval(self, method: str) -> Interval:
        moved = self.of_labels + self.of_machine
        error = math.sqrt(float(moved @ moved))
        reach = t_quantile((1 + self.confidence) / 2, self.free) * error
        drawn = "" if len(np.unique(self.sample.weights)) == 1 else "|weights:hajek"
        return Interval(
            self.range.clip(self.value - max(reach, self.least.below)),
            self.range.clip(self.value + max(reach, self.least.above)),
            self.confidence,
            error,
            f"{method}{drawn}|confidence:{self.confidence:.12g}|v1",
        )

    def with_more(self) -> float | None:
        """Return half the width to expect with MORE_LABELS labels more, drawn the same way."""
        labels = len(self.sample.weights)
        more = min(labels + MORE_LABELS, self.n_items)
        if self.least.departures < FEW_DEPARTURES or more == labels:
            return None
        # Terms of labels become smaller as there are more of them; what they share with those of
        # the machine's values, and these alone, stay.
        shrunk = float(self.of_labels @ self.of_labels) * labels / more
        stays = float(self.of_machine @ self.of_machine + 2 * (self.of_labels @ self.of_machine))
        free = max(self.free * more // labels, 1)
        quantile = t_quantile((1 + self.confidence) / 2, free)
        return quantile * math.sqrt(max(shrunk + stays, 0.0))


def _estimate(
    rest: FloatArray,
    trusted: FloatArray,
    sample: _Sample,
    fit: _Fit,
    groups: IntArray,
    n: int,
    least: _Spare,
    range_: _Range,
    confidence: float,
) -> _Estimate:
    """Return the sum of two means: that of `rest` of labelled items and of `trusted` of all."""
    middle = sample.mean(rest)
    value = middle + float(trusted.mean())
    of_labels = sample.spread(sample.jackknifed(sample.influence(rest), fit.leverage), n)
    of_machine = np.bincount(groups, trusted + middle - value, minlength=n) / len(trusted)
    return _Estimate(
        *(value, of_labels, of_machine, fit.free, least),
        *(sample, len(trusted), range_, confidence),
    )


def _plain(
    values: FloatArray,
    sample: _Sample,
    groups: IntArray,
    n: int,
    range_: _Range,
    confidence: float,
) -> Estimate | None:
    """Return the mean of labels alone; its interval is Student's when each item stands alone."""
    if not len(values):
        return None
    if sample.n_clusters < 2:
        return Estimate(sample.mean(values))
    fit = _Fit(0.0, sample.leverage, max(sample.counted - 1, 1))
    least = sample.spare(values, range_, confidence)
    nothing = np.zeros(len(groups))
    found = _estimate(values, nothing, sample, fit, groups, n, least, range_, confidence)
    return Estimate(found.value, found.interval("t:clustered"))


def _warnings(
    power: float, gap: float, departures: int, n_labelled: int, complete: bool, unit: str
) -> tuple[str, ...]:
    warnings = []
    if n_labelled < ENOUGH_LABELS:
        warnings.append(
            f"coverage not assured: {n_labelled} labelled {unit}; {ENOUGH_LABELS} are needed for "
            "the interval to cover as often as it says"
        )
    if departures < FEW_DEPARTURES <= n_labelled // 2:
        warnings.append(
            f"human and machine values differ by the same in all but {departures} of {n_labelled} "
            f"labelled {unit}; the interval is no narrower than Clopper and Pearson's for no event"
        )
    if power == 0.0 and not complete:
        warnings.append(
            "the power is 0: the labels alone make the estimate, since the machine's values do "
            "not rise with them"
        )
    if gap > _NOT_BY_CHANCE:
        warnings.append(
            f"the labelled {unit} differ from the others in the machine's values, by "
            f"{gap:.1f} standard errors; the correction holds for labels drawn at random only"
        )
    return tuple(warnings)
