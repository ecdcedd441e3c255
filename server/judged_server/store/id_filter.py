"""A set of ids that costs a few bits for each, and errs to one side only.

An id is the beginning of a hash, so its last digits say which bit is its own. Of m bits of which n
are set, an id that was never added finds its own set with the probability n / m; one that was added
always does (Bloom, Communications of the ACM 13(7), 1970, with one hash).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


class IdFilter:
    """Ids of 64 bits, signed. For one thread."""

    def __init__(self, size_bytes: int) -> None:
        """Hold no id; `size_bytes`, a power of two, is all the memory that this ever takes."""
        self._bits = np.zeros(size_bytes, np.uint8)
        self._bytes = self._bits.data
        self._last = 8 * size_bytes - 1
        self.added = 0
        """How many ids were added, each as often as it was."""

    @property
    def size_bits(self) -> int:
        """The number of bits."""
        return self._last + 1

    def __contains__(self, number: int) -> bool:
        place = number & self._last
        return bool(self._bytes[place >> 3] >> (place & 7) & 1)

    def add(self, number: int) -> None:
        """Add an id."""
        place = number & self._last
        self._bytes[place >> 3] |= 1 << (place & 7)
        self.added += 1

    def add_all(self, numbers: Ids) -> None:
        """Add ids."""
        places = numbers & self._last
        np.bitwise_or.at(self._bits, places >> 3, (1 << (places & 7)).astype(np.uint8))
        self.added += len(numbers)

    def clear(self) -> None:
        """Hold no id again."""
        self._bits[:] = 0
        self.added = 0
