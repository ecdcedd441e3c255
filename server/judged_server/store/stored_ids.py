"""What the file of replies may hold, known without waiting for the file.

A filter in memory has the ids of all rows; a look at the file adds what came in since the last one,
from this process or from others. A key is ruled out when the filter lacks it and the last look is
no older than TRUSTED_S: what another process has stored since is asked anew at worst. Rows that
were deleted stay in the filter, and cost a read that finds nothing, until it is made anew.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from judged_server.store.replies import IdFilter, Mark, ReplyFile, id_of

LOOK_S = 0.25
"""A look is due this long after the last one; rows wait as long before they are written."""
TRUSTED_S = 1.0
"""How old the last look may be for a key to be ruled out."""
SLICE = 5000
"""Ids of one read: some milliseconds of the reading thread."""
FILE_BYTES_A_BIT = 32
"""So a full file of rows of 700 bytes sets a twentieth of the bits."""
MIN_BYTES, MAX_BYTES = 1 << 12, 1 << 24

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")


class StoredIds:
    """The ids of one file. For the event loop's thread; the file is read on `reader`."""

    def __init__(
        self, file: ReplyFile, reader: Executor, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Know nothing yet. Takes 4 MiB for each GiB that the file may have, 16 MiB at most."""
        size = min(max(file.max_bytes // (8 * FILE_BYTES_A_BIT), MIN_BYTES), MAX_BYTES)
        self._ids = IdFilter(1 << (size.bit_length() - 1))
        self._file = file
        self._reader = reader
        self._now = now
        self._mark: Mark | None = None
        self._began_with = 0
        self._looked_at = -math.inf

    @property
    def is_due(self) -> bool:
        """Whether it is time to look."""
        return self._now() - self._looked_at > LOOK_S

    def rules_out(self, key: bytes) -> bool:
        """Return whether nothing is stored under a key."""
        return self._now() - self._looked_at <= TRUSTED_S and id_of(key) not in self._ids

    def add(self, key: bytes) -> None:
        """Note that a row is about to be written."""
        self._ids.add(id_of(key))

    async def look(self) -> None:
        """Learn what came in since the last look; the first time, and now and then, all there is.

        Nothing is ruled out while that goes on for all, nor after the file could not be read.
        """
        began = self._now()
        if self._mark is None:
            await self._begin()
        if await self._catch_up():
            self._looked_at = began
        if self._ids.added > 2 * self._began_with + self._ids.size_bits // 16:
            self._mark = None  # by now, most of these were deleted

    async def _begin(self) -> None:
        """Learn the ids of all rows that are there now."""
        self._looked_at = -math.inf
        self._ids.clear()
        mark = await self._read(self._file.newest)
        above = -math.inf
        while mark is not None:
            ids = await self._read(self._file.ids_above, above, SLICE)
            if ids is None:
                return
            self._ids.add_all(ids)
            if len(ids) < SLICE:
                break
            above = int(ids.max())
        self._mark, self._began_with = mark, self._ids.added

    async def _catch_up(self) -> bool:
        """Learn the ids of the rows behind the mark; return whether all are known now."""
        while self._mark is not None:
            arrivals = await self._read(self._file.ids_behind, self._mark, SLICE)
            if arrivals is None:
                self._mark, self._looked_at = None, -math.inf
                break
            ids, self._mark = arrivals
            self._ids.add_all(ids)
            if len(ids) < SLICE:
                return True
        return False

    async def _read(self, read: Callable[[*_Arguments], _Result], *args: *_Arguments) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._reader, read, *args)


FILE = "purged"


class CacheInvalidation:
    """The file in a folder of stored replies, and what it was when this process looked last."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._seen = self._content()

    def publish(self) -> None:
        """Tell everybody. Raises OSError when the folder can't be written."""
        self._path.write_text(f"{secrets.token_hex(16)}\n", "ascii")

    def changed(self) -> bool:
        """Return whether there was a purge since this was made, or since it last said so."""
        content = self._content()
        if content in {self._seen, b""}:  # empty while it is written
            return False
        self._seen = content
        return True

    def _content(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError:
            return b""
