"""Tukey's honest significant differences of every pair of runs.

One criterion, the studentized range, holds for all pairs at once, and no other correction is needed
(Tukey 1953; Carterette 2012, "Multiple Testing in Statistical Analysis of Systems-Based Information
Retrieval Experiments"; Sakai 2014).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from judged_server.checkpoint import checkpoint
from judged_server.domain import TIE_TOLERANCE, FloatArray
from judged_server.statistics.comparison.studentized_range import (
    studentized_range_quantile,
    studentized_range_sf,
)
from judged_server.statistics.intervals import Interval


@dataclass(frozen=True, slots=True)
class TukeyPair:
    """Two runs by their places. The interval is None, and p 1, when the residuals do not vary."""

    first: int
    second: int
    difference: float
    interval: Interval | None
    p_value: float


def tukey_pairs(values: FloatArray, confidence: float) -> tuple[TukeyPair, ...]:
    """Return all pairs of k >= 3 runs in order; `values` is float64[k, n], n >= 2 shared queries.

    The mean square of the residuals has (k - 1)(n - 1) degrees of freedom.
    """
    checkpoint()
    k, n = values.shape
    means = values.mean(axis=1)
    residuals = values - means[:, None] - values.mean(axis=0) + means.mean()
    df = (k - 1) * (n - 1)
    error = math.sqrt(float(np.sum(residuals**2)) / df / n)  # of a mean, but for the queries
    first, second = np.triu_indices(k, 1)
    differences = means[second] - means[first]
    if float(np.abs(residuals).max()) <= TIE_TOLERANCE * max(1.0, float(np.abs(values).max())):
        return tuple(
            TukeyPair(i, j, difference, None, 1.0)
            for i, j, difference in zip(
                first.tolist(), second.tolist(), differences.tolist(), strict=True
            )
        )
    p_values = studentized_range_sf(np.abs(differences) / error, k, df)
    reach = studentized_range_quantile(confidence, k, df) * error
    signature = f"tukey_hsd|runs:{k}|queries:{n}|confidence:{confidence:.12g}|v1"
    return tuple(
        TukeyPair(
            i,
            j,
            difference,
            Interval(
                difference - reach,
                difference + reach,
                confidence,
                math.sqrt(2) * error,
                signature,
            ),
            p_value,
        )
        for i, j, difference, p_value in zip(
            first.tolist(), second.tolist(), differences.tolist(), p_values.tolist(), strict=True
        )
    )
