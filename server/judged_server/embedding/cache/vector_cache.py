"""Vectors that are kept: those of a model in memory, and behind them a file that outlives it.

A vector that is found is the one that would be computed: its key holds all that it depends on, see
`vector_key`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from judged_server.embedding.cache.vector_rows import VectorArena, VectorRows
from judged_server.embedding.cache.vector_store import VectorStore, WriteBehind
from judged_server.scheduling.threads import run_in_thread_if

INLINE_KEYS = 1_000


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
