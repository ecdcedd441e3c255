"""The ids in a file, each with where it stands, for files of any size."""

from __future__ import annotations

import sqlite3
import threading

_CACHE_KIB = 16 << 10
"""What is held in memory; the rest lies in a temporary file, which goes with the index."""


class IdIndex:
    """Ids, each with a place and a size. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # A database without a name is a temporary file, written once the cache is full.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for pragma in (f"cache_size = -{_CACHE_KIB}", "journal_mode = OFF", "synchronous = OFF"):
            self._database.execute(f"PRAGMA {pragma}")
        self._database.execute(
            "CREATE TABLE ids (name TEXT PRIMARY KEY, place INTEGER, size INTEGER) WITHOUT ROWID"
        )
        self._database.execute("BEGIN")
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, name: str, place: int, size: int = 0) -> bool:
        """Keep an id; say whether it is new. One that is there already stays as it is."""
        with self._lock:
            row = (name, place, size)
            added = self._database.execute("INSERT OR IGNORE INTO ids VALUES (?, ?, ?)", row)
        self._count += added.rowcount
        return bool(added.rowcount)

    def find(self, name: str) -> tuple[int, int] | None:
        """Return the place and the size of an id, None for one that is not there."""
        with self._lock:
            found = self._database.execute("SELECT place, size FROM ids WHERE name = ?", (name,))
            row: tuple[int, int] | None = found.fetchone()
        return row

    def at(self, place: int) -> str | None:
        """Return an id at a place, None where there is none."""
        with self._lock:
            found = self._database.execute("SELECT name FROM ids WHERE place = ?", (place,))
            row: tuple[str] | None = found.fetchone()
        return None if row is None else row[0]

    def first_outside(self, other: IdIndex) -> str | None:
        """Return the id with the lowest place that another index lacks."""
        with self._lock:
            every = self._database.execute("SELECT place, name FROM ids")
            missing = ((place, name) for place, name in every if other.find(name) is None)
            return min(missing, default=(0, None))[1]
