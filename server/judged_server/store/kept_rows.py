"""A cache of rows in a SQLite file: replies of language models, or vectors of texts.

The processes of a machine share the file, which is in write-ahead mode. One thread reads, another
writes the queued rows. Each row stores its whole key and a checksum over the row; a row that does
not match them is a miss.

A file that SQLite can't read is moved aside and replaced by a new one. A full or read-only disk
switches the file off for the rest of the process, with one line in the log. Disk failures never
raise. Queued rows are written when the file is closed, and lost when the process is killed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from judged_server.scheduling.fairness import settle

DAMAGED = "damaged.sqlite3"
SIDE_FILES = ("", "-wal", "-shm")
"""Suffixes of the files that make up one SQLite database."""
BUSY_S = 0.05
"""How long to wait for another process's lock before a read is a miss, or a write is dropped."""
READ_KEYS = 500
"""Most keys of one query, which takes about 5 ms; other calls are served between queries."""
MAX_WAITING_BYTES = 8 << 20
LINGER_S = 0.25
"""How long a row waits for more rows to share its transaction."""
HURRIED_LINGER_S = 0.003
"""The same while a caller waits for the write."""

DAY_S = 86_400
"""Rows dated further ahead are ignored: written under a wrong clock, they would hardly expire."""

_PAGE = 8192
_EVICT_FROM, _HURRY_FROM = 0.8, 0.87
_MOST_EVICTIONS = 64
_MOST_REBUILDS = 3
_TRANSACTION_SHARE = 64
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DISK = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
}
# `n` numbers the rows in the order of their insertion, for eviction.
_CREATE = """
CREATE TABLE IF NOT EXISTS kept (
  n INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL UNIQUE, crc INTEGER NOT NULL,
  key BLOB NOT NULL, payload BLOB NOT NULL, created INTEGER NOT NULL)
"""
_COLUMNS = "crc, key, payload, created"
# One statement for any number of ids, so that it stays in the cache of 128 prepared statements.
_BY_ID = f"SELECT {_COLUMNS} FROM kept WHERE id IN (SELECT value FROM json_each(?))"  # noqa: S608
_ADD = f"INSERT OR REPLACE INTO kept (id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?)"  # noqa: S608
_EVICT = "DELETE FROM kept WHERE n IN (SELECT n FROM kept ORDER BY n LIMIT ?)"
_OPENING = threading.Lock()
Result = TypeVar("Result")
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file: its name, and for the log its contents and what happens without the file.

    The number in the name is the format version. Versions of judged with different formats can
    share a folder: they use different files.
    """

    name: str
    what: str
    instead: str


REPLIES = Kind(
    "replies-3.sqlite3",
    "replies",
    "models are asked again (use --llm-cache memory to run without a file)",
)
VECTORS = Kind(
    "vectors-3.sqlite3",
    "vectors",
    "texts are embedded again (use --vector-cache memory to run without a file)",
)


class Row(NamedTuple):
    """A stored payload and its key; a reply also has its time, in whole seconds since 1970."""

    key: bytes
    payload: bytes
    created: int = 0

    @property
    def checksum(self) -> int:
        """CRC-32 over all fields and their types."""
        return zlib.crc32(self.payload, zlib.crc32(ascii((self.key, self.created)).encode()))


class StoreAway(Exception):
    """The shared store can't be reached, or does not answer in time."""


@dataclass(slots=True)
class _Link:
    connection: sqlite3.Connection
    inode: int


class KeptRows:
    """One file. Don't call `read`, `write` or `close` on the event loop: they block."""

    def __init__(
        self,
        folder: Path,
        kind: Kind,
        max_bytes: int,
        busy_s: float = BUSY_S,
    ) -> None:
        self._folder = folder
        self._kind = kind
        self._path = folder / kind.name
        self._max_bytes = max_bytes
        self._transaction_bytes = max_bytes // _TRANSACTION_SHARE
        self._busy_s = busy_s
        self._links: dict[str, _Link] = {}
        self._rebuilds = 0
        self.on = True
        """Whether the file is in use; once False it stays False."""
        self._lock = threading.Lock()
        self._asked: deque[tuple[Sequence[bytes], asyncio.Future[dict[bytes, Row]]]] = deque()
        self._waiting: list[Row] = []
        self._waiting_bytes = 0
        self._next_write: Future[None] | None = None
        self._hurried = threading.Event()
        self._reader = ThreadPoolExecutor(1, thread_name_prefix=f"{kind.what}-read")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix=f"{kind.what}-write")
        self._closed = False

    @property
    def is_away(self) -> bool:
        """Whether a shared store is unreachable: never, this is a file."""
        return False

    async def claim(self, key: bytes, within_s: float) -> Row | None:  # noqa: ARG002 - see PostgresRows
        """Return None: a file has no claims, so the caller may ask the model."""
        return None

    def release(self, key: bytes) -> None:
        """Do nothing: a file has no claims."""

    async def get(self, keys: Sequence[bytes]) -> dict[bytes, Row]:
        """Return the stored rows of keys, by key."""
        found: dict[bytes, Row] = {}
        for start in range(0, len(keys), READ_KEYS):
            if not self.on or self._closed:
                break
            future = asyncio.get_running_loop().create_future()
            self._asked.append((keys[start : start + READ_KEYS], future))
            try:
                self._reader.submit(self._answer)
            except RuntimeError:  # closed in the meantime
                break
            found |= await future
        return found

    def put(self, rows: Sequence[Row]) -> Future[None] | None:
        """Queue rows to be written; return None when they are dropped.

        The future is done once the rows were written or the write failed.
        """
        size = sum(map(_size, rows))
        with self._lock:
            if not self.on or self._closed or self._waiting_bytes + size > MAX_WAITING_BYTES:
                return None
            self._waiting += rows
            self._waiting_bytes += size
            if self._next_write is None:
                self._next_write = self._writer.submit(self._write_waiting)
            return self._next_write

    async def keep(self, row: Row, within_s: float) -> None:
        """Write a row; return once the operating system has it, or the time is over."""
        written = self.put([row])
        if within_s > 0:
            self._hurried.set()
        if written is not None and within_s > 0:
            await asyncio.wait([asyncio.wrap_future(written)], timeout=within_s)

    def close(self) -> None:
        """Write the queued rows, and close the file."""
        with self._lock:
            self._closed = True
        self._hurried.set()
        self._writer.shutdown()
        self._reader.shutdown()
        self.on = False
        for role in tuple(self._links):
            self._drop(role)

    def read(self, keys: Iterable[bytes]) -> dict[bytes, Row]:
        """Return the stored rows of keys that match their checksum, by key."""
        wanted = set(keys)
        ids = json.dumps([_id(key) for key in wanted])
        found: dict[bytes, Row] = {}
        for crc, *values in self._rows(_BY_ID, [ids]):
            row = Row(*values)
            with suppress(TypeError):  # a payload that is not bytes
                if row.checksum == crc and row.key in wanted:
                    found[row.key] = row
        return found

    def write(self, rows: Sequence[Row]) -> bool:
        """Store rows in one transaction that evicts the oldest if need be; False if it failed."""

        def add(db: sqlite3.Connection) -> bool:
            self._make_room(db, len(rows))
            db.executemany(_ADD, [(_id(row.key), row.checksum, *row) for row in rows])
            return True

        return bool(self.change(add))

    def count(self) -> tuple[int, int]:
        """Return the number of rows, and the bytes of their payloads."""
        found = self._rows("SELECT count(*), ifnull(sum(length(payload)), 0) FROM kept")
        return found[0] if found else (0, 0)

    def purge(self) -> int | None:
        """Delete and overwrite all rows; return their number, None if that failed."""

        def delete(db: sqlite3.Connection) -> int:
            db.execute("PRAGMA secure_delete = ON")
            return db.execute("DELETE FROM kept").rowcount

        return self.change(delete)

    def change(self, change: Callable[[sqlite3.Connection], Result]) -> Result | None:
        """Run `change` in one transaction; return its result, None if it failed."""

        def transact(db: sqlite3.Connection) -> Result:
            with transaction(db):
                return change(db)

        return self._use("write", transact)

    def _answer(self) -> None:
        """Answer all queued reads, with one query for up to READ_KEYS keys."""
        while self._asked:
            asked = []
            keys: set[bytes] = set()
            with suppress(IndexError):
                while len(keys) < READ_KEYS:
                    asked.append(self._asked.popleft())
                    keys.update(asked[-1][0])
            found: dict[bytes, Row] = {}
            try:
                found = self.read(keys)
            finally:
                for wanted, future in asked:
                    rows = {key: found[key] for key in wanted if key in found}
                    settle(future, rows, None)

    def _write_waiting(self) -> None:
        if self._hurried.wait(LINGER_S):
            time.sleep(HURRIED_LINGER_S)
        self._hurried.clear()
        with self._lock:
            waiting, self._waiting, self._next_write = self._waiting, [], None
        while waiting:
            size = count = 0
            while count < len(waiting) and (
                not count or size + _size(waiting[count]) <= self._transaction_bytes
            ):
                size += _size(waiting[count])
                count += 1
            try:
                self.write(waiting[:count])
            except Exception:
                logger.exception("%d %s were not stored", count, self._kind.what)
            del waiting[:count]
            with self._lock:
                self._waiting_bytes -= size

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self._use("read", lambda db: db.execute(query, values).fetchall()) or []

    def _use(self, role: str, work: Callable[[sqlite3.Connection], Result]) -> Result | None:
        """Return the result of `work` on the file, None when the file can't be used."""
        link = self._link(role)
        if link is None:
            return None
        try:
            return work(link.connection)
        except (sqlite3.Error, OverflowError, MemoryError) as error:
            self._failed(role, error)
            return None

    def _make_room(self, db: sqlite3.Connection, coming: int) -> None:
        for _ in range(_MOST_EVICTIONS):
            pages, free = (
                int(db.execute(f"PRAGMA {name}").fetchone()[0])
                for name in ("page_count", "freelist_count")
            )
            share = (pages - free) * _PAGE / self._max_bytes
            if share <= _EVICT_FROM:
                return
            db.execute(_EVICT, [coming * (16 if share > _HURRY_FROM else 2)])

    def _link(self, role: str) -> _Link | None:
        """Return a connection to the file now at the path, None if it can't be opened."""
        if not self.on:
            return None
        try:
            link = self._links.get(role)
            if link is not None:
                if self._path.stat().st_ino == link.inode:
                    return link
                self._drop(role)
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _OPENING:
                self._links[role] = link = self._connect()
        except OSError as error:
            self._drop(role)
            if not isinstance(error, FileNotFoundError):
                self._switch_off(error.strerror or str(error))
        except sqlite3.Error as error:
            self._failed(role, error)
        else:
            return link
        return None

    def _connect(self) -> _Link:
        make_private(self._path)
        inode = self._path.stat().st_ino
        db = connect(self._path, self._busy_s)
        try:
            db.execute(f"PRAGMA wal_autocheckpoint = {max(16, self._transaction_bytes // _PAGE)}")
            db.execute(f"PRAGMA journal_size_limit = {2 * self._transaction_bytes}")
            db.execute(f"PRAGMA max_page_count = {self._max_bytes // _PAGE}")
            if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                db.execute(_CREATE)
        except BaseException:
            db.close()
            raise
        return _Link(db, inode)

    def _failed(self, role: str, error: Exception) -> None:
        code = getattr(error, "sqlite_errorcode", None)
        plain = None if code is None else code & 0xFF
        if plain in _BUSY:
            return
        link = self._links.get(role)
        self._drop(role)
        if plain in _DISK and code != sqlite3.SQLITE_IOERR_SHORT_READ:
            self._switch_off(str(error))
        elif self._rebuilds >= _MOST_REBUILDS:
            self._switch_off(f"it was damaged again ({error})")
        else:
            self._move_aside(link, error)

    def _move_aside(self, link: _Link | None, error: Exception) -> None:
        """Move a damaged file aside, unless another process has already replaced it."""
        self._rebuilds += 1
        try:
            if link is not None and self._path.stat().st_ino != link.inode:
                return
            for suffix in reversed(SIDE_FILES):
                with suppress(FileNotFoundError):
                    Path(f"{self._path}{suffix}").replace(self._folder / f"{DAMAGED}{suffix}")
        except OSError as failure:
            self._switch_off(failure.strerror or str(failure))
            return
        logger.warning(
            "stored %s in %s can't be read (%s); moved to %s; a new file is used",
            self._kind.what, self._path, error, DAMAGED,
        )  # fmt: skip

    def _drop(self, role: str) -> None:
        link = self._links.pop(role, None)
        if link is not None:
            with suppress(sqlite3.Error):
                link.connection.close()

    def _switch_off(self, why: str) -> None:
        if self.on:
            self.on = False
            logger.warning(
                "stored %s in %s are no longer used: %s; %s",
                self._kind.what, self._folder, why, self._kind.instead,
            )  # fmt: skip


def _id(key: bytes) -> int:
    """Return the first 8 bytes of a key as a signed integer."""
    return int.from_bytes(key[:8], "little", signed=True)


def _size(row: Row) -> int:
    return len(row.payload) + len(row.key)


def make_private(path: Path) -> None:
    """Create an empty file that only its owner can read, unless it exists. Raises OSError.

    No other thread may open the file before this returns.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def connect(path: Path, busy_s: float) -> sqlite3.Connection:
    """Return a connection to a file in write-ahead mode. Raises sqlite3.Error.

    It waits up to `busy_s` seconds for another connection's lock.
    """
    db = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        db.execute(f"PRAGMA page_size = {_PAGE}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        db.close()
        raise
    return db


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Run a `with` block in a transaction; roll back if it raises."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise
