"""Krippendorff's alpha: agreement beyond chance of any number of raters, with ratings missing.

Like in `kappa`, values come from sums over items, so that a resample is a sum and no second pass
over ratings.

Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability": an item with m ratings adds
1 / (m - 1) for each ordered pair of its ratings to the coincidence of their categories.
"""

from __future__ import annotations

import numpy as np
from judged.values.agreement import RatingLevel

from judged_server.domain import FloatArray, IntArray


def coincidence_sums(counts: FloatArray, categories: IntArray, level: RatingLevel) -> FloatArray:
    """Return what items add: float64[k] ratings by category, then their disagreement.

    `counts` is float64[items, k], how many of an item's ratings are of each category, two or more
    in all. The disagreement is one number, coincidences times differences, for nominal and interval
    categories. The differences of ordinal ones hang on the ratings of all items, so that there it
    is the coincidence of each two categories. A coincidence is counted in one of its two orders.
    """
    pairs = (counts / (counts.sum(axis=1, keepdims=True) - 1)).T @ counts
    low, high = np.triu_indices(len(categories), 1)
    together = pairs[low, high]
    if level is RatingLevel.NOMINAL:
        together = together.sum(keepdims=True)
    elif level is RatingLevel.INTERVAL:
        together = np.array([together @ (categories[high] - categories[low]) ** 2.0])
    return np.concatenate([counts.sum(axis=0), together])


def alpha(sums: FloatArray, categories: IntArray, level: RatingLevel) -> FloatArray:
    """Return 1 - observed / expected disagreement of `coincidence_sums`, float64[b, ...].

    NaN where all ratings are of one category: nothing could have disagreed.
    """
    k = len(categories)
    rated = sums[:, :k]
    n = rated.sum(axis=1)
    if k < 2:
        return np.full(len(sums), np.nan)
    seen = sums[:, k]
    if level is RatingLevel.NOMINAL:
        expected = (n**2 - (rated**2).sum(axis=1)) / 2
    else:
        places: FloatArray = categories[None, :].astype(np.float64)
        if level is RatingLevel.ORDINAL:
            # A category stands at the middle of its ratings in the order of all: the difference of
            # two is then the ratings between them, and half of their own.
            places = np.cumsum(rated, axis=1) - rated / 2
            low, high = np.triu_indices(k, 1)
            seen = (sums[:, k:] * (places[:, high] - places[:, low]) ** 2).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            centred = places - (rated * places).sum(axis=1, keepdims=True) / n[:, None]
        expected = n * (rated * centred**2).sum(axis=1)
    one_category = (rated > 0).sum(axis=1) < 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(one_category, np.nan, 1 - (n - 1) * seen / expected)
