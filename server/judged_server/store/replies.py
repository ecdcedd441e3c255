"""Language models' replies on disk: the rows of one SQLite file.

Each row holds the whole key and a checksum over all of itself, and what does not fit it is a miss.
What a payload means is up to `llm`; what disks can do, to `sqlite_file`.
"""

from __future__ import annotations

import secrets
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from judged_server.store.sqlite_file import BUSY_S, MIN_FREE_BYTES, Kind, SqliteFile

FILE = "replies-1.sqlite3"
"""The number is the format's: versions of judged that differ in it share the folder, not a file."""

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
_COLUMNS = "key, crc, rubric, version, model, created, payload"
_BY_ID = f"SELECT {_COLUMNS} FROM replies WHERE id IN ({{ids}})"  # noqa: S608 - our own names

# All ids in one text: each row that SQLite hands over takes the interpreter's lock anew.
_IDS_ABOVE = """
SELECT group_concat(id) FROM (SELECT id FROM replies WHERE id > ? ORDER BY id LIMIT ?)
"""
_IDS_BEHIND = """
SELECT max(n), group_concat(id) FROM (SELECT n, id FROM replies WHERE n > ? ORDER BY n LIMIT ?)
"""


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
        """CRC-32 over all of it, each field behind its length."""
        checksum = 0
        for raw in (
            self.key,
            self.rubric.encode("utf-8", "surrogatepass"),
            self.version.to_bytes(8, "little", signed=True),
            self.model.encode("utf-8", "surrogatepass"),
            self.created.to_bytes(8, "little", signed=True),
            self.payload,
        ):
            checksum = zlib.crc32(raw, zlib.crc32(len(raw).to_bytes(8, "little"), checksum))
        return checksum

    @property
    def row(self) -> tuple[object, ...]:
        """Its row but for the number."""
        return (
            *(id_of(self.key), self.key, self.checksum, self.rubric, self.version, self.model),
            *(self.created, self.payload),
        )


@dataclass(frozen=True, slots=True)
class Selection:
    """Which replies: those that fit all that is given; None fits every one."""

    rubric: str | None = None
    version: int | None = None
    model: str | None = None

    def where(self) -> tuple[str, list[object]]:
        """Return the condition and its values."""
        given = {"rubric": self.rubric, "version": self.version, "model": self.model}
        wanted = {name: value for name, value in given.items() if value is not None}
        return " AND ".join(["1", *(f"{name} = ?" for name in wanted)]), list(wanted.values())


@dataclass(frozen=True, slots=True)
class Tally:
    """How many replies of a model to a rubric are stored, their bytes, and when they were given."""

    rubric: str
    version: int
    model: str
    replies: int
    payload_bytes: int
    oldest: int
    newest: int


class Mark(NamedTuple):
    """The newest row at some time: its number, never used again, in the file with that inode."""

    inode: int
    n: int


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
        found = {}
        for row in self.read_ids(_BY_ID, [id_of(key) for key in keys]):
            reply = _whole(row)
            if reply is not None and reply.key in wanted:
                found[reply.key] = reply
        return found

    def newest(self) -> Mark | None:
        """Return the newest row, numbered 0 where there is none; None when it can't be read."""
        for (n,) in self.read("SELECT max(n) FROM replies"):
            return Mark(self.inode, n if isinstance(n, int) else 0)
        return None

    def ids_above(self, least: float, most: int) -> Ids | None:
        """Return the ids of rows above one, the least first; None when the file can't be read."""
        rows = self.read(_IDS_ABOVE, (least, most))
        return _ids(rows[0][0]) if rows else None

    def ids_behind(self, mark: Mark, most: int) -> tuple[Ids, Mark] | None:
        """Return the ids of rows that came in after one, and the last of these rows.

        None when it can't be read, or was another file.
        """
        rows = self.read(_IDS_BEHIND, (mark.n, most))
        if not rows or self.inode != mark.inode:
            return None
        n, ids = rows[0]
        return _ids(ids), Mark(mark.inode, n) if isinstance(n, int) else mark

    def put(self, replies: Sequence[StoredReply]) -> bool:
        """Store replies in one transaction, the oldest ones making room; False if that failed."""
        return self.add(
            f"INSERT OR REPLACE INTO replies (id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - our own names
            [reply.row for reply in replies],
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
        where, values = selection.where()
        deleted = 0

        def delete(db: sqlite3.Connection) -> None:
            nonlocal deleted
            db.execute("PRAGMA secure_delete = ON")
            deleted = db.execute(f"DELETE FROM replies WHERE {where}", values).rowcount  # noqa: S608 - our own names

        return deleted if self.write(delete) else None


def id_of(key: bytes) -> int:
    """Return the id of a key's row: the first 8 bytes of the key, as a signed number."""
    return int.from_bytes(key[:8], "little", signed=True)


def _ids(joined: object) -> Ids:
    if not isinstance(joined, str):
        return np.empty(0, np.int64)
    return np.fromstring(joined, np.int64, sep=",")


def _whole(row: Sequence[object]) -> StoredReply | None:
    """Return a row as it was put; None when it is not."""
    key, crc, rubric, version, model, created, payload = row
    if not (isinstance(key, bytes) and isinstance(payload, bytes)):
        return None
    if not (isinstance(rubric, str) and isinstance(model, str)):
        return None
    if not (isinstance(version, int) and isinstance(created, int)):
        return None
    reply = StoredReply(key, rubric, version, model, created, payload)
    return reply if reply.checksum == crc else None


Ids = NDArray[np.int64]


class IdFilter:
    """Ids of 64 bits, signed. For one thread."""

    def __init__(self, size_bytes: int) -> None:
        """Hold no id; `size_bytes`, a power of two, is all the memory that this ever takes."""
        self._bits = np.zeros(size_bytes, np.uint8)
        self._bytes = self._bits.data
        self._last = 8 * size_bytes - 1
        self.added = 0
        """How many ids were added, each as often as it was."""

    @property
    def size_bits(self) -> int:
        """The number of bits."""
        return self._last + 1

    def __contains__(self, number: int) -> bool:
        place = number & self._last
        return bool(self._bytes[place >> 3] >> (place & 7) & 1)

    def add(self, number: int) -> None:
        """Add an id."""
        place = number & self._last
        self._bytes[place >> 3] |= 1 << (place & 7)
        self.added += 1

    def add_all(self, numbers: Ids) -> None:
        """Add ids."""
        places = numbers & self._last
        np.bitwise_or.at(self._bits, places >> 3, (1 << (places & 7)).astype(np.uint8))
        self.added += len(numbers)

    def clear(self) -> None:
        """Hold no id again."""
        self._bits[:] = 0
        self.added = 0


PURGE_FILE = "purged"


class CacheInvalidation:
    """The file in a folder of stored replies, and what it was when this process looked last."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / PURGE_FILE
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
