"""The file of replies off the event loop: one thread reads, one writes what waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from judged_server.store.replies import ReplyFile, StoredReply
from judged_server.store.stored_ids import StoredIds
from judged_server.store.write_queue import MAX_WAITING_BYTES, WriteQueue

READ_KEYS = 500
"""Keys of one read: a few milliseconds of the reading thread."""
MAX_PAYLOAD_BYTES = 64 << 10
"""Longer replies are not stored; a rubric asks for some hundred bytes."""


logger = logging.getLogger(__name__)


class KeptReplies:
    """A file that nobody waits for, but for what they read, and for what must not be lost."""

    def __init__(self, file: ReplyFile, max_waiting_bytes: int = MAX_WAITING_BYTES) -> None:
        self._file = file
        self._waiting: dict[bytes, list[asyncio.Future[StoredReply | None]]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="replies-read")
        self._ids = StoredIds(file, self._reader)
        self._looking: asyncio.Task[None] | None = None
        self._late = 0
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
            if late:
                self._late -= 1

        def settled() -> None:
            try:
                loop.call_soon_threadsafe(settle)
            except RuntimeError:  # the loop was closed in the meantime
                return

        late = False
        if self._late or within_s <= 0:
            self._queue.put([reply])
            return
        if not self._queue.put([reply], settled):
            return
        try:
            async with asyncio.timeout(within_s):
                await written.wait()
        except TimeoutError:
            late = True
            if not self._late:
                logger.warning("replies are answered before they are stored: the disk is slow")
            self._late += 1

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
