"""Vectors of some texts of a call: what each source finds, and their union."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from judged_server.domain import ByteArray, Float32Array, IntArray
from judged_server.embedding.base import Embedded


@dataclass(frozen=True, slots=True)
class VectorRows:
    """Vectors of the texts numbered `texts`, one after the other.

    `vectors` is float32 (rows, dimensions); text `texts[i]` has `counts[i]` neighbouring rows and
    the flags `flags[i]` (uint8 of Flag).
    """

    texts: IntArray
    vectors: Float32Array
    counts: IntArray
    flags: ByteArray

    def renumbered(self, numbers: IntArray) -> VectorRows:
        """Return the same rows, where text i is called `numbers[i]`."""
        return VectorRows(numbers[self.texts], self.vectors, self.counts, self.flags)


def join(
    n_texts: int,
    dimensions: int,
    parts: Sequence[VectorRows],
    faults: Mapping[int, tuple[str, str]],
) -> Embedded:
    """Return the parts as one; a text that no part has is without rows."""
    counts = np.zeros(n_texts, np.int64)
    flags = np.zeros(n_texts, np.uint8)
    for part in parts:
        counts[part.texts] = part.counts
        flags[part.texts] = part.flags
    offsets = np.zeros(n_texts + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    vectors = np.zeros((int(offsets[-1]), dimensions), np.float32)
    for part in parts:
        vectors[spread(offsets[part.texts], part.counts)] = part.vectors
    return Embedded(vectors, offsets.tolist(), flags, faults)


def spread(starts: IntArray, counts: IntArray) -> IntArray:
    """Return the row numbers of runs: `counts[i]` of them from `starts[i]` on."""
    if not len(counts):
        return np.zeros(0, np.int64)
    first = np.cumsum(counts) - counts
    total = int(first[-1] + counts[-1])
    rows: IntArray = np.repeat(starts - first, counts) + np.arange(total)
    return rows
