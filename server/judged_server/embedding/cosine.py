"""Cosine matrices of two sides of vectors, in bounded memory.

Products are taken in double precision: that costs a fraction of the embedding, and a vector's
cosine with itself is then 1 to within 1e-15, not 1e-7.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from judged_server.domain import Float32Array, FloatArray, IntArray
from judged_server.embedding.runtime.backend import unit_rows

BLOCK_CELLS = 1 << 20
"""Cosines of one matrix product: 8 MB, however large the sides."""

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Side:
    """Vectors of one side; text i owns the rows from `starts[i]`, without `starts` row i."""

    vectors: Float32Array
    starts: IntArray | None = None


def cosine_matrix(rows: Side, columns: Side) -> FloatArray:
    """Return the best cosine of each row text with each column text, in [0, 1].

    A negative cosine is 0, and so is that of a zero vector. A vector that is not finite gives NaN.
    """
    right = unit_rows(columns.vectors).T
    step = max(1, BLOCK_CELLS // max(1, right.shape[1]))
    blocks = []
    for start in range(0, len(rows.vectors), step):
        block = unit_rows(rows.vectors[start : start + step]) @ right
        if columns.starts is not None:
            block = np.maximum.reduceat(block, columns.starts, axis=1)
        blocks.append(block)
    scores: FloatArray = np.concatenate(blocks)
    if rows.starts is not None:
        scores = np.maximum.reduceat(scores, rows.starts, axis=0)
    return _clamp(scores)


def _clamp(scores: FloatArray) -> FloatArray:
    """Clamp rounding only: comparisons with NaN are false, so that NaN stays NaN."""
    scores[scores <= 0] = 0.0
    scores[scores > 1 - _ROUNDING] = 1.0
    return scores
