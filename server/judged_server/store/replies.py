"""Language models' replies on disk: the rows of one SQLite file, read and written off the loop.

Each row holds the whole key and a checksum over all of itself, and what does not fit it is a miss.
What a payload means is up to `llm`; what disks can do, to `sqlite_file`.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from judged_server.store.sqlite_file import BUSY_S, MIN_FREE_BYTES, Kind, SqliteFile
from judged_server.store.write_queue import MAX_WAITING_BYTES, WriteQueue

FILE = "replies-1.sqlite3"
"""The number is the format's: versions of judged that differ in it share the folder, not a file."""
READ_KEYS = 500
"""Keys of one read: a few milliseconds of the reading thread."""
MAX_PAYLOAD_BYTES = 64 << 10
"""Longer replies are not stored; a rubric asks for some hundred bytes."""

_KIND = Kind(
    FILE,
    "replies",
    """
CREATE TABLE IF NOT EXISTS replies (
  n INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL UNIQUE, key BLOB NOT NULL,
  crc INTEGER NOT NULL, rubric TEXT NOT NULL, version INTEGER NOT NULL, model TEXT NOT NULL,
  created INTEGER NOT NULL, payload BLOB NOT NULL)
""",
    "replies",
    "models are asked anew (--llm-cache memory does without a file)",
)
_COLUMNS = "crc, key, rubric, version, model, created, payload"
_BY_ID = f"SELECT {_COLUMNS} FROM replies WHERE id IN ({{ids}})"  # noqa: S608 - our own names

logger = logging.getLogger(__name__)


class StoredReply(NamedTuple):
    """One reply: to which rubric, of which model (by the operator's name), when, and what it was.

    `created` is in whole seconds since 1970.
    """

    key: bytes
    rubric: str
    version: int
    model: str
    created: int
    payload: bytes

    @property
    def checksum(self) -> int:
        """CRC-32 over all of it, types included."""
        return zlib.crc32(ascii(tuple(self)).encode())


@dataclass(frozen=True, slots=True)
class Selection:
    """Which replies: those that fit all that is given; None fits every one."""

    rubric: str | None = None
    version: int | None = None
    model: str | None = None


class Tally(NamedTuple):
    """How many replies of a model to a rubric are stored, their bytes, and when they were given."""

    rubric: str
    version: int
    model: str
    replies: int
    payload_bytes: int
    oldest: int
    newest: int


class ReplyFile(SqliteFile):
    """The file."""

    def __init__(
        self,
        folder: Path,
        max_bytes: int,
        min_free_bytes: int = MIN_FREE_BYTES,
        busy_s: float = BUSY_S,
    ) -> None:
        super().__init__(folder, _KIND, max_bytes, min_free_bytes, busy_s)

    def get(self, keys: Sequence[bytes]) -> Mapping[bytes, StoredReply]:
        """Return the whole rows that are stored under keys, by key."""
        wanted = set(keys)
        found: dict[bytes, StoredReply] = {}
        for crc, *row in self.read_ids(_BY_ID, [_id(key) for key in keys]):
            reply = StoredReply(*row)  # type: ignore[arg-type]  # the checksum covers the types
            if reply.checksum == crc and reply.key in wanted:
                found[reply.key] = reply
        return found

    def put(self, replies: Sequence[StoredReply]) -> bool:
        """Store replies in one transaction, the oldest ones making room; False if that failed."""
        return self.add(
            f"INSERT OR REPLACE INTO replies (id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - our own names
            [(_id(reply.key), reply.checksum, *reply) for reply in replies],
        )

    def tally(self) -> list[Tally]:
        """Return what is stored, by rubric, version and model."""
        rows = self.read(
            "SELECT rubric, version, model, count(*), sum(length(payload)), min(created), "
            "max(created) FROM replies GROUP BY rubric, version, model ORDER BY 1, 2, 3"
        )
        return [Tally(*row) for row in rows]  # type: ignore[arg-type]  # as the query says

    def purge(self, selection: Selection) -> int | None:
        """Delete replies, overwriting them; return how many, None if the file can't be written."""
        given = selection.rubric, selection.version, selection.model
        deleted = 0

        def delete(db: sqlite3.Connection) -> None:
            nonlocal deleted
            db.execute("PRAGMA secure_delete = ON")
            deleted = db.execute(
                "DELETE FROM replies WHERE rubric = ifnull(?, rubric) "
                "AND version = ifnull(?, version) AND model = ifnull(?, model)",
                given,
            ).rowcount

        return deleted if self.write(delete) else None


def _id(key: bytes) -> int:
    """Return the id of a key's row: the first 8 bytes of the key, as a signed number."""
    return int.from_bytes(key[:8], "little", signed=True)


class KeptReplies:
    """The file off the event loop: one thread reads what is asked together, another one writes."""

    def __init__(self, file: ReplyFile, max_waiting_bytes: int = MAX_WAITING_BYTES) -> None:
        self._file = file
        self._waiting: dict[bytes, asyncio.Future[StoredReply | None]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="replies-read")
        self._late: Future[None] | None = None
        self._queue: WriteQueue[StoredReply] = WriteQueue(
            file.put, _size, file.transaction_bytes, "replies", max_waiting_bytes
        )

    async def get(self, key: bytes) -> StoredReply | None:
        """Return what is stored under a key."""
        if not self._file.on or self._queue.closed:
            return None
        if (future := self._waiting.get(key)) is None:
            future = self._waiting[key] = asyncio.get_running_loop().create_future()
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        return await asyncio.shield(future)  # whoever waits may leave

    async def put(self, reply: StoredReply, within_s: float) -> None:
        """Return once a reply is with the operating system, or was not written in time.

        While a write is late nobody waits for another: a disk that hangs delays few answers.
        """
        if not self._file.on or len(reply.payload) > MAX_PAYLOAD_BYTES:
            return
        written = self._queue.put([reply])
        is_late = self._late is not None and not self._late.done()
        if written is None or is_late or within_s <= 0:
            return
        await asyncio.wait([asyncio.wrap_future(written)], timeout=within_s)
        if not written.done() and (self._late is None or self._late.done()):
            logger.warning("replies are answered before they are stored: the disk is slow")
            self._late = written

    def close(self) -> None:
        """Write what waits, and close the file. Not for the event loop's thread."""
        self._queue.close()
        self._reader.shutdown(wait=True, cancel_futures=True)
        self._file.close()

    async def _read(self) -> None:
        """Answer all who wait, a batch after the other, until nobody does."""
        loop = asyncio.get_running_loop()
        # What is asked in this turn of the loop is read together.
        await asyncio.sleep(0)
        try:
            while self._waiting:
                keys = list(islice(self._waiting, READ_KEYS))
                waiting = {key: self._waiting.pop(key) for key in keys}
                found: Mapping[bytes, StoredReply] = {}
                try:
                    found = await loop.run_in_executor(self._reader, self._file.get, keys)
                except RuntimeError:  # closed in the meantime
                    found = {}
                finally:
                    for key, future in waiting.items():
                        future.set_result(found.get(key))
        finally:
            self._reading = None
            for future in self._waiting.values():
                future.set_result(None)
            self._waiting.clear()


def _size(reply: StoredReply) -> int:
    return len(reply.payload) + len(reply.rubric) + len(reply.model) + len(reply.key)
