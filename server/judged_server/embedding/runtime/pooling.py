"""Token embeddings to one unit vector a text.

Pure functions: the mean or the maximum over the mask, the first or the last token, then L2. They
stand outside the graph so that built and added models are pooled alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from judged_server.domain import BoolArray, Float32Array, IntArray


def pool(hidden: Float32Array, mask: IntArray, pooling: str) -> Float32Array:
    """Return the pooled vectors of (rows, tokens, size) hidden states, padded on the right.

    `pooling` is one of manifest.POOLINGS: mean, cls (the first token), max or last. A row without
    tokens gives zeros under mean and max, and its first state under cls and last.
    """
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "last":
        last: Float32Array = hidden[np.arange(len(hidden)), np.maximum(mask.sum(axis=1) - 1, 0)]
        return last
    if pooling == "max":
        kept = mask.astype(np.bool_)[:, :, None]
        maxima: Float32Array = np.where(kept, hidden, -np.inf).max(axis=1)
        return np.where(kept.any(axis=1), maxima, 0).astype(np.float32)
    weights = mask.astype(np.float32)
    sums = np.matmul(weights[:, None, :], hidden)[:, 0]
    means: Float32Array = sums / np.maximum(weights.sum(axis=1, keepdims=True), 1)
    return means


def unit_rows(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return rows scaled to length one in double precision; a zero row stays zero.

    Rows are divided by their largest part first, so that no square of a float32 over- or
    underflows. A row that is not finite comes out as NaN.
    """
    rows = vectors.astype(np.float64)
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0)
    with np.errstate(invalid="ignore"):
        rows /= np.where(largest == 0, 1, largest)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows /= np.where(lengths == 0, 1, lengths)
    return rows


def finite_rows(vectors: Float32Array) -> BoolArray:
    """Return which rows hold neither NaN nor infinity."""
    return np.asarray(np.isfinite(vectors).all(axis=1))
