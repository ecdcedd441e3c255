"""One SQLite file in write-ahead mode, shared by the processes of a machine.

A file that SQLite can't read is moved aside, and a new one begun. A full or read-only disk switches
the file off for the rest of the process, with one line in the log. Nothing here raises for what a
disk can do.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

DAMAGED = "damaged.sqlite3"
SIDE_FILES = ("", "-wal", "-shm")
"""Ends of the names of the files that one of SQLite consists of."""

BUSY_S = 0.05
"""How long another process may hold the file before a look-up is a miss, or a row is not kept."""
MIN_FREE_BYTES = 1 << 30
"""Space on the disk that is left to others: with less than that nothing is written."""

_PAGE = 8192
_EVICT_FROM = 0.8
_HURRY_FROM = 0.87
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

_OPENING = threading.Lock()

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a file holds: its name, its table and how that is made, and its words for the log.

    Rows of the table are numbered by `n` in their order of arrival. `what` is a plural, `instead`
    says what is done without the file.
    """

    name: str
    table: str
    create: str
    what: str
    instead: str


@dataclass(slots=True)
class _Link:
    connection: sqlite3.Connection
    inode: int


class SqliteFile:
    """The file, for those who say what its rows are. One thread may read while another writes."""

    def __init__(
        self,
        folder: Path,
        kind: Kind,
        max_bytes: int,
        min_free_bytes: int = MIN_FREE_BYTES,
        busy_s: float = BUSY_S,
    ) -> None:
        self._folder = folder
        self._kind = kind
        self._path = folder / kind.name
        self.max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes
        self._busy_s = busy_s
        self._links: dict[str, _Link] = {}
        self._rebuilds = 0
        self._warned_of_space = False
        self.on = True
        """Whether it is in use; once False it stays so."""

    @property
    def transaction_bytes(self) -> int:
        """How much to write at once at most."""
        return self.max_bytes // _TRANSACTION_SHARE

    def read(self, query: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """Return the rows of a query; none when the file can't be read."""
        link = self._link("read")
        if link is not None:
            try:
                return link.connection.execute(query, values).fetchall()
            except (sqlite3.Error, OverflowError, MemoryError) as error:
                self._failed("read", error)
        return []

    def read_ids(self, query: str, ids: Sequence[int]) -> list[tuple[object, ...]]:
        """Return the rows of a query with ids where it says {ids}; none when it can't be read."""
        # One statement for any number of ids: a connection keeps its last 128, prepared.
        return self.read(query.format(ids="SELECT value FROM json_each(?)"), [json.dumps(ids)])

    def add(self, statement: str, rows: Sequence[Sequence[object]]) -> bool:
        """Store rows in one transaction, the oldest ones making room; False if that failed."""
        if not self._has_space():
            return False

        def add(db: sqlite3.Connection) -> None:
            self._make_room(db, len(rows))
            db.executemany(statement, rows)

        return self.write(add)

    def write(self, change: Callable[[sqlite3.Connection], object]) -> bool:
        """Change the file in one transaction; False if that failed."""
        link = self._link("write")
        if link is None:
            return False
        db = link.connection
        try:
            db.execute("BEGIN IMMEDIATE")
            change(db)
            db.execute("COMMIT")
        except (sqlite3.Error, OverflowError, MemoryError) as error:
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            self._failed("write", error)
            return False
        except BaseException:
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            raise
        return True

    def close(self) -> None:
        """Close the file."""
        self.on = False
        for role in tuple(self._links):
            self._drop(role)

    def _make_room(self, db: sqlite3.Connection, coming: int) -> None:
        table = self._kind.table
        for _ in range(_MOST_EVICTIONS):
            share = self._share(db)
            if share <= _EVICT_FROM:
                return
            some = coming * (16 if share > _HURRY_FROM else 2)
            db.execute(
                f"DELETE FROM {table} WHERE n IN (SELECT n FROM {table} ORDER BY n LIMIT ?)",  # noqa: S608 - a name of ours
                [some],
            )

    def _share(self, db: sqlite3.Connection) -> float:
        """Return how much of the space it may take is taken."""
        pages, free = (
            int(db.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count")
        )
        return (pages - free) * _PAGE / self.max_bytes

    def _has_space(self) -> bool:
        if not self.on:
            return False
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
                "%s are not stored in %s: %d MB are free there, and %d MB are left to others",
                self._kind.what, self._folder, free >> 20, self._min_free_bytes >> 20,
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
            with _OPENING:
                make_private(self._path)
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
            self._path, timeout=self._busy_s, isolation_level=None, check_same_thread=False
        )
        try:
            db.execute(f"PRAGMA page_size = {_PAGE}")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(f"PRAGMA wal_autocheckpoint = {max(16, self.transaction_bytes // _PAGE)}")
            db.execute(f"PRAGMA journal_size_limit = {2 * self.transaction_bytes}")
            db.execute(f"PRAGMA max_page_count = {self.max_bytes // _PAGE}")
            if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                db.execute(self._kind.create)
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
            for suffix in reversed(SIDE_FILES):
                with suppress(FileNotFoundError):
                    Path(f"{self._path}{suffix}").replace(self._folder / f"{DAMAGED}{suffix}")
        except OSError as failure:
            self._switch_off(failure.strerror or str(failure))
            return
        logger.warning(
            "stored %s in %s can't be read (%s); moved to %s, and begun anew",
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
                "stored %s in %s are not used any more: %s; %s",
                self._kind.what, self._folder, why, self._kind.instead,
            )  # fmt: skip


def make_private(path: Path) -> None:
    """Make an empty file, unless there is one. Raises OSError.

    No other thread may open it before this returns.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
