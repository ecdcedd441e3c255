"""What the files of SQLite have in common here."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def make_private(path: Path) -> None:
    """Make an empty file of its owner's alone, unless there is one. Raises OSError.

    No other thread may open it before this returns.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def connect(path: Path, busy_s: float, page_size: int = 4096) -> sqlite3.Connection:
    """Return a connection to a file in write-ahead mode. Raises sqlite3.Error.

    Others may keep the file to themselves for `busy_s` seconds.
    """
    db = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        db.execute(f"PRAGMA page_size = {page_size}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        db.close()
        raise
    return db


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Do all of a `with`, or nothing of it where it raises."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise
