"""Vectors that are kept: those of a model in memory, and behind them a file that outlives it.

A vector that is found is the one that would be computed: its key holds all that it depends on, see
`VectorKeys`. The file is one of SQLite, shared by the processes of a machine. Every row carries a
checksum over all of itself, and what does not fit it is a miss. Nothing here raises for what a disk
can do: that, damage and size are up to `store.sqlite_file`.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from judged_server.domain import Float32Array
from judged_server.embedding.base import ModelCard
from judged_server.scheduling.concurrency import ITEM_BYTES, run_by_size
from judged_server.store.sqlite_file import MIN_FREE_BYTES, Kind, SqliteFile
from judged_server.store.write_queue import MAX_WAITING_BYTES, WriteQueue


@dataclass(frozen=True, slots=True)
class TextVectors:
    """The vectors of one text: `rows` is float32 (windows, dimensions), `flags` of Flag."""

    rows: Float32Array
    flags: int


Found = Mapping[bytes, TextVectors]
"""What is kept, by key."""

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
_ADD = "INSERT OR REPLACE INTO vectors (id, key, crc, flags, count, data) VALUES (?, ?, ?, ?, ?, ?)"

READ_KEYS = 500
"""Keys of one read: about 5 ms, after which another call has its turn."""


class VectorFile(SqliteFile):
    """The file. One thread reads; another one writes, which nobody waits for."""

    def __init__(
        self,
        folder: Path,
        max_bytes: int,
        min_free_bytes: int = MIN_FREE_BYTES,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
    ) -> None:
        super().__init__(folder, _KIND, max_bytes, min_free_bytes)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="vectors-read")
        self._queue: WriteQueue[tuple[bytes, TextVectors]] = WriteQueue(
            lambda entries: self.save(dict(entries)),
            lambda entry: entry[1].rows.nbytes,
            self.transaction_bytes,
            "vectors",
            max_waiting_bytes,
        )

    async def get(self, keys: Sequence[bytes], dimensions: int) -> dict[bytes, TextVectors]:
        """Return what is stored under keys."""
        found: dict[bytes, TextVectors] = {}
        loop = asyncio.get_running_loop()
        for start in range(0, len(keys), READ_KEYS):
            if not self.on or self._queue.closed:
                break
            some = keys[start : start + READ_KEYS]
            found |= await loop.run_in_executor(self._reader, self.load, some, dimensions)
        return found

    def put(self, vectors: Found) -> None:
        """Let vectors be written some time."""
        if self.on:
            self._queue.put(list(vectors.items()))

    def close(self) -> None:
        """Write what waits, and close the file."""
        self._queue.close()
        self._reader.shutdown(wait=True, cancel_futures=True)
        super().close()

    def save(self, vectors: Found) -> bool:
        """Write vectors in one transaction, the oldest making room; False if that failed."""
        rows = []
        for key, each in vectors.items():
            data, count = each.rows.astype("<f4", copy=False).tobytes(), len(each.rows)
            crc = _checksum(key, each.flags, count, data)
            rows.append((_id(key), key, crc, each.flags, count, data))
        return self.add(_ADD, rows)

    def load(self, keys: Sequence[bytes], dimensions: int) -> dict[bytes, TextVectors]:
        """Return the rows that are whole, and asked for, and of the right size."""
        wanted = set(keys)
        found: dict[bytes, TextVectors] = {}
        for key, crc, flags, count, data in self.read_ids(_BY_ID, [_id(key) for key in keys]):
            if (
                isinstance(key, bytes)
                and isinstance(flags, int)
                and isinstance(count, int)
                and isinstance(data, bytes)
                and key in wanted
                and 0 <= flags < 256
                and count > 0
                and len(data) == 4 * dimensions * count
                and _checksum(key, flags, count, data) == crc
            ):
                rows = np.frombuffer(data, "<f4").reshape(count, dimensions)
                found[key] = TextVectors(rows.astype(np.float32, copy=False), flags)
        return found


def _id(key: bytes) -> int:
    return int.from_bytes(key[:8], "little", signed=True)


def _checksum(key: bytes, flags: int, count: int, data: bytes) -> int:
    head = key + flags.to_bytes(4, "little") + count.to_bytes(4, "little")
    return zlib.crc32(data, zlib.crc32(head))


ENTRY_BYTES = 420
"""What a text costs beside its numbers: key, table and array, by measurement."""
_LARGEST_SHARE = 8
"""A text that fills more than this part of the memory is not kept."""


class VectorCache:
    """The kept vectors of one model. The longest unused give way in memory. Safe for threads."""

    def __init__(
        self, dimensions: int, memory_bytes: int = 0, file: VectorFile | None = None
    ) -> None:
        """Without bytes nothing is kept in memory, without a file nothing on disk."""
        self._dimensions = dimensions
        self._max_bytes = memory_bytes
        self._file = file
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, TextVectors] = OrderedDict()
        self._bytes = 0

    async def get(self, keys: Sequence[bytes]) -> Found:
        """Return what is kept under keys."""
        size = ITEM_BYTES * len(keys)
        found = await run_by_size(size, self._find, keys)
        if self._file is None or len(found) == len(keys):
            return found
        missing = [key for key in keys if key not in found]
        stored = await self._file.get(missing, self._dimensions)
        await run_by_size(size, self._keep, stored)
        return found | stored

    def put(self, vectors: Found) -> None:
        """Keep vectors. For any thread; never waits for the disk."""
        self._keep(vectors)
        if self._file is not None:
            self._file.put(vectors)

    def _find(self, keys: Sequence[bytes]) -> dict[bytes, TextVectors]:
        with self._lock:
            found = {key: self._kept[key] for key in keys if key in self._kept}
            for key in found:
                self._kept.move_to_end(key)
        return found

    def _keep(self, vectors: Found) -> None:
        with self._lock:
            for key, each in vectors.items():
                size = _size(each)
                if key in self._kept or size > self._max_bytes // _LARGEST_SHARE:
                    continue
                self._kept[key] = each
                self._bytes += size
            while self._bytes > self._max_bytes:
                self._bytes -= _size(self._kept.popitem(last=False)[1])


def _size(vectors: TextVectors) -> int:
    return ENTRY_BYTES + vectors.rows.nbytes
