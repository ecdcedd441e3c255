"""Replies of language models in a PostgreSQL database that servers share, and claims on them.

One server claims a missing reply, and asks the model: a claim is the reply's row with an empty
payload. Other servers poll the row every FOLLOW_S until the reply is there or the claim has ended:
it was released, or the lease of its process has expired. Each process renews its lease while it
runs; leases use the database's clock.

Two threads have a connection each: one reads and writes replies, the other handles claims. Queued
requests are served in batches, by statements that lock rows in the order of their keys, so that
servers can't deadlock.

After a cut connection the thread reconnects and repeats its batch before it reports a failure.
While the database is unreachable only new replies are queued; all other requests fail at once.
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
"""How long the claims of a process stand after it last renewed its lease."""
RENEW_S = 2.0
FOLLOW_S = 0.1
PATIENCE_S = 2.0
"""How long a batch may take until the database counts as unreachable."""
AGAIN_S = 0.5
"""How long after a failure a thread connects again."""
LEAVING_S = 5.0
"""How long `close` waits for the database."""

_LOOK_S = 0.5
_BATCH = 500
"""Most keys or rows of one statement."""
_STATEMENT_S = 5.0
_SCHEMA_LOCK = 0x6A756467
_SCHEMA = """
CREATE TABLE IF NOT EXISTS judged_replies_2 (
  key bytea PRIMARY KEY, crc bigint NOT NULL, payload bytea NOT NULL, created bigint NOT NULL,
  process uuid);
CREATE TABLE IF NOT EXISTS judged_processes_1 (
  process uuid PRIMARY KEY, until timestamptz NOT NULL);
CREATE OR REPLACE FUNCTION judged_runs_1(uuid) RETURNS boolean LANGUAGE sql VOLATILE AS
  'SELECT EXISTS (SELECT FROM judged_processes_1 WHERE process = $1 AND until > clock_timestamp())';
CREATE OR REPLACE FUNCTION judged_now_1() RETURNS float8 LANGUAGE sql VOLATILE AS
  'SELECT extract(epoch FROM clock_timestamp())::float8';
CREATE TABLE IF NOT EXISTS judged_writers_1 (process text PRIMARY KEY, last bigint NOT NULL);
"""
_REPLIES = "judged_replies_2"
# judged_runs_1 is volatile, so that it sees what was committed before its call: else a statement
# that waited for another process's claim would not see the lease committed with that claim.
_READ = """
SELECT crc, key, payload, created FROM judged_replies_2
WHERE key = ANY(%b::bytea[]) AND (payload <> '' OR judged_runs_1(process))
"""
_PUT = """
INSERT INTO judged_replies_2
SELECT * FROM unnest(%b::bytea[], %b::bigint[], %b::bytea[], %b::bigint[]) ORDER BY 1
ON CONFLICT (key) DO UPDATE SET crc = EXCLUDED.crc, payload = EXCLUDED.payload,
  created = EXCLUDED.created, process = NULL
"""
_RENEW = """
INSERT INTO judged_processes_1 VALUES (%s, clock_timestamp() + make_interval(secs => %s))
ON CONFLICT (process) DO UPDATE SET until = EXCLUDED.until
"""
_CLAIM = f"""
WITH lease AS ({_RENEW}) INSERT INTO judged_replies_2 AS r
SELECT key, 0, ''::bytea, 0, %s::uuid FROM unnest(%b::bytea[]) AS key ORDER BY 1
ON CONFLICT (key) DO UPDATE SET crc = 0, payload = '', created = 0, process = EXCLUDED.process
WHERE CASE WHEN r.payload = '' THEN NOT judged_runs_1(r.process)
  ELSE r.created <= %s::float8 OR r.created >= %s::float8 END
RETURNING r.key
"""  # noqa: S608 - built from constants
_RELEASE = """
DELETE FROM judged_replies_2 WHERE key IN (
  SELECT key FROM judged_replies_2 WHERE key = ANY(%b::bytea[]) AND process = %s AND payload = ''
  ORDER BY key FOR UPDATE)
"""
_LEAVE = """
DELETE FROM judged_processes_1
WHERE process = %s OR until < clock_timestamp() - interval '1 day'
"""
_COUNT = """
SELECT count(*), coalesce(sum(octet_length(payload)), 0)::bigint FROM judged_replies_2
WHERE payload <> ''
"""
_PURGE = """
WITH gone AS (DELETE FROM judged_replies_2 WHERE payload <> '' RETURNING octet_length(payload) AS n)
SELECT count(*), coalesce(sum(n), 0)::bigint FROM gone
"""

_log = Logger("store")


def connect(url: str, *, durable: bool = True) -> Connection:
    """Connect to a database, and create its tables if they are missing. Raises psycopg.Error.

    If `durable`, a commit returns once it is on disk.
    """
    own = {
        "connect_timeout": 2,  # the least that libpq allows
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 2,
        "tcp_user_timeout": 5000,
        "application_name": "judged",
        "target_session_attrs": "read-write",
    } | conninfo_to_dict(url)
    # No prepared statements: a plan made while a table was empty would keep scanning all of it.
    db: Connection = psycopg.connect(**own, autocommit=True, prepare_threshold=None)
    try:
        # Not as options of the connection, which poolers refuse.
        commit = "on" if durable else "off"
        db.execute(
            f"SET statement_timeout = '{_STATEMENT_S:g}s'; SET synchronous_commit = {commit}"
        )
        # Check first: the role may be allowed to use the tables, but not to create them.
        if db.execute("SELECT to_regclass(%s)", [_REPLIES]).fetchone() == (None,):
            with db.transaction():
                db.execute("SELECT pg_advisory_xact_lock(%s)", [_SCHEMA_LOCK])
                db.execute(_SCHEMA)
                db.execute(TABLES)
    except BaseException:
        db.close()
        raise
    return db


def check_url(url: str) -> None:
    """Raise SettingsError for a malformed URL; the message doesn't quote it, for its password."""
    try:
        conninfo_to_dict(url)
    except psycopg.Error:
        raise SettingsError(
            "store: it can't be read as postgresql://USER:PASSWORD@HOST:PORT/DATABASE; write "
            "special characters of the password as %XX, or leave it to a file, as PGPASSFILE says"
        ) from None


@contextmanager
def command_connection(url: str) -> Iterator[Connection]:
    """Yield a connection without a statement timeout, for a command. Raises SettingsError."""
    check_url(url)
    try:
        with connect(url) as db:
            db.execute("SET statement_timeout = 0")
            yield db
    except psycopg.Error as error:
        raise SettingsError(f"store: {str(error).strip()}; try again") from None


def stored_replies(url: str, *, purge: bool) -> tuple[int, int]:
    """Return the number of stored replies and their bytes; if `purge`, delete them.

    Raises SettingsError.
    """
    with command_connection(url) as db:
        count, size = db.execute(_PURGE if purge else _COUNT).fetchall()[0]
    return count, size


class Asked(NamedTuple):
    """A request to a worker, and the future of its answer."""

    what: Any
    future: asyncio.Future[Any]


class Worker(threading.Thread):
    """A thread with a connection that passes queued requests to `work`.

    `work` answers them with `tell`. If it fails it is called again with those that it has not
    removed from the list. It returns the seconds until its next call, None to wait for a request.
    """

    def __init__(
        self,
        name: str,
        url: str,
        work: Callable[[Connection, list[Asked]], float | None],
        *,
        durable: bool = True,
    ) -> None:
        """Raise SettingsError for a bad address; an unreachable database is retried."""
        check_url(url)
        super().__init__(name=name, daemon=True)
        self._url, self._work, self._durable = url, work, durable
        self._db: Connection | None = None
        self._asked: deque[Asked] = deque()
        self._batch: list[Asked] = []
        self._woken = threading.Event()
        self.is_closing = self._is_outage_logged = False
        self._failures = 0
        self._began: float | None = None

    @property
    def is_away(self) -> bool:
        """Whether there is no connection, or the database does not answer."""
        began = self._began
        stands = began is not None and time.monotonic() - began > PATIENCE_S
        return stands or self._failures > 1 or not self.is_alive()

    def wake(self) -> None:
        """Call `work` soon, even without a request."""
        self._woken.set()

    async def ask(self, what: object) -> Any:  # noqa: ANN401
        """Return the answer to a request. Raises StoreAway if the database doesn't give one."""
        if self.is_away:
            raise StoreAway
        future = asyncio.get_running_loop().create_future()
        self._asked.append(Asked(what, future))
        self._woken.set()
        try:
            while not future.done():
                if self.is_away:
                    self._log_outage("it does not answer")
                    raise StoreAway
                await asyncio.wait({future}, timeout=_LOOK_S)
            return future.result()
        finally:
            future.cancel()

    def close(self) -> None:
        """End the thread once its queue is done, or the database is unreachable."""
        self.is_closing = True
        self._woken.set()
        self.join(LEAVING_S)

    def run(self) -> None:
        """Serve requests until `close`."""
        while True:
            self._woken.clear()
            is_closing, self._began = self.is_closing, time.monotonic()
            pause = self._turn()
            self._began = None
            if is_closing and (pause is None or self._failures > 1):
                break
            if self._failures > 1:
                time.sleep(AGAIN_S)  # `is_away` is True meanwhile, so requests fail at once
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
        except Exception as error:  # noqa: BLE001 - any error is retried
            if self._db is not None:
                self._db.close()
            self._db = None
            self._failures += 1
            if not isinstance(error, psycopg.Error):
                _log.exception("store failed", connection=self.name)
            if self._failures > 1:  # one failure may be just a cut connection
                self._log_outage(str(error).partition("\n")[0] or type(error).__name__)
            return 0.0
        self._batch, self._failures = [], 0
        if self._is_outage_logged:
            self._is_outage_logged = False
            _log.info("store reachable again", connection=self.name)
        return pause

    def _log_outage(self, reason: str) -> None:
        """Log an outage, once until the database is back."""
        if not self._is_outage_logged:
            self._is_outage_logged = True
            _log.warning("store unreachable", connection=self.name, reason=reason)


@dataclass(slots=True)
class _Claim:
    key: bytes
    is_granted: bool = False


class PostgresRows:
    """One process's access to the replies. Don't call `close` on the event loop: it blocks."""

    def __init__(self, url: str, ttl_s: float) -> None:
        """Start the threads; rows expire `ttl_s` seconds after their creation.

        Raises SettingsError for a bad address; an unreachable database is retried.
        """
        self._process = uuid.uuid4()
        self._ttl_s = ttl_s
        self._lock = threading.Lock()
        self._puts: dict[bytes, tuple[Row, asyncio.Future[None]]] = {}
        self._released: deque[bytes] = deque()
        self._followed: dict[bytes, list[Asked]] = {}
        self._renewed = self._looked = -LEASE_S
        self._moving = Worker("replies", url, self._move)
        self._claiming = Worker("claims", url, self._settle, durable=False)
        self._moving.start()
        self._claiming.start()

    @property
    def is_away(self) -> bool:
        """Whether the database is unreachable now."""
        return self._moving.is_away or self._claiming.is_away

    async def get(self, keys: Sequence[bytes]) -> dict[bytes, Row]:
        """Return the undamaged rows of keys, by key; none while the database is unreachable."""
        found: dict[bytes, Row] = {}
        if not self.is_away:
            with suppress(StoreAway):
                found = await self._moving.ask(keys)
        return found

    async def keep(self, row: Row, within_s: float) -> None:
        """Queue a row, and return once it is in the database or the time is over.

        Rows stay queued while the database is unreachable, up to MAX_WAITING_BYTES in all.
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
        """Return None once this process has claimed a key: `keep` a row, or `release` the key.

        Return a row instead if one is stored and valid, or comes from the process that holds the
        claim; a damaged row has an empty payload. Raises StoreAway, and TimeoutError.
        """
        if self.is_away:
            raise StoreAway
        claim = _Claim(key)
        try:
            async with asyncio.timeout(within_s):
                row: Row | None = await self._claiming.ask(claim)
        except BaseException:
            if claim.is_granted:  # granted as the caller was cancelled
                self.release(key)
            raise
        return row

    def release(self, key: bytes) -> None:
        """Release a claim soon, unless a row for its key is queued."""
        if key not in self._puts:
            self._released.append(key)
            self._claiming.wake()

    def close(self) -> None:
        """Write the queued rows, and end this process's claims."""
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
        db.execute(_PUT, [list(column) for column in zip(*values, strict=True)])
        with self._lock:
            for row, written in puts:
                if self._puts[row.key][1] is written:  # else a newer row is queued
                    del self._puts[row.key]
        tell((written, None) for _, written in puts)

    def _settle(self, db: Connection, asked: list[Asked]) -> float | None:
        """Release and claim keys, answer claims, and renew the lease."""
        now = time.monotonic()
        if released := list(self._released):
            db.execute(_RELEASE, [sorted({*released}), self._process])
            for _ in released:
                self._released.popleft()
        if self._claiming.is_closing:
            db.execute(_LEAVE, [self._process])
            return None
        wanted = {each.what.key for each in asked}
        found: dict[bytes, Row | None] = {}
        looks = now - self._looked >= FOLLOW_S
        if looks:
            found, ended = self._look(db)
            wanted |= ended
        for each in asked:
            self._followed.setdefault(each.what.key, []).append(each)
        asked.clear()  # they are in `_followed`: a repeated turn looks at them
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
        if looks:
            self._looked = now  # only now: a repeated turn looks, and so tries to claim, again
        again = self._looked + FOLLOW_S if self._followed else self._renewed + RENEW_S
        return 0.0 if self._released else max(0.0, again - time.monotonic())

    def _look(self, db: Connection) -> tuple[dict[bytes, Row | None], set[bytes]]:
        """Return the rows of the followed keys, and the keys whose claims have ended."""
        for key, many in list(self._followed.items()):
            if all(each.future.done() for each in many):
                del self._followed[key]
        found = _read(db, self._followed)
        return found, set(list(self._followed.keys() - found.keys())[:_BATCH])

    def _claim(self, db: Connection, keys: set[bytes]) -> dict[bytes, Row | None]:
        """Claim keys; return the rows of those that can't be claimed."""
        now = time.time()
        since, until = now - self._ttl_s, now + DAY_S
        values = [self._process, LEASE_S, self._process, sorted(keys), since, until]
        try:
            granted = {key for (key,) in db.execute(_CLAIM, values, binary=True)}
            found = _read(db, keys - granted)
        except Exception:
            self._released.extend(keys)  # the claims may stand
            raise
        grants = []
        for key in granted:
            waiting = [each for each in self._followed.pop(key) if not each.future.done()]
            if waiting:
                waiting[0].what.is_granted = True  # set first: the caller may be leaving
                grants.append((waiting[0].future, None))
            if not waiting or waiting[0].future.done():
                self._released.append(key)
            if waiting[1:]:
                self._followed[key] = waiting[1:]
        tell(grants)
        return found


def _read(db: Connection, keys: Collection[bytes]) -> dict[bytes, Row | None]:
    """Return the row of each key, or None where a process has claimed it.

    A damaged row has an empty payload.
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
    """Set the results of futures, in one call on their loop. Thread-safe."""
    results = list(answers)

    def wake() -> None:
        for future, answer in results:
            if not future.done():
                future.set_result(answer)

    if results:
        with suppress(RuntimeError):  # the loop is closed: no caller waits
            results[0][0].get_loop().call_soon_threadsafe(wake)
