"""P-values corrected for how many there are.

Which p-values belong together is up to `compare`.
"""

from __future__ import annotations

import numpy as np

from judged_server.domain import FloatArray, IntArray


def holm(p_values: FloatArray) -> FloatArray:
    """Return the p-values times how many are not smaller, float64[m], at most 1 and in one order.

    Rejecting where these are below alpha keeps the chance of even one false claim below alpha
    (Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure").
    """
    m = len(p_values)
    order = np.argsort(p_values, kind="stable")
    steps = np.maximum.accumulate(p_values[order] * np.arange(m, 0, -1))
    return _back_in_place(steps, order)


def benjamini_hochberg(p_values: FloatArray) -> FloatArray:
    """Return the p-values times m over their rank, float64[m], at most 1 and in one order.

    Rejecting where these are below alpha keeps the expected share of false ones among the claims
    below alpha (Benjamini & Hochberg 1995, "Controlling the False Discovery Rate").
    """
    m = len(p_values)
    order = np.argsort(p_values, kind="stable")
    steps = p_values[order] * m / np.arange(1, m + 1)
    return _back_in_place(np.minimum.accumulate(steps[::-1])[::-1], order)


def _back_in_place(steps: FloatArray, order: IntArray) -> FloatArray:
    corrected = np.empty_like(steps)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected
