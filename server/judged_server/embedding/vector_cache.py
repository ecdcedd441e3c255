"""Vectors that are kept: those of a model in memory, and behind them a file that outlives it.

A vector that is found is the one that would be computed: its key holds all that it depends on, see
`VectorKeys`. The memory is one large array, a table from key to rows; the longest unused go first.
It keeps within a number of bytes, which are taken from the system as it fills. The file is one of
SQLite, shared by the processes of a machine. Every row carries a checksum over all of itself, and
what does not fit it is a miss. Nothing here raises for what a disk can do: that, damage and size
are up to `store.sqlite_file`.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from judged_server.domain import ByteArray, Float32Array, IntArray
from judged_server.embedding.base import ModelCard
from judged_server.scheduling.concurrency import ITEM_BYTES, run_by_size
from judged_server.store.sqlite_file import MIN_FREE_BYTES, Kind, SqliteFile
from judged_server.store.write_queue import MAX_WAITING_BYTES, WriteQueue


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


ENGINE_VERSION = 4
"""Raised when a release makes other vectors, or flags, of the same text, model and runtime."""


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


FILE = "vectors-1.sqlite3"
"""The number is the format's: versions of judged that differ in it share the folder, not a file."""

_KIND = Kind(
    FILE,
    "vectors",
    """
CREATE TABLE IF NOT EXISTS vectors (
  n INTEGER PRIMARY KEY, id INTEGER NOT NULL UNIQUE, key BLOB NOT NULL,
  crc INTEGER NOT NULL, flags INTEGER NOT NULL, count INTEGER NOT NULL, data BLOB NOT NULL)
""",
    "vectors",
    "texts are embedded anew (--vector-cache memory does without a file)",
)


_BY_ID = "SELECT key, crc, flags, count, data FROM vectors WHERE id IN ({ids})"


@dataclass(frozen=True, slots=True)
class StoredVectors:
    """One text's vectors: `data` is `count` rows of little-endian float32."""

    key: bytes
    flags: int
    count: int
    data: bytes

    @property
    def checksum(self) -> int:
        """CRC-32 over all of it."""
        head = self.key + self.flags.to_bytes(4, "little") + self.count.to_bytes(4, "little")
        return zlib.crc32(self.data, zlib.crc32(head))


class VectorStore(SqliteFile):
    """The file. One thread may read while another writes."""

    def __init__(self, folder: Path, max_bytes: int, min_free_bytes: int = MIN_FREE_BYTES) -> None:
        super().__init__(folder, _KIND, max_bytes, min_free_bytes)

    def get(self, keys: Sequence[bytes], dimensions: int) -> VectorRows:
        """Return what is stored under keys; text i is `keys[i]`."""
        rows = self.read_ids(_BY_ID, [_id(key) for key in keys])
        return _checked(keys, rows, dimensions)

    def put(self, entries: Sequence[StoredVectors]) -> bool:
        """Store entries in one transaction, the oldest ones making room; False if that failed."""
        return self.add(
            "INSERT OR REPLACE INTO vectors (id, key, crc, flags, count, data) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            [(_id(e.key), e.key, e.checksum, e.flags, e.count, e.data) for e in entries],
        )


def _id(key: bytes) -> int:
    return int.from_bytes(key[:8], "little", signed=True)


def _checked(
    keys: Sequence[bytes], rows: Sequence[tuple[object, ...]], dimensions: int
) -> VectorRows:
    """Return the rows that are whole, and asked for, and of the right size."""
    wanted = {key: i for i, key in enumerate(keys)}
    texts: list[int] = []
    counts: list[int] = []
    flags: list[int] = []
    parts: list[bytes] = []
    for key, crc, flag, count, data in rows:
        if not (isinstance(key, bytes) and isinstance(data, bytes) and key in wanted):
            continue
        if not (isinstance(flag, int) and isinstance(count, int)):
            continue
        if not (0 <= flag < 256 and count > 0 and len(data) == 4 * dimensions * count):
            continue
        if StoredVectors(key, flag, count, data).checksum != crc:
            continue
        texts.append(wanted[key])
        counts.append(count)
        flags.append(flag)
        parts.append(data)
    vectors = np.frombuffer(b"".join(parts), "<f4").reshape(-1, dimensions)
    return VectorRows(
        np.array(texts, np.int64),
        vectors.astype(np.float32, copy=False),
        np.array(counts, np.int64),
        np.array(flags, np.uint8),
    )


READ_KEYS = 500
"""Keys of one read: about 5 ms, after which another call has its turn."""


class WriteBehind:
    """A store that nobody waits for, but for what they read."""

    def __init__(self, store: VectorStore, max_waiting_bytes: int = MAX_WAITING_BYTES) -> None:
        self._store = store
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="vectors-read")
        self._queue: WriteQueue[StoredVectors] = WriteQueue(
            store.put,
            lambda entry: len(entry.data),
            store.transaction_bytes,
            "vectors",
            max_waiting_bytes,
        )

    async def get(self, keys: Sequence[bytes], dimensions: int) -> list[VectorRows]:
        """Return what is stored under keys, in parts; text i is `keys[i]` in each."""
        loop = asyncio.get_running_loop()
        parts: list[VectorRows] = []
        for start in range(0, len(keys), READ_KEYS):
            if not self._store.on or self._queue.closed:
                break
            some = keys[start : start + READ_KEYS]
            rows = await loop.run_in_executor(self._reader, self._store.get, some, dimensions)
            if len(rows.texts):
                parts.append(VectorRows(rows.texts + start, rows.vectors, rows.counts, rows.flags))
        return parts

    def put(self, keys: Sequence[bytes], rows: VectorRows) -> None:
        """Let the rows of keys be written some time; text i is `keys[i]`."""
        if not self._store.on:
            return
        entries = []
        at = 0
        for text, count, flags in zip(
            rows.texts.tolist(), rows.counts.tolist(), rows.flags.tolist(), strict=True
        ):
            data = rows.vectors[at : at + count].astype("<f4", copy=False).tobytes()
            entries.append(StoredVectors(keys[text], flags, count, data))
            at += count
        self._queue.put(entries)

    def close(self) -> None:
        """Write what waits, and close the store."""
        self._queue.close()
        self._reader.shutdown(wait=True, cancel_futures=True)
        self._store.close()


class VectorCache:
    """The kept vectors of one model."""

    def __init__(
        self, dimensions: int, memory_bytes: int = 0, behind: WriteBehind | None = None
    ) -> None:
        """Without bytes nothing is kept in memory, without `behind` nothing on disk."""
        self._dimensions = dimensions
        self._arena = VectorArena(dimensions, memory_bytes)
        self._behind = behind

    async def get(self, keys: Sequence[bytes]) -> list[VectorRows]:
        """Return what is kept under keys, in parts; text i is `keys[i]` in each."""
        size = ITEM_BYTES * len(keys)
        parts = [await run_by_size(size, self._arena.get, keys)]
        if self._behind is None or len(parts[0].texts) == len(keys):
            return parts
        wanted = np.ones(len(keys), np.bool_)
        wanted[parts[0].texts] = False
        numbers = np.flatnonzero(wanted)
        missing = [keys[i] for i in numbers.tolist()]
        for rows in await self._behind.get(missing, self._dimensions):
            await run_by_size(size, self._arena.put, missing, rows)
            parts.append(rows.renumbered(numbers))
        return parts

    def put(self, keys: Sequence[bytes], rows: VectorRows) -> None:
        """Keep the rows of keys; text i is `keys[i]`. For any thread; never waits for the disk."""
        self._arena.put(keys, rows)
        if self._behind is not None:
            self._behind.put(keys, rows)


class VectorCaches:
    """The caches of a server: one a model in memory, one file for all."""

    def __init__(
        self, memory_bytes: int = 0, folder: Path | None = None, disk_bytes: int = 0
    ) -> None:
        """Without a folder nothing is stored on disk."""
        self._memory_bytes = memory_bytes
        self._behind = None if folder is None else WriteBehind(VectorStore(folder, disk_bytes))

    def of(self, dimensions: int) -> VectorCache:
        """Return a cache for a model."""
        return VectorCache(dimensions, self._memory_bytes, self._behind)

    def close(self) -> None:
        """Write what waits."""
        if self._behind is not None:
            self._behind.close()
