"""Vectors in memory: one large array, a table from key to rows, the longest unused go first.

Keeps within a number of bytes. Its memory is taken from the system as it fills, and never more than
that.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from judged_server.domain import IntArray
from judged_server.embedding.cache.vector_rows import VectorRows

ROW_OVERHEAD_BYTES = 256
"""What a row costs beside its numbers (key, places in table and lists): 170 measured, and room."""

_EVICTED_SHARE = 16
_LARGEST_SHARE = 8
_NEVER = np.iinfo(np.int64).max
"""The time of a free row: it sorts behind all that can be evicted."""


class VectorArena:
    """A cache of rows of `dimensions` float32. Safe for threads."""

    def __init__(self, dimensions: int, max_bytes: int) -> None:
        self.capacity = max_bytes // (4 * dimensions + ROW_OVERHEAD_BYTES)
        """Rows there is room for."""
        self._vectors = np.empty((self.capacity, dimensions), np.float32)
        self._flags = np.zeros(self.capacity, np.uint8)
        self._used = np.full(self.capacity, _NEVER, np.int64)
        self._keys: list[bytes | None] = [None] * self.capacity
        self._free = list(range(self.capacity - 1, -1, -1))
        self._rows: dict[bytes, int | tuple[int, ...]] = {}
        self._clock = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many texts are kept."""
        return len(self._rows)

    def get(self, keys: Sequence[bytes]) -> VectorRows:
        """Return the rows of the keys that are kept; text i is `keys[i]`."""
        with self._lock:
            find = self._rows.get
            places = [find(key) for key in keys]
            texts = [i for i, place in enumerate(places) if place is not None]
            counts = np.ones(len(texts), np.int64)
            rows: list[int] = []
            firsts: list[int] = []
            for at, i in enumerate(texts):
                place = places[i]
                if isinstance(place, int):
                    firsts.append(place)
                    rows.append(place)
                elif place is not None:
                    firsts.append(place[0])
                    rows.extend(place)
                    counts[at] = len(place)
            wanted = np.array(rows, np.int64)
            self._touch(wanted)
            flags = self._flags[np.array(firsts, np.int64)]
            return VectorRows(np.array(texts, np.int64), self._vectors[wanted], counts, flags)

    def put(self, keys: Sequence[bytes], rows: VectorRows) -> None:
        """Keep the rows of keys; text i is `keys[i]`. A text that fills an eighth is left out."""
        ends = np.cumsum(rows.counts)
        with self._lock:
            for text, end, count, flag in zip(
                rows.texts.tolist(), ends.tolist(), rows.counts.tolist(), rows.flags, strict=True
            ):
                key = keys[text]
                if key in self._rows or not 0 < count <= self.capacity // _LARGEST_SHARE:
                    continue
                if len(self._free) < count:
                    self._evict(count)
                places = [self._free.pop() for _ in range(count)]
                self._rows[key] = places[0] if count == 1 else tuple(places)
                self._vectors[places] = rows.vectors[end - count : end]
                self._flags[places] = flag
                for place in places:
                    self._keys[place] = key
                self._touch(places)

    def _touch(self, places: IntArray | list[int]) -> None:
        self._clock += 1
        self._used[places] = self._clock

    def _evict(self, count: int) -> None:
        """Free at least `count` rows, and a share of all so that the next ones come cheap."""
        some = max(count, self.capacity // _EVICTED_SHARE)
        oldest = np.argpartition(self._used, some - 1)[:some]
        for place in oldest.tolist():
            key = self._keys[place]
            if key is None:
                continue
            freed = self._rows.pop(key)
            for row in (freed,) if isinstance(freed, int) else freed:
                self._keys[row] = None
                self._used[row] = _NEVER
                self._free.append(row)
