"""Vectors by rows: those of some texts of a call, and those that are kept in memory.

The memory is one large array, a table from key to rows; the longest unused go first. It keeps
within a number of bytes, which are taken from the system as it fills.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from judged_server.domain import ByteArray, Float32Array, IntArray
from judged_server.embedding.base import Embedded, ModelCard


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


ENGINE_VERSION = 1
"""Raised when a release makes other vectors of the same text, model and runtime."""


class VectorKeys:
    """Keys for one model as one runtime runs it."""

    def __init__(self, card: ModelCard, runtime: str) -> None:
        self._parts = (
            card.model_sha256,
            card.tokenizer_sha256,
            card.pooling,
            str(card.normalize),
            str(card.max_tokens),
            card.prefix,
            card.precision,
            card.execution_provider,
            runtime,
            str(ENGINE_VERSION),
        )

    def of(self, texts: Sequence[str], long_text: str) -> list[bytes]:
        """Return the key of each text under a policy: SHA-256, 32 bytes.

        Over all parts and the text, each in UTF-8 behind its length. About 2 microseconds a text
        of 600 characters.
        """
        common = hashlib.sha256(_prefixed([*self._parts, long_text]))
        keys = []
        for text in texts:
            raw = text.encode("utf-8", "surrogatepass")
            sha256 = common.copy()
            sha256.update(len(raw).to_bytes(8, "little") + raw)
            keys.append(sha256.digest())
        return keys


def _prefixed(parts: Iterable[str]) -> bytes:
    raws = [part.encode() for part in parts]
    return b"".join(len(raw).to_bytes(8, "little") + raw for raw in raws)


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
