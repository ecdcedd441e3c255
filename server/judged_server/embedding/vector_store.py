"""Vectors on disk: one SQLite file in write-ahead mode, shared by the processes of a machine.

Owns the file: its rows, its size, its damage. Every row carries a checksum over all of itself, and
what does not fit it is a miss. A file that SQLite can't read is moved aside, and a new one begun. A
full or read-only disk switches the store off for the rest of the process, with one line in the log.
Nothing here raises for what a disk can do. Leaves threads to `write_behind`.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from judged_server.embedding.vector_rows import VectorRows

FILE = "vectors-1.sqlite3"
"""The number is the format's: versions of judged that differ in it share the folder, not a file."""
DAMAGED = "damaged.sqlite3"

BUSY_S = 0.05
"""How long another process may hold the file before a look-up is a miss, or a row is not kept."""
MIN_FREE_BYTES = 1 << 30
"""Space on the disk that is left to others: with less than that nothing is written."""

_PAGE = 8192
_EVICT_FROM = 0.8
_HURRY_FROM = 0.87
_MOST_REBUILDS = 3
_TRANSACTION_SHARE = 64
_SIDE_FILES = ("", "-wal", "-shm")
_CREATE = """
CREATE TABLE IF NOT EXISTS vectors (
  n INTEGER PRIMARY KEY, id INTEGER NOT NULL UNIQUE, key BLOB NOT NULL,
  crc INTEGER NOT NULL, flags INTEGER NOT NULL, count INTEGER NOT NULL, data BLOB NOT NULL)
"""
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DISK = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
}

logger = logging.getLogger(__name__)


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


@dataclass(slots=True)
class _Link:
    connection: sqlite3.Connection
    inode: int


class VectorStore:
    """The file. One thread may read while another writes."""

    def __init__(self, folder: Path, max_bytes: int, min_free_bytes: int = MIN_FREE_BYTES) -> None:
        self._folder = folder
        self._path = folder / FILE
        self._max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes
        self._links: dict[str, _Link] = {}
        self._rebuilds = 0
        self._warned_of_space = False
        self.on = True
        """Whether it is in use; once False it stays so."""

    @property
    def transaction_bytes(self) -> int:
        """How much to hand to one `put` at most."""
        return self._max_bytes // _TRANSACTION_SHARE

    def get(self, keys: Sequence[bytes], dimensions: int) -> VectorRows:
        """Return what is stored under keys; text i is `keys[i]`."""
        rows: list[tuple[object, ...]] = []
        link = self._link("read")
        if link is not None:
            marks = ",".join("?" * len(keys))
            query = f"SELECT key, crc, flags, count, data FROM vectors WHERE id IN ({marks})"  # noqa: S608 - question marks only
            try:
                rows = link.connection.execute(query, [_id(key) for key in keys]).fetchall()
            except (sqlite3.Error, OverflowError, MemoryError) as error:
                self._failed("read", error)
        return _checked(keys, rows, dimensions)

    def put(self, entries: Sequence[StoredVectors]) -> bool:
        """Store entries in one transaction, the oldest ones making room; False if that failed."""
        link = self._link("write") if self._has_space() else None
        if link is None:
            return False
        db = link.connection
        try:
            db.execute("BEGIN IMMEDIATE")
            self._make_room(db, len(entries))
            db.executemany(
                "INSERT OR REPLACE INTO vectors (id, key, crc, flags, count, data) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                [(_id(e.key), e.key, e.checksum, e.flags, e.count, e.data) for e in entries],
            )
            db.execute("COMMIT")
        except (sqlite3.Error, OverflowError, MemoryError) as error:
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            self._failed("write", error)
            return False
        return True

    def close(self) -> None:
        """Close the file."""
        self.on = False
        for role in tuple(self._links):
            self._drop(role)

    def _make_room(self, db: sqlite3.Connection, coming: int) -> None:
        pages, free = (
            int(db.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count")
        )
        share = (pages - free) * _PAGE / self._max_bytes
        if share > _EVICT_FROM:
            some = coming * (16 if share > _HURRY_FROM else 2)
            db.execute(
                "DELETE FROM vectors WHERE n IN (SELECT n FROM vectors ORDER BY n LIMIT ?)", [some]
            )

    def _has_space(self) -> bool:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            free = shutil.disk_usage(self._folder).free
        except OSError as error:
            self._switch_off(error.strerror or "it can't be made")
            return False
        if free >= self._min_free_bytes:
            return True
        if not self._warned_of_space:
            self._warned_of_space = True
            logger.warning(
                "vectors are not stored in %s: %d MB are free there, and %d MB are left to others",
                self._folder, free >> 20, self._min_free_bytes >> 20,
            )  # fmt: skip
        return False

    def _link(self, role: str) -> _Link | None:
        """Return a connection to the file that is at its path now; None when there is none."""
        if not self.on:
            return None
        try:
            link = self._links.get(role)
            if link is not None:
                if self._path.stat().st_ino == link.inode:
                    return link
                self._drop(role)
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
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
        inode = self._path.stat().st_ino
        db = sqlite3.connect(
            self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            db.execute(f"PRAGMA page_size = {_PAGE}")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(f"PRAGMA wal_autocheckpoint = {max(16, self.transaction_bytes // _PAGE)}")
            db.execute(f"PRAGMA journal_size_limit = {2 * self.transaction_bytes}")
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
        """Move a damaged file away, unless another process has done so in the meantime."""
        self._rebuilds += 1
        try:
            if link is not None and self._path.stat().st_ino != link.inode:
                return
            for suffix in reversed(_SIDE_FILES):
                with suppress(FileNotFoundError):
                    Path(f"{self._path}{suffix}").replace(self._folder / f"{DAMAGED}{suffix}")
        except OSError as failure:
            self._switch_off(failure.strerror or str(failure))
            return
        logger.warning(
            "stored vectors in %s can't be read (%s); moved to %s, and begun anew",
            self._path, error, DAMAGED,
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
                "stored vectors in %s are not used any more: %s; texts are embedded anew "
                "(--vector-cache memory does without a file)",
                self._folder, why,
            )  # fmt: skip


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
