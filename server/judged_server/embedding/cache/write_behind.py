"""The threads of the stored vectors: one reads, one writes what waits.

What waits to be written when the process is killed is lost, and embedded anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from judged_server.embedding.cache.vector_rows import VectorRows
from judged_server.embedding.cache.vector_store import StoredVectors, VectorStore
from judged_server.store.write_queue import MAX_WAITING_BYTES, WriteQueue

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
