"""The mid-distribution quantile by its definition, over the distinct values of a sample.

Parzen (2004), "Quantile Probability and Statistical Data Modeling", Statistical Science 19(4): the
mid-distribution function P(X < x) + P(X = x) / 2, turned round by linear interpolation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def mid_quantiles(sample: ArrayLike, levels: Sequence[float]) -> NDArray[np.float64]:
    """Return the quantiles; levels run from the first value to the last, as np.quantile's do."""
    values, counts = np.unique(np.asarray(sample, np.float64), return_counts=True)
    middles = np.cumsum(counts) - (counts + 1) / 2
    places = np.asarray(levels) * (counts.sum() - 1)
    return np.interp(places, middles, values)
