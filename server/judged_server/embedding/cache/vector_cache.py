"""Vectors that are kept: those of a model in memory, and behind them a file that outlives it.

A vector that is found is the one that would be computed: its key holds all that it depends on, see
`vector_key`. The file is one of SQLite, shared by the processes of a machine. Every row carries a
checksum over all of itself, and what does not fit it is a miss. Nothing here raises for what a disk
can do: that, damage and size are up to `store.sqlite_file`.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from judged_server.embedding.cache.vector_rows import VectorArena, VectorRows
from judged_server.scheduling.threads import run_in_thread_if
from judged_server.store.sqlite_file import MIN_FREE_BYTES, Kind, SqliteFile
from judged_server.store.write_queue import MAX_WAITING_BYTES, WriteQueue

INLINE_KEYS = 1_000

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


class VectorStore:
    """The file. One thread may read while another writes."""

    def __init__(self, folder: Path, max_bytes: int, min_free_bytes: int = MIN_FREE_BYTES) -> None:
        self._file = SqliteFile(folder, _KIND, max_bytes, min_free_bytes)

    @property
    def on(self) -> bool:
        """Whether it is in use; once False it stays so."""
        return self._file.on

    @property
    def transaction_bytes(self) -> int:
        """How much to hand to one `put` at most."""
        return self._file.transaction_bytes

    def get(self, keys: Sequence[bytes], dimensions: int) -> VectorRows:
        """Return what is stored under keys; text i is `keys[i]`."""
        rows = self._file.read_ids(_BY_ID, [_id(key) for key in keys])
        return _checked(keys, rows, dimensions)

    def put(self, entries: Sequence[StoredVectors]) -> bool:
        """Store entries in one transaction, the oldest ones making room; False if that failed."""
        return self._file.add(
            "INSERT OR REPLACE INTO vectors (id, key, crc, flags, count, data) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            [(_id(e.key), e.key, e.checksum, e.flags, e.count, e.data) for e in entries],
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()


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
        heavy = len(keys) > INLINE_KEYS
        parts = [await run_in_thread_if(heavy, self._arena.get, keys)]
        if self._behind is None or len(parts[0].texts) == len(keys):
            return parts
        wanted = np.ones(len(keys), np.bool_)
        wanted[parts[0].texts] = False
        numbers = np.flatnonzero(wanted)
        missing = [keys[i] for i in numbers.tolist()]
        for rows in await self._behind.get(missing, self._dimensions):
            await run_in_thread_if(heavy, self._arena.put, missing, rows)
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
