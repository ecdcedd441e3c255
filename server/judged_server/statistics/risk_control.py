"""Bounds of single queries that labels have vouched for: conformal risk control.

Angelopoulos, Bates, Fisch, Lei, Schuster (2022), "Conformal Risk Control", arXiv 2208.02814; for
metrics of rankings Oosterhuis et al. (2024), arXiv 2407.02464. A family of bounds widens step by
step. A labelled query is missed at a step when its human value lies beyond its bound. The first
step is taken at which, with n labelled queries,

    n / (n + 1) * (share of them missed) + 1 / (n + 1) <= tail,     tail = (1 - confidence) / 2.

Over the draw of the labelled queries and of one more, that one is then missed with a probability
of at most `tail` on this side. Nothing is assumed of the judge or of the values; the family must
be fixed without a look at the labels. With fewer than 1 / tail - 1 labels (39 for a confidence of
0.95) no step is enough, and the bound is the end of the range.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np

from judged_server.domain import FloatArray, IntArray
from judged_server.scheduling.checkpoint import checkpoint

_SLACK = 1e-12
"""What sums of floats may differ by; a human value this far beyond its bound is not missed."""


@dataclass(frozen=True, slots=True)
class QueryBounds:
    """float64[m, N] each: bounds of m metrics over N queries, `lower` <= `upper`."""

    lower: FloatArray
    upper: FloatArray


def allowed_misses(n_labelled: int, confidence: float) -> int:
    """Return how many labelled queries a side may miss; -1 when even none is too many."""
    tail = (1 - confidence) / 2
    return math.floor(tail * (n_labelled + 1) + 1e-9) - 1


def shifted_bounds(
    machine: FloatArray, human: FloatArray, labelled: IntArray, confidence: float
) -> QueryBounds:
    """Return machine values with a margin to each side, as small as the labels allow.

    `machine` is float64[m, N], `human` float64[m, n], `labelled` int64[n]: the columns of
    `machine` that `human` belongs to. Here every width is a step, so that the margin is an order
    statistic of the differences: split conformal prediction.
    """
    low, high = _ends(machine, human)
    lower, upper = np.full_like(machine, low), np.full_like(machine, high)
    misses = allowed_misses(len(labelled), confidence)
    if misses >= 0:
        rises = np.sort(human - machine[:, labelled], axis=1)
        above = np.maximum(rises[:, -1 - misses, None], 0.0)
        below = np.maximum(-rises[:, misses, None], 0.0)
        lower, upper = np.maximum(machine - below, low), np.minimum(machine + above, high)
    return QueryBounds(lower, upper)


def chosen_bounds(
    machine: FloatArray,
    human: FloatArray,
    labelled: IntArray,
    confidence: float,
    *,
    falling: Iterable[FloatArray],
    rising: Iterable[FloatArray],
) -> QueryBounds:
    """Return bounds out of two families of values, each float64[m, N] a step.

    Bounds widen with every step, as the lowest (highest) value so far; the first is the machine's
    own. Steps are asked for only until every metric has its bound. Other arguments as for
    `shifted_bounds`.
    """
    low, high = _ends(machine, human)
    lower = -_rise(-machine, -human, labelled, confidence, (-v for v in falling), -low)
    return QueryBounds(lower, _rise(machine, human, labelled, confidence, rising, high))


def _rise(
    machine: FloatArray,
    human: FloatArray,
    labelled: IntArray,
    confidence: float,
    steps: Iterable[FloatArray],
    end: float,
) -> FloatArray:
    """Return the upper bounds: of each metric those of the first step that misses few enough."""
    bounds = np.full_like(machine, end)
    misses = allowed_misses(len(labelled), confidence)
    if misses < 0:
        return bounds
    highest, waiting = machine.copy(), np.ones(len(machine), np.bool_)
    for values in chain([machine], steps):
        checkpoint()
        np.maximum(highest, values, out=highest)
        missed = np.count_nonzero(human > highest[:, labelled] + _SLACK, axis=1)
        done = waiting & (missed <= misses)
        bounds[done] = highest[done]
        waiting &= ~done
        if not waiting.any():
            break
    return bounds


def _ends(machine: FloatArray, human: FloatArray) -> tuple[float, float]:
    """Return the range of values: [0, 1], or that of the values where they leave it."""
    low = min(float(machine.min(initial=0.0)), float(human.min(initial=0.0)))
    high = max(float(machine.max(initial=1.0)), float(human.max(initial=1.0)))
    return low, high
