"""Probabilities from a judge's scores, and how reliable they are.

A calibration is Platt's (1999): a logistic regression of the labels on the logit of the score. It
is fitted if there are MIN_LABELS labels, of both kinds. The reliability of a fitted one is
cross-validated over clusters: an item's probability is by a calibration without its cluster.

The fit is drawn towards the calibration that comes with the judge, or else towards a probability of
0.5 at the judge's own threshold: slope and intercept on that logit have normal priors around 1 and
0. The priors are wider if labels clearly contradict them (by the evidence of either width, in
Laplace's approximation: MacKay (1992), "Bayesian Interpolation", Neural Computation 4(3)). So few
labels move the fit only as far as they are certain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from judged.values.calibration import Reliability, ReliabilityBin
from judged.values.calibrators import Calibrator
from judged.values.choices import Estimate, IntervalOptions

from judged_server.domain import TIE_TOLERANCE, BoolArray, FloatArray
from judged_server.statistics.intervals import estimate_sums, numbered
from judged_server.statistics.quality import (
    BINS,
    LabelledScores,
    accuracy,
    bin_columns,
    bins_of,
    calibration_error,
    cluster_folds,
    cohen_kappa,
    confusion_columns,
)

MIN_LABELS = 30
"""The fewest labels for a fit."""

_PRIOR = (0.3, 0.15)
"""Standard deviations of slope and intercept around those of the prior calibration."""
_WIDER = 8.0
"""How many times as wide they are if labels contradict it."""
_CLEARLY = math.log(20)
"""The extra evidence needed for that: labels of one query say less than as many of several."""

_LEAST = 1e-6
_LEAST_THRESHOLD = 0.05
"""A threshold closer to 0 or 1 means that everything or nothing passes, not where 0.5 is."""
_STEPS = 100
_Z = 1.959963984540054
"""The quantile for a Wilson interval of 95 %."""


def sigmoid(logits: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(-logits)) to nine digits, since processors round exp differently."""
    return np.round(1 / (1 + np.exp(-np.clip(logits, -30, 30))), 9)


@dataclass(frozen=True, slots=True)
class Platt:
    """Slope, above 0, and intercept of the calibrated logit; by default the score itself."""

    slope: float = 1.0
    intercept: float = 0.0

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return float64[n] in [0, 1], to nine digits."""
        return sigmoid(self.slope * _logits(scores) + self.intercept)

    @property
    def threshold(self) -> float:
        """The score whose probability is 0.5; 0 or 1 if all are on one side of it."""
        z = -self.intercept / self.slope
        if abs(z) >= _logits(np.array([1.0]))[0]:
            return 0.0 if z < 0 else 1.0
        return 1 / (1 + math.exp(-z))

    @classmethod
    def of(cls, calibrator: Calibrator) -> Platt:
        """Return the calibration that a calibrator holds."""
        return cls(calibrator.slope, calibrator.intercept)

    @classmethod
    def of_threshold(cls, min_score: float) -> Platt:
        """Return the calibration whose probability is 0.5 at a judge's own threshold."""
        kept = min(max(min_score, _LEAST_THRESHOLD), 1 - _LEAST_THRESHOLD)
        return cls(1.0, -float(_logits(np.array([kept]))[0]))


def reliability(
    items: LabelledScores,
    shipped: Platt | None,
    folds: int,
    options: IntervalOptions,
    min_score: float = 0.5,
) -> Reliability:
    """Return the calibration that labels allow: a fitted one, else the shipped, else the score.

    `min_score` is the judge's own threshold. The calibrator has no scoring key yet.
    """
    kept = Platt() if shipped is None else shipped
    prior = Platt.of_threshold(min_score) if shipped is None else shipped
    _, n_clusters = numbered(items.clusters, len(items.labels))
    refusal = _refusal(items)
    fitted = None if refusal else fit(items.scores, items.labels, prior)
    if fitted is None:
        what = "the score itself is" if shipped is None else "the shipped calibration is"
        refusal = refusal or "the scores do not rise with the labels; another judge may help"
        probabilities = kept.probabilities(items.scores)
        warnings: tuple[str, ...] = (f"{what} the probability, unchanged: {refusal}",)
    else:
        probabilities = _held_out(items, prior, folds, options.seed)
        warnings = ()
    brier, error, kappa, accuracy = _estimates(items, probabilities, options)
    platt = fitted or kept
    return Reliability(
        Calibrator("", platt.slope, platt.intercept, not_fitted=refusal),
        not refusal,
        len(items.labels),
        n_clusters,
        brier.known,
        error.known,
        kappa.known,
        _bins(probabilities, items.labels),
        warnings,
        accuracy.known,
    )


def least_certain(
    platt: Platt, scores: FloatArray, max_share: float
) -> tuple[float | None, float | None]:
    """Return the scores to accept from, and to reject up to, to settle all but the least certain.

    At most `max_share` of the scores are between them; those farther from a probability of 0.5 are
    settled first. A bound is None if no settled score is on its side.
    """
    probabilities = platt.probabilities(scores)
    certainty = np.abs(probabilities - 0.5)
    handed_on = math.floor(max_share * len(scores) + TIE_TOLERANCE)
    if handed_on >= len(scores):
        return None, None
    threshold = np.sort(certainty)[handed_on]
    settled = certainty >= threshold
    accepted, rejected = (
        scores[settled & (probabilities >= 0.5)],
        scores[settled & (probabilities < 0.5)],
    )
    return (
        float(accepted.min()) if len(accepted) else None,
        float(rejected.max()) if len(rejected) else None,
    )


def fit(scores: FloatArray, labels: BoolArray, shipped: Platt | None = None) -> Platt | None:
    """Return the calibration of some labels; None if scores do not rise with them.

    `shipped` is the calibration that the fit is drawn towards; without it the fit is Platt's.
    """
    n_yes = int(labels.sum())
    n_no = len(labels) - n_yes
    if n_yes == 0 or n_no == 0 or scores.min() == scores.max():
        return None
    x = _logits(scores)
    start = math.log((n_yes + 1) / (n_no + 1))
    if shipped is None:
        target = np.where(labels, (n_yes + 1) / (n_yes + 2), 1 / (n_no + 2))
        made = _newton(x, target, start, math.inf)
        return made[0] if made is not None and made[0].slope > 0 else None
    z = shipped.slope * x + shipped.intercept
    near, wide = (_newton(z, labels.astype(np.float64), start, width) for width in (1.0, _WIDER))
    if near is None or wide is None:
        return None
    # The wider prior's density has a factor of 1 / _WIDER for each of the two parameters.
    change = (wide if wide[1] - 2 * math.log(_WIDER) > near[1] + _CLEARLY else near)[0]
    slope = change.slope * shipped.slope
    intercept = change.slope * shipped.intercept + change.intercept
    return Platt(slope, intercept) if slope > 0 else None


def _newton(
    x: FloatArray, target: FloatArray, start: float, width: float
) -> tuple[Platt, float] | None:
    """Return the logistic regression on x with priors `width` times _PRIOR; inf: without any.

    Also returns the log of the labels' evidence, up to a constant of the prior.
    """
    design, precision = np.stack([x, np.ones_like(x)]), (width * np.array(_PRIOR)) ** -2.0
    middle, at = np.array([1.0, 0.0]), np.array([0.0, start])
    for _ in range(_STEPS):  # Newton's method on a convex loss
        p = 1 / (1 + np.exp(-(at @ design)))
        hessian = (design * (p * (1 - p) + 1e-12)) @ design.T + np.diag(precision)
        determinant = float(np.linalg.det(hessian))
        if determinant <= 0:
            return None
        step = np.linalg.solve(hessian, design @ (p - target) + precision * (at - middle))
        length = float(np.abs(step).sum())
        # If labels are nearly separable a full step may overshoot.
        at = at - min(1.0, 4.0 / max(length, 1e-300)) * step
        if length < 1e-10:
            break
    z = at @ design
    likelihood = float(np.sum(target * z - np.logaddexp(0.0, z)))
    off = float(precision @ (at - middle) ** 2)
    return Platt(*at.tolist()), likelihood - 0.5 * (off + math.log(determinant))


def _logits(scores: FloatArray) -> FloatArray:
    cut = np.clip(scores, _LEAST, 1 - _LEAST)
    logits: FloatArray = np.log(cut / (1 - cut))
    return logits


def _refusal(items: LabelledScores) -> str:
    n = len(items.labels)
    if n < MIN_LABELS:
        return f"a calibration needs {MIN_LABELS} labels, and there are {n}; label more items"
    if items.labels.all() or not items.labels.any():
        other = "irrelevant" if items.labels.all() else "relevant"
        return f"a calibration needs labels of both kinds, and none is {other}; label some that are"
    return ""


def _held_out(items: LabelledScores, prior: Platt, folds: int, seed: int) -> FloatArray:
    """Return each item's probability by a calibration on the other folds."""
    probabilities = np.empty(len(items.labels))
    for inside in cluster_folds(items, folds, seed):
        made = fit(items.scores[~inside], items.labels[~inside], prior) or prior
        probabilities[inside] = made.probabilities(items.scores[inside])
    return probabilities


def _estimates(
    items: LabelledScores, probabilities: FloatArray, options: IntervalOptions
) -> tuple[Estimate, ...]:
    """Return Brier score, calibration error, kappa and accuracy, each with its interval."""
    judged = LabelledScores(probabilities, items.labels)
    columns = [
        (probabilities - items.labels) ** 2,
        *confusion_columns(judged.relevant(0.5), items.labels),
        *bin_columns(judged),
    ]

    def statistics(drawn: FloatArray) -> FloatArray:
        counts = drawn[:, 1:5]
        return np.stack(
            [
                drawn[:, 0] / counts.sum(axis=1),
                calibration_error(counts, drawn[:, 5:]),
                cohen_kappa(counts),
                accuracy(counts),
            ],
            axis=1,
        )

    return estimate_sums(columns, items.clusters, statistics, options)


def _bins(probabilities: FloatArray, labels: BoolArray) -> tuple[ReliabilityBin, ...]:
    place = bins_of(probabilities)
    n = np.bincount(place, minlength=BINS).tolist()
    mean = np.bincount(place, probabilities, BINS).tolist()
    relevant = np.bincount(place, labels, BINS).tolist()
    return tuple(
        ReliabilityBin(0)
        if n[b] == 0
        else ReliabilityBin(n[b], mean[b] / n[b], *_wilson(relevant[b], n[b]))
        for b in range(BINS)
    )


def _wilson(successes: float, n: int) -> tuple[float, float, float]:
    """Return a share and its interval of 95 % (Wilson 1927)."""
    share, z2 = successes / n, _Z**2 / n
    middle = (share + z2 / 2) / (1 + z2)
    half = math.sqrt(share * (1 - share) * z2 + z2**2 / 4) / (1 + z2)
    return share, max(0.0, middle - half), min(1.0, middle + half)
