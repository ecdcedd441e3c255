"""Replies of language models in a PostgreSQL database that servers share, and who asks for which.

Where a reply is missing, one server claims it: a claim is the reply's own row without a payload.
Others follow it, looking every FOLLOW_S, until the reply is there or the claim has ended: it was
released, or its process is gone. Each process has a lease, by the database's clock, which it renews
as long as it runs.

Two threads have a connection each: one reads and writes replies, the other one has to do with
claims. What waits is done together, by statements that take their rows in the order of the keys, so
that no two servers wait for each other.

A connection that was cut is opened anew, and what it did is done again, before anybody is told.
While the database is away nothing waits for it but replies that came.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict

from judged_server.settings import SettingsError
from judged_server.store.kept_rows import DAY_S, MAX_WAITING_BYTES, Row, StoreAway
from judged_server.store.ledger import TABLES
from judged_server.telemetry import Logger

LEASE_S = 6.0
"""How long the claims of a process count that does not renew its lease."""
RENEW_S = 2.0
FOLLOW_S = 0.1
PATIENCE_S = 2.0
"""How long the database may stand still until it is away."""
AGAIN_S = 0.5
"""How long after a failure a connection is tried again."""
LEAVING_S = 5.0
"""How long a process that ends waits for the database."""

_LOOK_S = 0.5
_BATCH = 500
"""Keys or rows of one statement."""
_STATEMENT_S = 5.0
_SCHEMA_LOCK = 0x6A756467
_SCHEMA = """
CREATE TABLE IF NOT EXISTS judged_replies_1 (
  key bytea PRIMARY KEY, crc bigint NOT NULL, payload bytea NOT NULL, rubric text NOT NULL,
  version bigint NOT NULL, model text NOT NULL, created bigint NOT NULL, process uuid);
CREATE TABLE IF NOT EXISTS judged_processes_1 (
  process uuid PRIMARY KEY, until timestamptz NOT NULL);
CREATE OR REPLACE FUNCTION judged_runs_1(uuid) RETURNS boolean LANGUAGE sql VOLATILE AS
  'SELECT EXISTS (SELECT FROM judged_processes_1 WHERE process = $1 AND until > clock_timestamp())';
CREATE OR REPLACE FUNCTION judged_now_1() RETURNS float8 LANGUAGE sql VOLATILE AS
  'SELECT extract(epoch FROM clock_timestamp())::float8';
CREATE TABLE IF NOT EXISTS judged_writers_1 (process text PRIMARY KEY, last bigint NOT NULL);
"""
_LAST_TABLE = "judged_used_1"
# A function, since it sees what has been committed when it is called: a statement that waited for
# another process's claim would not see the lease that came with it.
_READ = """
SELECT crc, key, payload, rubric, version, model, created FROM judged_replies_1
WHERE key = ANY(%b::bytea[]) AND (payload <> '' OR judged_runs_1(process))
"""
_PUT = """
INSERT INTO judged_replies_1 SELECT * FROM unnest(%b::bytea[], %b::bigint[], %b::bytea[],
  %b::text[], %b::bigint[], %b::text[], %b::bigint[]) ORDER BY 1
ON CONFLICT (key) DO UPDATE SET crc = EXCLUDED.crc, payload = EXCLUDED.payload,
  rubric = EXCLUDED.rubric, version = EXCLUDED.version, model = EXCLUDED.model,
  created = EXCLUDED.created, process = NULL
"""
_RENEW = """
INSERT INTO judged_processes_1 VALUES (%s, clock_timestamp() + make_interval(secs => %s))
ON CONFLICT (process) DO UPDATE SET until = EXCLUDED.until
"""
_CLAIM = f"""
WITH lease AS ({_RENEW}) INSERT INTO judged_replies_1 AS r
SELECT key, 0, ''::bytea, '', 0, '', 0, %s::uuid FROM unnest(%b::bytea[]) AS key ORDER BY 1
ON CONFLICT (key) DO UPDATE SET crc = 0, payload = '', created = 0, process = EXCLUDED.process
WHERE CASE WHEN r.payload = '' THEN NOT judged_runs_1(r.process)
  ELSE r.created <= %s::float8 OR r.created >= %s::float8 END
RETURNING r.key
"""  # noqa: S608 - as above
_RELEASE = """
DELETE FROM judged_replies_1 WHERE key IN (
  SELECT key FROM judged_replies_1 WHERE key = ANY(%b::bytea[]) AND process = %s AND payload = ''
  ORDER BY key FOR UPDATE)
"""
_LEAVE = """
DELETE FROM judged_processes_1
WHERE process = %s OR until < clock_timestamp() - interval '1 day'
"""
_COUNT = """
SELECT count(*), coalesce(sum(octet_length(payload)), 0)::bigint FROM judged_replies_1
WHERE payload <> ''
"""
_PURGE = """
WITH gone AS (DELETE FROM judged_replies_1 WHERE payload <> '' RETURNING octet_length(payload) AS n)
SELECT count(*), coalesce(sum(n), 0)::bigint FROM gone
"""

_log = Logger("store")


def connect(url: str, *, durable: bool = True) -> Connection:
    """Return a connection to a database that has the tables, or gets them.

    What it writes is on disk before anybody is told, unless not `durable`. Raises psycopg.Error.
    """
    own = {
        "connect_timeout": 2,  # the least there is
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 2,
        "tcp_user_timeout": 5000,
        "application_name": "judged",
        "target_session_attrs": "read-write",
    } | conninfo_to_dict(url)
    options = f"-c statement_timeout={_STATEMENT_S:g}s -c synchronous_commit="
    own["options"] = f"{own.get('options', '')} {options}{'on' if durable else 'off'}".strip()
    # Planned anew each time: the plan for a table that has just been made reads all of it.
    db: Connection = psycopg.connect(**own, autocommit=True, prepare_threshold=None)
    try:
        # First whether it is there: a role that may use tables need not be one that makes them.
        if db.execute("SELECT to_regclass(%s)", [_LAST_TABLE]).fetchone() == (None,):
            with db.transaction():
                db.execute("SELECT pg_advisory_xact_lock(%s)", [_SCHEMA_LOCK])
                db.execute(_SCHEMA)
                db.execute(TABLES)
    except BaseException:
        db.close()
        raise
    return db


def check_url(url: str) -> None:
    """Raise SettingsError for what is no address of a database; the message shows none of it."""
    try:
        conninfo_to_dict(url)
    except psycopg.Error:
        raise SettingsError(
            "store: it can't be read as postgresql://USER:PASSWORD@HOST:PORT/DATABASE; write "
            "special characters of the password as %XX, or leave it to a file, as PGPASSFILE says"
        ) from None


@contextmanager
def command_connection(url: str) -> Iterator[Connection]:
    """Lend a command a connection, for as long as it takes. Raises SettingsError."""
    check_url(url)
    try:
        with connect(url) as db:
            db.execute("SET statement_timeout = 0")
            yield db
    except psycopg.Error as error:
        raise SettingsError(f"store: {str(error).strip()}; try again") from None


def stored_replies(url: str, *, purge: bool) -> tuple[int, int]:
    """Return how many replies are stored, and their bytes; delete them to `purge`.

    Raises SettingsError.
    """
    with command_connection(url) as db:
        count, size = db.execute(_PURGE if purge else _COUNT).fetchall()[0]
    return count, size


class Asked(NamedTuple):
    """What somebody waits for, in words of the work that it is for."""

    what: Any
    future: asyncio.Future[Any]


class Worker(threading.Thread):
    """A thread with a connection, by which `work` does what is asked, and `tell`s what came of it.

    It is called with what was asked, and again with the same if it failed, but for what it took off
    the list. It returns after how many seconds it has to be called again even so, None for never.
    """

    def __init__(
        self,
        name: str,
        url: str,
        work: Callable[[Connection, list[Asked]], float | None],
        *,
        durable: bool = True,
    ) -> None:
        """Raise SettingsError for a bad address; a database that is away is waited for."""
        check_url(url)
        super().__init__(name=name, daemon=True)
        self._url, self._work, self._durable = url, work, durable
        self._db: Connection | None = None
        self._asked: deque[Asked] = deque()
        self._batch: list[Asked] = []
        self._woken = threading.Event()
        self.is_closing = self._is_told = False
        self._failures = 0
        self._began: float | None = None

    @property
    def is_away(self) -> bool:
        """Whether there is no connection, or the database does not answer."""
        began = self._began
        stands = began is not None and time.monotonic() - began > PATIENCE_S
        return stands or self._failures > 1 or not self.is_alive()

    def wake(self) -> None:
        """Let it call `work`."""
        self._woken.set()

    async def ask(self, what: object) -> Any:  # noqa: ANN401
        """Return the answer to what is asked. Raises StoreAway where there is none."""
        if self.is_away:
            raise StoreAway
        future = asyncio.get_running_loop().create_future()
        self._asked.append(Asked(what, future))
        self._woken.set()
        try:
            while not future.done():
                if self.is_away:
                    self._tell("it does not answer")
                    raise StoreAway
                await asyncio.wait({future}, timeout=_LOOK_S)
            return future.result()
        finally:
            future.cancel()

    def close(self) -> None:
        """End it once it has done what waits, or can't."""
        self.is_closing = True
        self._woken.set()
        self.join(LEAVING_S)

    def run(self) -> None:
        """Work until it is closed."""
        while True:
            self._woken.clear()
            is_closing, self._began = self.is_closing, time.monotonic()
            pause = self._turn()
            self._began = None
            if is_closing and (pause is None or self._failures > 1):
                break
            if self._failures > 1:
                time.sleep(AGAIN_S)  # whoever comes in the meantime is told at once
            elif not self._asked:
                self._woken.wait(pause)
        if self._db is not None:
            self._db.close()

    def _turn(self) -> float | None:
        while self._asked and len(self._batch) < _BATCH:
            self._batch.append(self._asked.popleft())
        self._batch = [each for each in self._batch if not each.future.done()]
        try:
            self._db = self._db or connect(self._url, durable=self._durable)
            pause = self._work(self._db, self._batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
            if self._db is not None:
                self._db.close()
            self._db = None
            self._failures += 1
            if not isinstance(error, psycopg.Error):
                _log.exception("store failed", connection=self.name)
            if self._failures > 1:  # a connection that was cut says nothing of the database
                self._tell(str(error).partition("\n")[0] or type(error).__name__)
            return 0.0
        self._batch, self._failures = [], 0
        if self._is_told:
            self._is_told = False
            _log.info("store reachable again", connection=self.name)
        return pause

    def _tell(self, reason: str) -> None:
        """Write one line in the log until the database is back."""
        if not self._is_told:
            self._is_told = True
            _log.warning("store unreachable", connection=self.name, reason=reason)


@dataclass(slots=True)
class _Claim:
    key: bytes
    is_granted: bool = False


class PostgresRows:
    """The database as one process sees it. `close` is not for the event loop's thread."""

    def __init__(self, url: str, ttl_s: float) -> None:
        """Let rows count for `ttl_s` seconds from when they were created.

        A database that is away is waited for. Raises SettingsError for a bad address.
        """
        self._process = uuid.uuid4()
        self._ttl_s = ttl_s
        self._lock = threading.Lock()
        self._puts: dict[bytes, tuple[Row, asyncio.Future[None]]] = {}
        self._released: deque[bytes] = deque()
        self._doubtful: set[bytes] = set()
        """Keys that may be claimed without anybody's knowledge, or are to be released."""
        self._followed: dict[bytes, list[Asked]] = {}
        self._renewed = self._looked = -LEASE_S
        self._moving = Worker("replies", url, self._move)
        self._claiming = Worker("claims", url, self._settle, durable=False)
        self._moving.start()
        self._claiming.start()

    @property
    def is_away(self) -> bool:
        """Whether the database can't be used now."""
        return self._moving.is_away or self._claiming.is_away

    async def get(self, keys: Sequence[bytes]) -> dict[bytes, Row]:
        """Return the whole rows that are stored under keys; none while the database is away."""
        found: dict[bytes, Row] = {}
        if not self.is_away:
            with suppress(StoreAway):
                found = await self._moving.ask(keys)
        return found

    async def keep(self, row: Row, within_s: float) -> None:
        """Return once a row is in the database, or was not in time.

        Rows wait for a database that is away, up to MAX_WAITING_BYTES of them.
        """
        written = asyncio.get_running_loop().create_future()
        with self._lock:
            waiting = sum(len(other.payload) for other, _ in self._puts.values())
            if waiting + len(row.payload) > MAX_WAITING_BYTES:
                self.release(row.key)
                return
            self._puts[row.key] = row, written
        self._moving.wake()
        if within_s > 0 and not self.is_away:
            await asyncio.wait({written}, timeout=within_s)

    async def claim(self, key: bytes, within_s: float | None = None) -> Row | None:
        """Return None once a key is this process's, to keep a row under it or to release it.

        Or the row that counts and is there, or comes from the process that had claimed the key; a
        damaged one has no payload. Raises StoreAway, and TimeoutError.
        """
        if self.is_away:
            raise StoreAway
        claim = _Claim(key)
        try:
            async with asyncio.timeout(within_s):
                row: Row | None = await self._claiming.ask(claim)
        except BaseException:
            if claim.is_granted:  # as whoever waited for it left
                self.release(key)
            raise
        return row

    def release(self, key: bytes) -> None:
        """Give up a claim, soon, unless a row is kept under its key."""
        if key not in self._puts:
            self._released.append(key)
            self._claiming.wake()

    def close(self) -> None:
        """Write what waits, and give up what this process has claimed."""
        self._moving.close()
        self._claiming.close()

    def _move(self, db: Connection, asked: list[Asked]) -> float | None:
        """Read and write replies."""
        found = _read(db, {key for each in asked for key in each.what})
        whole = {key: row for key, row in found.items() if row is not None and row.payload}
        tell(
            (each.future, {key: whole[key] for key in each.what if key in whole}) for each in asked
        )
        with self._lock:
            puts = sorted(islice(self._puts.values(), _BATCH))
        if puts:
            self._put(db, puts)
        return 0.0 if self._puts else None

    def _put(self, db: Connection, puts: list[tuple[Row, asyncio.Future[None]]]) -> None:
        values = [(row.key, row.checksum, *row[1:]) for row, _ in puts]
        try:
            db.execute(_PUT, [list(column) for column in zip(*values, strict=True)])
        except psycopg.DataError:  # a name with a NUL, which no text there may have
            _log.exception("replies not stored", count=len(puts))
            self._released.extend(row.key for row, _ in puts)  # else others follow them in vain
            self._claiming.wake()
        with self._lock:
            for row, written in puts:
                if self._puts[row.key][1] is written:  # else a newer one waits
                    del self._puts[row.key]
        tell((written, None) for _, written in puts)

    def _settle(self, db: Connection, asked: list[Asked]) -> float | None:
        """Do what waits of claims, and renew the lease."""
        now = time.monotonic()
        self._doubtful.update(self._released.popleft() for _ in range(len(self._released)))
        if self._doubtful:
            db.execute(_RELEASE, [sorted(self._doubtful), self._process])
            self._doubtful.clear()
        if self._claiming.is_closing:
            db.execute(_LEAVE, [self._process])
            return None
        wanted = {each.what.key for each in asked}
        found: dict[bytes, Row | None] = {}
        if now - self._looked >= FOLLOW_S:
            self._looked = now
            found, ended = self._look(db)
            wanted |= ended
        for each in asked:
            self._followed.setdefault(each.what.key, []).append(each)
        asked.clear()  # if this fails they are looked at again
        if wanted:
            found |= self._claim(db, wanted)
            self._renewed = now
        elif now - self._renewed >= RENEW_S:
            db.execute(_RENEW, [self._process, LEASE_S])
            self._renewed = now
        tell(
            (each.future, row)
            for key, row in found.items()
            if row is not None
            for each in self._followed.pop(key, ())
        )
        again = self._looked + FOLLOW_S if self._followed else self._renewed + RENEW_S
        return 0.0 if self._released else max(0.0, again - time.monotonic())

    def _look(self, db: Connection) -> tuple[dict[bytes, Row | None], set[bytes]]:
        """Return what is under the keys that are followed, and the keys whose claims have ended."""
        for key, many in list(self._followed.items()):
            if all(each.future.done() for each in many):
                del self._followed[key]
        found = _read(db, self._followed)
        return found, set(list(self._followed.keys() - found.keys())[:_BATCH])

    def _claim(self, db: Connection, keys: set[bytes]) -> dict[bytes, Row | None]:
        """Claim keys, and return what is under those that can't be claimed."""
        # Until it is known what came of it. What is claimed then is released before all else.
        self._doubtful |= keys
        now = time.time()
        since, until = now - self._ttl_s, now + DAY_S
        values = [self._process, LEASE_S, self._process, sorted(keys), since, until]
        granted = {key for (key,) in db.execute(_CLAIM, values, binary=True)}
        self._doubtful = granted
        found = _read(db, keys - granted)
        self._doubtful = set()
        told = []
        for key in granted:
            waiting = [each for each in self._followed.pop(key) if not each.future.done()]
            if waiting:
                waiting[0].what.is_granted = True  # before it is seen whether it has just left
                told.append((waiting[0].future, None))
            if not waiting or waiting[0].future.done():
                self._released.append(key)
            if waiting[1:]:
                self._followed[key] = waiting[1:]
        tell(told)
        return found


def _read(db: Connection, keys: Collection[bytes]) -> dict[bytes, Row | None]:
    """Return the row under each key, or None where a process has claimed it.

    A row that is damaged has no payload.
    """
    found: dict[bytes, Row | None] = {}
    if keys:
        for crc, *values in db.execute(_READ, [sorted(keys)], binary=True):
            row = Row(*values)
            is_whole = row.checksum == crc
            found[row.key] = (
                (row if is_whole else row._replace(payload=b"")) if row.payload else None
            )
    return found


def tell(answers: Iterable[tuple[asyncio.Future[Any], object]]) -> None:
    """Wake all who wait, at once. For any thread."""
    told = list(answers)

    def wake() -> None:
        for future, answer in told:
            if not future.done():
                future.set_result(answer)

    if told:
        with suppress(RuntimeError):  # a loop that is closed has nobody left to wake
            told[0][0].get_loop().call_soon_threadsafe(wake)
