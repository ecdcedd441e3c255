"""How labelled items are spread, and the counts by which others are held against them.

A guarantee is of data like the labels. To see when other data are not, it keeps a small histogram
of the first stage's scores, of text lengths, and of flags and missing verdicts: the share of the
items in each bin, and that share's variance over clusters, by linearisation of the ratio (Cochran
1977, "Sampling Techniques", 11). Items that are judged are counted in the same bins by BUCKETS of
their query, so that counts of any messages can be added and clusters stay whole. The client, which
knows when a run is complete, adds them up and tests.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from judged_server.domain import TIE_TOLERANCE, FloatArray, IntArray, ItemShares

BUCKETS = 64
_PARTS = 4
SCORE, LENGTH, FLAGS = "score", "length", "flags"
PLAIN, FLAGGED, MISSING = 0.0, 1.0, 2.0
"""Values of FLAGS; an item without a verdict is MISSING."""


def describe(
    clusters: IntArray, scores: FloatArray, flags: FloatArray, lengths: FloatArray | None
) -> tuple[ItemShares, ...]:
    """Return how items are spread; scores are NaN where there is none."""
    known = ~np.isnan(scores)
    parts = [_shares(FLAGS, flags, clusters, np.array([FLAGGED, MISSING]))]
    if known.any():
        parts.append(_shares(SCORE, scores[known], clusters[known]))
    if lengths is not None:
        parts.append(_shares(LENGTH, lengths, clusters))
    return tuple(part for part in parts if part is not None)


def _shares(
    name: str, values: FloatArray, clusters: IntArray, edges: FloatArray | None = None
) -> ItemShares | None:
    """Return the shares of values between edges, or their quartiles; None of a single cluster."""
    if edges is None:
        edges = np.unique(np.quantile(values, np.arange(1, _PARTS) / _PARTS))
        # Values at an edge are above it, however they are rounded; none is below the first one.
        edges = edges[edges > values.min()] - TIE_TOLERANCE
    _, place = np.unique(clusters, return_inverse=True)
    counts = _counted(values, place, edges, int(place.max()) + 1)
    n = len(counts)
    if n < 2:
        return None
    shares = counts.sum(axis=0) / counts.sum()
    off = counts - counts.sum(axis=1)[:, None] * shares
    variances = n / (n - 1) * (off**2).sum(axis=0) / counts.sum() ** 2
    return ItemShares(
        name, tuple(edges.tolist()), tuple(shares.tolist()), tuple(variances.tolist())
    )


def count_items(
    data: Sequence[ItemShares],
    buckets: IntArray,
    scores: FloatArray,
    flags: FloatArray,
    lengths: FloatArray,
) -> IntArray:
    """Return the items of each bucket in all bins of `data`, bucket after bucket."""
    known = ~np.isnan(scores)
    tables = []
    for part in data:
        values = {SCORE: scores[known], FLAGS: flags, LENGTH: lengths}[part.name]
        of = buckets[known] if part.name == SCORE else buckets
        tables.append(_counted(values, of, np.array(part.edges), BUCKETS))
    return np.concatenate(tables, axis=1).astype(np.int64).ravel()


def _counted(values: FloatArray, rows: IntArray, edges: FloatArray, n_rows: int) -> FloatArray:
    """Return float64[n_rows, bins]: how many values of each row lie between the edges."""
    bins = len(edges) + 1
    cells = rows * bins + np.searchsorted(edges, values, side="right")
    return np.bincount(cells, minlength=n_rows * bins).reshape(n_rows, bins).astype(np.float64)
