"""The padded arrays of a batch.

Which windows run together is up to `cutting`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from judged_server.domain import IntArray


def pad(rows: Sequence[NDArray[np.int64]], pad_id: int) -> tuple[IntArray, IntArray]:
    """Return token ids, padded on the right to the longest row, and the mask of real tokens."""
    lengths = np.array([len(row) for row in rows], np.int64)
    mask = np.arange(lengths.max()) < lengths[:, None]
    token_ids = np.full(mask.shape, pad_id, np.int64)
    token_ids[mask] = np.concatenate(rows)
    return token_ids, mask.astype(np.int64)
