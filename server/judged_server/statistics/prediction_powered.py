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

Labels may be drawn in strata, as many in each as one likes (Fisch et al. (2024), "Stratified
Prediction-Powered Inference", arXiv 2406.04291). Every stratum then has a mean, a power and degrees
of freedom of its own, and counts by its share W_h of all items, which is known:

    corrected = sum_h W_h * (mean_L,h(human) - power_h * (mean_L,h(machine) - mean_h(machine)))

The first term of psi is that of the item's stratum times W_h, without what strata differ by; the
second becomes (mean_L,h(r) + power_h * f_i - corrected) / N. Clusters may lie in several strata.
Degrees of freedom are put together by Satterthwaite's rule (Cochran (1977), Sampling Techniques,
5.4). Without strata all items are one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from judged.values.intervals import Estimate, Interval

from judged_server.domain import FloatArray, IntArray
from judged_server.statistics.distributions import t_quantile
from judged_server.statistics.strata import (
    FEW_DEPARTURES,
    Spare,
    Strata,
    Stratum,
    freedom,
    has_label,
    spare,
    spread,
    weighted_mean,
)

ENOUGH_LABELS = 200
"""Below as many labelled clusters the result carries a warning."""

MORE_LABELS = 50
"""How many labels more the forecast of a narrower interval is for."""

_TUNABLE_FROM = 4  # labelled clusters; fewer leave no degrees of freedom for a power
_EQUAL = 1e-9
_NOT_BY_CHANCE = 3.5  # standard errors


@dataclass(frozen=True, slots=True)
class CorrectedMean:
    """A mean three ways. `corrected` has no value with fewer than two labelled clusters.

    n_labelled  the number of clusters with at least one label.
    n           the number of clusters with machine values, the labelled ones included.
    power       how much the machine's values were trusted, from 0 to 1; with strata the mean of
                theirs, by their shares of the items.
    half_width_with_more  half the width that the corrected interval would have with MORE_LABELS
                labels more, drawn the same way; None without an interval, where every item has a
                label, and where labels hardly differ, so that nothing can be foretold.
    """

    corrected: Estimate
    naive: Estimate
    labels_only: Estimate
    n_labelled: int
    n: int
    power: float
    warnings: tuple[str, ...] = ()
    half_width_with_more: float | None = None


def correct_mean(
    machine: FloatArray,
    human: FloatArray,
    labelled: IntArray,
    *,
    clusters: IntArray | None = None,
    inclusion: FloatArray | None = None,
    strata: IntArray | None = None,
    confidence: float = 0.95,
    unit: str = "queries",
) -> CorrectedMean:
    """Return the mean that human values of all items would have, estimated from some of them.

    machine   float64[N], finite: the machine's value of every item.
    human     float64[n], finite: the human values of the labelled items.
    labelled  int64[n]: where those items are in `machine`, each once.
    clusters  integers[N]: which items belong together. None: every item stands alone.
    inclusion  float64[n], above 0 and at most 1: with which probability each of the labelled items
              was drawn. None: all with the same; with `strata`, all of one stratum.
    strata    integers[N]: from which stratum each item is, of which labels were drawn by
              themselves. Those with neighbouring numbers are joined where labels are too few.
              None: labels were drawn of all items together.
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
    everywhere = np.arange(total, dtype=np.int64)
    of_all = Strata.build(None, total, everywhere, np.ones(total), groups)
    naive = _plain(machine, of_all, groups, n, range_, confidence)
    drawn = Strata.build(strata, total, labelled, weights, groups)
    labels_only = _plain(human, drawn, groups, n, range_, confidence)
    n_labelled = int(has_label(drawn, n).sum())
    if n_labelled < 2:
        warning = (
            f"labelled {unit}: {n_labelled}; a correction needs 2, and {ENOUGH_LABELS} to hold"
        )
        return CorrectedMean(Estimate(None), naive, labels_only, n_labelled, n, 0.0, (warning,))
    fits = [_tune(machine, human, labelled, part) for part in drawn.parts]
    powers = np.array([fit.power for fit in fits])
    rest = human - powers[drawn.of_item[labelled]] * machine[labelled]
    trusted = powers[drawn.of_item] * machine
    top = float(powers.max())
    least = spare(
        drawn, rest, range_.low - top * range_.high, range_.high - top * range_.low, confidence
    )
    found = _estimate(rest, trusted, drawn, fits, groups, n, least, range_, confidence)
    power = float(sum(part.share * fit.power for part, fit in zip(drawn.parts, fits, strict=True)))
    warnings = (
        *drawn.remarks,
        *_warnings(
            power,
            _gap(machine, labelled, drawn, groups, n),
            least.departures,
            n_labelled,
            total == len(labelled),
            unit,
        ),
    )
    corrected = Estimate(
        range_.clip(found.value), found.interval("prediction_powered|variance:jackknife")
    )
    return CorrectedMean(
        corrected, naive, labels_only, n_labelled, n, power, warnings, found.with_more()
    )


@dataclass(frozen=True, slots=True)
class _Range:
    """What a value can be."""

    low: float
    high: float

    def clip(self, value: float) -> float:
        return min(max(value, self.low), self.high)


@dataclass(frozen=True, slots=True)
class _Fit:
    """The power of a stratum and what the variance needs of it.

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


def _tune(machine: FloatArray, human: FloatArray, labelled: IntArray, part: Stratum) -> _Fit:
    """Return the power: the slope of human on machine values over the sums of labelled clusters.

    It is zero where nothing can be fitted: with fewer than _TUNABLE_FROM clusters, where all
    machine values are alike, and where every item has a label, so that there is nothing to correct.
    """
    leverage = part.leverage
    a = part.influence(human[part.places])
    f = part.influence(machine[labelled[part.places]])
    squares = float(f @ f)
    power, free = 0.0, part.counted - 1
    if part.n_clusters >= _TUNABLE_FROM and len(part.places) < len(part.items) and squares > 0.0:
        slope = float(a @ f) / squares
        power = min(max(slope, 0.0), 1.0)
        if abs(power - slope) <= _EQUAL:
            leverage = leverage + f**2 / squares
            free -= 1
    return _Fit(power, leverage, max(free, 1))


def _gap(
    machine: FloatArray, labelled: IntArray, strata: Strata, groups: IntArray, n: int
) -> float:
    """Return how far the labelled items lie from all in the machine's values, in standard errors.

    Each stratum is held against itself. 0.0 where nothing differs.
    """
    own = [machine[labelled[part.places]] for part in strata.parts]
    means = np.array([float(machine[part.items].mean()) for part in strata.parts])
    moved = [part.influence(each) for part, each in zip(strata.parts, own, strict=True)]
    whole = np.bincount(groups, machine - means[strata.of_item], minlength=n) / len(machine)
    error = math.sqrt(float(np.sum((spread(moved, strata, n) - whole) ** 2)))
    if error == 0.0 or len(labelled) == len(machine):
        return 0.0
    off = [
        part.share * (weighted_mean(each, part.weights) - mean)
        for part, each, mean in zip(strata.parts, own, means.tolist(), strict=True)
    ]
    return abs(math.fsum(off)) / error


@dataclass(frozen=True, slots=True)
class _Estimate:
    """An estimate before its interval is cut to what values can be."""

    value: float
    of_labels: FloatArray
    of_machine: FloatArray
    free: float
    least: Spare
    strata: Strata
    range: _Range
    confidence: float

    def interval(self, method: str) -> Interval:
        moved = self.of_labels + self.of_machine
        error = math.sqrt(float(moved @ moved))
        reach = t_quantile((1 + self.confidence) / 2, self.free) * error
        joined = len(self.strata.parts)
        drawn = "" if joined == 1 else f"|strata:{joined}"
        if any(len(np.unique(part.weights)) > 1 for part in self.strata.parts):
            drawn += "|weights:hajek"
        return Interval(
            self.range.clip(self.value - max(reach, self.least.below)),
            self.range.clip(self.value + max(reach, self.least.above)),
            self.confidence,
            error,
            f"{method}{drawn}|confidence:{self.confidence:.12g}|v1",
        )

    def with_more(self) -> float | None:
        """Return half the width to expect with MORE_LABELS labels more, drawn the same way."""
        labels = len(self.strata.weights)
        more = min(labels + MORE_LABELS, len(self.strata.of_item))
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
    strata: Strata,
    fits: list[_Fit],
    groups: IntArray,
    n: int,
    least: Spare,
    range_: _Range,
    confidence: float,
) -> _Estimate:
    """Return the sum of the strata's means, `rest` of labelled items and `trusted` of all."""
    moved, means = [], []
    for part, fit in zip(strata.parts, fits, strict=True):
        own = rest[part.places]
        moved.append(part.jackknifed(part.influence(own), fit.leverage))
        means.append(weighted_mean(own, part.weights))
    value = math.fsum(
        part.share * (middle + float(trusted[part.items].mean()))
        for part, middle in zip(strata.parts, means, strict=True)
    )
    predicted = trusted + np.array(means)[strata.of_item]
    of_machine = np.bincount(groups, predicted - value, minlength=n) / len(trusted)
    variances = [
        part.share**2 * float(own @ own) for part, own in zip(strata.parts, moved, strict=True)
    ]
    free = freedom(variances, [fit.free for fit in fits])
    of_labels = spread(moved, strata, n)
    return _Estimate(value, of_labels, of_machine, free, least, strata, range_, confidence)


def _plain(
    values: FloatArray,
    strata: Strata,
    groups: IntArray,
    n: int,
    range_: _Range,
    confidence: float,
) -> Estimate:
    """Return the mean of labels alone; its interval is Student's when each item stands alone."""
    if not len(values):
        return Estimate(None)
    if int(has_label(strata, n).sum()) < 2:
        return Estimate(weighted_mean(values, strata.weights))
    fits = [_Fit(0.0, part.leverage, max(part.counted - 1, 1)) for part in strata.parts]
    least = spare(strata, values, range_.low, range_.high, confidence)
    nothing = np.zeros(len(groups))
    found = _estimate(values, nothing, strata, fits, groups, n, least, range_, confidence)
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
