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
weights)^2 / (n * sum of squared weights), for the quantile and where labels hardly differ. Strata
with sampling fractions of their own are such a design; the variance then takes no account of what
the strata have gained, and the interval is the wider for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.statistics.distributions import t_quantile
from judged_server.statistics.intervals import Estimate, Interval, mean

ENOUGH_LABELS = 200
"""Below as many labelled clusters the result carries a warning."""
FEW_DEPARTURES = 10
"""With fewer labelled clusters off the middle value, the normal approximation is not trusted."""

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
    power       how much the machine's values were trusted, from 0 to 1.
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
    confidence: float = 0.95,
    unit: str = "queries",
) -> CorrectedMean:
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
    naive = _plain(machine, np.ones(total), groups, range_, confidence)
    labels_only = _plain(human, weights, groups[labelled], range_, confidence)
    n_labelled = _distinct(groups[labelled])
    if n_labelled < 2:
        warning = (
            f"labelled {unit}: {n_labelled}; a correction needs 2, and {ENOUGH_LABELS} to hold"
        )
        return CorrectedMean(Estimate(None), naive, labels_only, n_labelled, n, 0.0, (warning,))
    fit = _tune(machine, human, labelled, weights, groups, n)
    found = _corrected(fit, machine, human, labelled, weights, range_, confidence)
    warnings = _warnings(fit, found.departures, n_labelled, total == len(labelled), unit)
    return CorrectedMean(
        found.estimate, naive, labels_only, n_labelled, n, fit.power, warnings, found.with_more
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
    """A tuned power and what the variance needs of it.

    groups      int64[N] numbers of clusters, `has_label` bool[n clusters].
    leverage    float64[n clusters] of the labelled clusters in the regression, 0 elsewhere.
    free        degrees of freedom.
    gap         how far mean_L(machine) lies from mean(machine), in standard errors.
    """

    power: float
    groups: IntArray
    has_label: BoolArray
    leverage: FloatArray
    free: int
    gap: float


def _numbered(clusters: IntArray | None, total: int) -> tuple[IntArray, int]:
    """Return int64[N] numbers from 0 for the clusters, and how many there are."""
    if clusters is None:
        return np.arange(total, dtype=np.int64), total
    names, groups = np.unique(clusters, return_inverse=True)
    return groups.astype(np.int64, copy=False), len(names)


def _distinct(groups: IntArray) -> int:
    return int(np.count_nonzero(np.bincount(groups)))


def _tune(
    machine: FloatArray,
    human: FloatArray,
    labelled: IntArray,
    weights: FloatArray,
    groups: IntArray,
    n: int,
) -> _Fit:
    """Return the power: the slope of human on machine values over the sums of labelled clusters.

    It is zero where nothing can be fitted: with fewer than _TUNABLE_FROM clusters, where all
    machine values are alike, and where every item has a label, so that there is nothing to correct.
    """
    of_label = groups[labelled]
    has_label = np.bincount(of_label, minlength=n) > 0
    n_labelled = int(has_label.sum())
    leverage = np.bincount(of_label, weights, minlength=n) / weights.sum()
    a = _influence(human, weights, of_label, n)
    f = _influence(machine[labelled], weights, of_label, n)
    spread = float(f @ f)
    power, free, gap = 0.0, _counted(n_labelled, weights) - 1, 0.0
    if n_labelled >= _TUNABLE_FROM and len(labelled) < len(machine) and spread > 0.0:
        slope = float(a @ f) / spread
        power = min(max(slope, 0.0), 1.0)
        if abs(power - slope) <= _EQUAL:
            leverage = leverage + f**2 / spread
            free -= 1
        whole = _influence(machine, np.ones(len(machine)), groups, n)
        gap = abs(_weighted_mean(machine[labelled], weights) - float(machine.mean()))
        gap /= math.sqrt(float(np.sum((f - whole) ** 2)))
    return _Fit(power, groups, has_label, leverage, max(free, 1), gap)


@dataclass(frozen=True, slots=True)
class _Corrected:
    """A corrected mean, and how many clusters depart from the middle difference."""

    estimate: Estimate
    departures: int
    with_more: float | None


def _corrected(
    fit: _Fit,
    machine: FloatArray,
    human: FloatArray,
    labelled: IntArray,
    weights: FloatArray,
    range_: _Range,
    confidence: float,
) -> _Corrected:
    n = len(fit.has_label)
    rest = human - fit.power * machine[labelled]
    value = _weighted_mean(rest, weights) + fit.power * float(machine.mean())
    of_label = fit.groups[labelled]
    of_labels = _influence(rest, weights, of_label, n)
    of_labels = _jackknifed(of_labels, fit.leverage, fit.has_label)
    of_machine = fit.power * _influence(machine, np.ones(len(machine)), fit.groups, n)
    moved = of_labels + of_machine
    error = math.sqrt(float(moved @ moved))
    reach = t_quantile((1 + confidence) / 2, fit.free) * error
    lower, upper = value - reach, value + reach
    spare = _spare(
        rest,
        weights,
        of_label,
        _Range(range_.low - fit.power * range_.high, range_.high - fit.power * range_.low),
        confidence,
    )
    drawn = "" if len(np.unique(weights)) == 1 else "|weights:hajek"
    signature = f"prediction_powered|variance:jackknife{drawn}|confidence:{confidence:.12g}|v1"
    interval = Interval(
        range_.clip(min(lower, value - spare.below)),
        range_.clip(max(upper, value + spare.above)),
        confidence,
        error,
        signature,
    )
    more = min(len(labelled) + MORE_LABELS, len(machine))
    with_more = None
    if spare.departures >= FEW_DEPARTURES and more > len(labelled):
        # Terms of labels become smaller as there are more of them; what they share with those of
        # the machine's values, and these alone, stay.
        shrunk = float(of_labels @ of_labels) * len(labelled) / more
        stays = float(of_machine @ of_machine + 2 * (of_labels @ of_machine))
        free = max(fit.free * more // len(labelled), 1)
        with_more = t_quantile((1 + confidence) / 2, free) * math.sqrt(max(shrunk + stays, 0.0))
    return _Corrected(Estimate(range_.clip(value), interval), spare.departures, with_more)


def _plain(
    values: FloatArray, weights: FloatArray, groups: IntArray, range_: _Range, confidence: float
) -> Estimate:
    """Return the mean of items in clusters; its interval is Student's when each stands alone."""
    if not len(values):
        return Estimate(None)
    value = _weighted_mean(values, weights)
    sizes = np.bincount(groups, weights)
    n = int(np.count_nonzero(sizes))
    if n < 2:
        return Estimate(value)
    influence = _influence(values, weights, groups, len(sizes))
    moved = _jackknifed(influence, sizes / weights.sum(), sizes > 0)
    error = math.sqrt(float(moved @ moved))
    reach = t_quantile((1 + confidence) / 2, max(_counted(n, weights) - 1, 1)) * error
    spare = _spare(values, weights, groups, range_, confidence)
    drawn = "" if len(np.unique(weights)) == 1 else "|weights:hajek"
    interval = Interval(
        range_.clip(value - max(reach, spare.below)),
        range_.clip(value + max(reach, spare.above)),
        confidence,
        error,
        f"t:clustered{drawn}|confidence:{confidence:.12g}|v1",
    )
    return Estimate(value, interval)


def _weighted_mean(values: FloatArray, weights: FloatArray) -> float:
    if bool((weights == weights[0]).all()):
        return mean(values) or 0.0  # to the last bit that of a table
    return float(values @ weights / weights.sum())


def _counted(n_clusters: int, weights: FloatArray) -> int:
    """Return as how many clusters they count: fewer, the more their weights differ (Kish 1965)."""
    share = float(weights.sum()) ** 2 / (len(weights) * float(weights @ weights))
    return max(1, round(n_clusters * share))


def _influence(values: FloatArray, weights: FloatArray, groups: IntArray, n: int) -> FloatArray:
    """Return float64[n]: what each cluster adds to the weighted mean of the values, in all 0."""
    deviations = weights * (values - _weighted_mean(values, weights))
    return np.bincount(groups, deviations, minlength=n) / float(weights.sum())


def _jackknifed(moved: FloatArray, leverage: FloatArray, has_label: BoolArray) -> FloatArray:
    """Return what leaving each cluster out would move, scaled so that the squares add up.

    For clusters of one item and no power the sum of squares is var / n, with n - 1 below var.
    """
    n = int(has_label.sum())
    left = np.maximum(1.0 - leverage, 1.0 / n)
    return moved / left * math.sqrt((n - 1) / n)


@dataclass(frozen=True, slots=True)
class _Spare:
    """How far an interval must reach at least, and how many clusters depart from the rest."""

    below: float
    above: float
    departures: int


def _spare(
    values: FloatArray, weights: FloatArray, groups: IntArray, range_: _Range, confidence: float
) -> _Spare:
    """Return the least reach of an interval around a mean of almost equal values.

    That of n equal values has no width by any formula that knows the values only, yet it is sure
    of little: in n clusters without a departure, departures may still make up a share of
    1 - tail^(1/n) (Clopper and Pearson 1934), each as far as the range goes. With FEW_DEPARTURES
    or more the values speak for themselves.
    """
    middle = np.sort(values)[[(len(values) - 1) // 2, len(values) // 2]]
    departures = min(_distinct(groups[np.abs(values - common) > _EQUAL]) for common in middle)
    if departures >= FEW_DEPARTURES:
        return _Spare(0.0, 0.0, departures)
    share = 1 - ((1 - confidence) / 2) ** (1 / _counted(_distinct(groups), weights))
    below, above = float(middle[1]) - range_.low, range_.high - float(middle[0])
    return _Spare(share * below, share * above, departures)


def _warnings(
    fit: _Fit, departures: int, n_labelled: int, complete: bool, unit: str
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
    if fit.power == 0.0 and not complete:
        warnings.append(
            "the power is 0: the labels alone make the estimate, since the machine's values do "
            "not rise with them"
        )
    if fit.gap > _NOT_BY_CHANCE:
        warnings.append(
            f"the labelled {unit} differ from the others in the machine's values, by "
            f"{fit.gap:.1f} standard errors; the correction holds for labels drawn at random only"
        )
    return tuple(warnings)
