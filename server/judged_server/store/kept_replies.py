"""The file of replies off the event loop: one thread reads, one writes what waits.

What is not in the file is known without waiting for it: a filter in memory has the ids of all rows,
and a look at the file adds what came in since the last one, from this process or from others. A key
is ruled out when the filter lacks it and the last look is no older than TRUSTED_S: what another
process has stored since is asked anew at worst. Rows that were deleted stay in the filter, and cost
a read that finds nothing, until it is made anew.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

from judged_server.store.replies import IdFilter, Mark, ReplyFile, StoredReply, id_of
from judged_server.store.write_queue import MAX_WAITING_BYTES, WriteQueue

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
        self,
        file: ReplyFile,
        reader: Executor,
        now: Callable[[], float] = time.monotonic,
        slice_ids: int = SLICE,
    ) -> None:
        """Know nothing yet. Takes 4 MiB for each GiB that the file may have, 16 MiB at most."""
        size = min(max(file.max_bytes // (8 * FILE_BYTES_A_BIT), MIN_BYTES), MAX_BYTES)
        self._ids = IdFilter(1 << (size.bit_length() - 1))
        self._file = file
        self._reader = reader
        self._now = now
        self._slice_ids = slice_ids
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
            ids = await self._read(self._file.ids_above, above, self._slice_ids)
            if ids is None:
                return
            self._ids.add_all(ids)
            if len(ids) < self._slice_ids:
                break
            above = int(ids.max())
        self._mark, self._began_with = mark, self._ids.added

    async def _catch_up(self) -> bool:
        """Learn the ids of the rows behind the mark; return whether all are known now."""
        while self._mark is not None:
            arrivals = await self._read(self._file.ids_behind, self._mark, self._slice_ids)
            if arrivals is None:
                self._mark, self._looked_at = None, -math.inf
                break
            ids, self._mark = arrivals
            self._ids.add_all(ids)
            if len(ids) < self._slice_ids:
                return True
        return False

    async def _read(self, read: Callable[[*_Arguments], _Result], *args: *_Arguments) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._reader, read, *args)


READ_KEYS = 500
"""Keys of one read: a few milliseconds of the reading thread."""
MAX_PAYLOAD_BYTES = 64 << 10
"""Longer replies are not stored; a rubric asks for some hundred bytes."""


logger = logging.getLogger(__name__)


class KeptReplies:
    """A file that nobody waits for, but for what they read, and for what must not be lost."""

    def __init__(
        self,
        file: ReplyFile,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = file
        self._waiting: dict[bytes, list[asyncio.Future[StoredReply | None]]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="replies-read")
        self._ids = StoredIds(file, self._reader, now)
        self._looking: asyncio.Task[None] | None = None
        self._late: set[asyncio.Event] = set()
        self._queue: WriteQueue[StoredReply] = WriteQueue(
            file.put, _size, file.transaction_bytes, "replies", max_waiting_bytes
        )

    async def get(self, key: bytes, *, sure: bool = False) -> StoredReply | None:
        """Return what is stored under a key; with `sure` whatever it takes to know.

        Else what another process has stored within the last second may be passed over.
        """
        if not self._file.on or self._queue.closed:
            return None
        if self._looking is None and self._ids.is_due:
            self._looking = asyncio.create_task(self._look())
        if not sure and self._ids.rules_out(key):
            return None
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append(future)
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        reply: StoredReply | None = await future
        return reply

    def put(self, reply: StoredReply) -> None:
        """Let a reply be written some time."""
        if self._file.on and len(reply.payload) <= MAX_PAYLOAD_BYTES:
            self._ids.add(reply.key)
            self._queue.put([reply])

    async def put_soon(self, reply: StoredReply, within_s: float) -> None:
        """Return once a reply is with the operating system, or was not written in time.

        While a write is late nobody waits for another: a disk that hangs delays few answers.
        """
        if not self._file.on or len(reply.payload) > MAX_PAYLOAD_BYTES:
            return
        self._ids.add(reply.key)
        loop = asyncio.get_running_loop()
        written = asyncio.Event()

        def settle() -> None:
            written.set()
            self._late.discard(written)

        def settled() -> None:
            try:
                loop.call_soon_threadsafe(settle)
            except RuntimeError:  # the loop was closed in the meantime
                return

        if self._late or within_s <= 0:
            self._queue.put([reply])
            return
        if not self._queue.put([reply], settled):
            return
        try:
            async with asyncio.timeout(within_s):
                await written.wait()
        except TimeoutError:
            if written.is_set():  # in the same turn of the loop
                return
            if not self._late:
                logger.warning("replies are answered before they are stored: the disk is slow")
            self._late.add(written)

    def close(self) -> None:
        """Write what waits, and close the file. Not for the event loop's thread."""
        self._queue.close()
        self._reader.shutdown(wait=True, cancel_futures=True)
        self._file.close()

    async def _look(self) -> None:
        try:
            await self._ids.look()
        except RuntimeError:  # closed in the meantime
            return
        finally:
            self._looking = None

    async def _read(self) -> None:
        """Answer all who wait, a batch after the other, until nobody does."""
        loop = asyncio.get_running_loop()
        # What is asked in this turn of the loop is read together.
        await asyncio.sleep(0)
        try:
            while self._waiting:
                keys = list(self._waiting)[:READ_KEYS]
                waiting = {key: self._waiting.pop(key) for key in keys}
                found: Mapping[bytes, StoredReply] = {}
                try:
                    found = await loop.run_in_executor(self._reader, self._file.get, keys)
                except RuntimeError:  # closed in the meantime
                    found = {}
                finally:
                    _answer(waiting, found)
        finally:
            self._reading = None
            _answer(self._waiting, {})
            self._waiting.clear()


def _answer(
    waiting: Mapping[bytes, list[asyncio.Future[StoredReply | None]]],
    found: Mapping[bytes, StoredReply],
) -> None:
    for key, futures in waiting.items():
        for future in futures:
            if not future.done():  # whoever waited may have left
                future.set_result(found.get(key))


def _size(reply: StoredReply) -> int:
    return len(reply.payload) + len(reply.rubric) + len(reply.model) + len(reply.key)
