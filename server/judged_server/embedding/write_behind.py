"""The threads of the stored vectors: one reads, one writes what waits.

Owns the bound on what waits to be written: above it new vectors are not stored, and nobody waits.
What still waits when it is closed is written; what waits when the process is killed is lost, and
embedded anew. Leaves the file to `vector_store`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from judged_server.embedding.vector_rows import VectorRows
from judged_server.embedding.vector_store import StoredVectors, VectorStore

MAX_WAITING_BYTES = 8 << 20
READ_KEYS = 500
"""Keys of one read: about 5 ms, after which another call has its turn."""
COMPANY_S = 0.25
"""How long vectors wait for others to be written with."""

logger = logging.getLogger(__name__)


class WriteBehind:
    """A store that nobody waits for, but for what they read."""

    def __init__(self, store: VectorStore, max_waiting_bytes: int = MAX_WAITING_BYTES) -> None:
        self._store = store
        self._max_waiting_bytes = max_waiting_bytes
        self._waiting: deque[StoredVectors] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = threading.Condition()
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="vectors-read")
        self._writer = threading.Thread(target=self._write, name="vectors-write", daemon=True)
        self._writer.start()

    async def get(self, keys: Sequence[bytes], dimensions: int) -> list[VectorRows]:
        """Return what is stored under keys, in parts; text i is `keys[i]` in each."""
        loop = asyncio.get_running_loop()
        parts: list[VectorRows] = []
        for start in range(0, len(keys), READ_KEYS):
            if not self._store.on or self._closed:
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
        size = rows.vectors.nbytes
        with self._changed:
            if self._closed or self._bytes + size > self._max_waiting_bytes:
                return
            self._waiting.extend(entries)
            self._bytes += size
            self._changed.notify()

    def close(self) -> None:
        """Write what waits, and close the store."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._writer.join()
        self._reader.shutdown(wait=True, cancel_futures=True)
        self._store.close()

    def _write(self) -> None:
        while batch := self._next():
            try:
                self._store.put(batch)
            except Exception:
                logger.exception("%d vectors were not stored", len(batch))

    def _next(self) -> list[StoredVectors]:
        """Return what to write together; nothing at the end."""
        most = self._store.transaction_bytes
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            self._changed.wait_for(lambda: self._closed or self._bytes >= most, COMPANY_S)
            batch: list[StoredVectors] = []
            size = 0
            while self._waiting and (not batch or size + len(self._waiting[0].data) <= most):
                batch.append(self._waiting.popleft())
                size += len(batch[-1].data)
            self._bytes -= size
            return batch
