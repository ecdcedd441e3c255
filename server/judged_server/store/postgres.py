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
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict

from judged_server.settings import SettingsError
from judged_server.store.kept_rows import MAX_WAITING_BYTES, Row, StoreAway
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
"""
# A function, since it sees what has been committed when it is called: a statement that waited for
# another process's claim would not see the lease that came with it.
_READ = """
SELECT crc, key, payload, rubric, version, model, created, judged_runs_1(process)
FROM judged_replies_1 WHERE key = ANY(%b::bytea[])
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

Answered = TypeVar("Answered")
_log = Logger("store")


def connect(url: str, schema: str, last_table: str, *, durable: bool = True) -> Connection:
    """Return a connection to a database that has the tables of a schema, or gets them.

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
        if db.execute("SELECT to_regclass(%s)", [last_table]).fetchone() == (None,):
            with db.transaction():
                db.execute("SELECT pg_advisory_xact_lock(%s)", [_SCHEMA_LOCK])
                db.execute(schema)
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


def stored_replies(url: str, *, purge: bool) -> tuple[int, int]:
    """Return how many replies are stored, and their bytes; delete them to `purge`.

    Raises SettingsError.
    """
    check_url(url)
    try:
        with _connected(url) as db:
            db.execute("SET statement_timeout = 0")
            count, size = db.execute(_PURGE if purge else _COUNT).fetchall()[0]
    except psycopg.Error as error:
        raise SettingsError(f"store: {str(error).strip()}; try again") from None
    return count, size


def _connected(url: str, *, durable: bool = True) -> Connection:
    return connect(url, _SCHEMA, "judged_processes_1", durable=durable)


class Worker(threading.Thread):
    """A thread with a connection, by which `work` does what waits, over and over.

    That returns after how many seconds it has to be called again, None for when it is woken, and
    leaves what it could not do where it was. After a second failure in a row, `fail` ends that.
    """

    def __init__(
        self,
        name: str,
        connected: Callable[[], Connection],
        work: Callable[[Connection], float | None],
        fail: Callable[[], None],
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._connected, self._work, self._fail = connected, work, fail
        self._woken = threading.Event()
        self._closing = self._is_told = False
        self._failures = 0
        self._began: float | None = None
        self.start()

    @property
    def is_away(self) -> bool:
        """Whether there is no connection, or the database does not answer."""
        began = self._began
        return self._failures > 1 or (began is not None and time.monotonic() - began > PATIENCE_S)

    def wake(self) -> None:
        """Let it look at what waits."""
        self._woken.set()

    async def answer(self, future: asyncio.Future[Answered]) -> Answered:
        """Return what comes of something that waits for it. Raises StoreAway where nothing does."""
        self._woken.set()
        try:
            while not future.done() and not self.is_away:
                await asyncio.wait({future}, timeout=_LOOK_S)
        except BaseException:
            future.cancel()
            raise
        if future.cancel():
            self.tell("it does not answer")
            raise StoreAway
        return future.result()

    def tell(self, reason: str) -> None:
        """Write one line in the log until the database is back."""
        if not self._is_told:
            self._is_told = True
            _log.warning("store unreachable", connection=self.name, reason=reason)

    def close(self) -> None:
        """End it once it has done what waits, or can't."""
        self._closing = True
        self._woken.set()
        self.join(LEAVING_S)

    def run(self) -> None:
        """Work until it is closed."""
        db: Connection | None = None
        is_last = False
        while True:
            self._woken.clear()
            is_last, self._began = self._closing, time.monotonic()
            try:
                db = self._connected() if db is None else db
                pause = self._work(db)
                self._succeeded()
            except Exception as error:  # noqa: BLE001 - whoever waits must be told
                if db is not None:
                    db.close()
                db = None
                pause = self._failed(error)
            self._began = None
            if is_last:
                break
            if self._failures > 1:
                time.sleep(AGAIN_S)  # whoever comes in the meantime is told at once
            else:
                self._woken.wait(pause)
        if db is not None:
            db.close()

    def _succeeded(self) -> None:
        self._failures = 0
        if self._is_told:
            self._is_told = False
            _log.info("store reachable again", connection=self.name)

    def _failed(self, error: Exception) -> float:
        self._failures += 1
        if not isinstance(error, psycopg.Error):
            _log.exception("store failed", connection=self.name)
        # A connection that was cut says nothing of the database.
        if self._failures > 1 or self._closing:
            self.tell(str(error).partition("\n")[0] or type(error).__name__)
            self._fail()
        return 0.0


class _Asked(NamedTuple):
    """A key that somebody waits for, and what a claim of it says of replies that count."""

    key: bytes
    future: asyncio.Future[Any]
    since: float = 0.0
    until: float = 0.0


class _Line:
    """What waits for a thread; a batch of it stays until it is done. For the thread but `put`."""

    def __init__(self) -> None:
        self._waiting: deque[_Asked] = deque()
        self._batch: list[_Asked] = []

    def __bool__(self) -> bool:
        return bool(self._waiting or self._batch)

    def put(self, asked: _Asked) -> None:
        """Let something wait. For any thread."""
        self._waiting.append(asked)

    def batch(self, most: int = _BATCH) -> list[_Asked]:
        """Return what is next, the same until it is `done`."""
        while self._waiting and len(self._batch) < most:
            self._batch.append(self._waiting.popleft())
        return self._batch

    def done(self) -> list[_Asked]:
        """Take the batch off."""
        batch, self._batch = self._batch, []
        return batch

    def all(self) -> list[_Asked]:
        """Take all off."""
        self.batch(len(self._waiting) + len(self._batch))
        return self.done()


class PostgresRows:
    """The database as one process sees it. `close` is not for the event loop's thread."""

    def __init__(self, url: str) -> None:
        """Raise SettingsError for a bad address; a database that is away is waited for."""
        check_url(url)
        self._process = uuid.uuid4()
        self._gets, self._claims, self._follows = _Line(), _Line(), _Line()
        self._lock = threading.Lock()
        self._puts: dict[bytes, Row] = {}
        self._put_bytes = 0
        self._writers: list[asyncio.Future[Any]] = []
        self._releases: deque[bytes] = deque()
        self._doubtful: set[bytes] = set()
        """Keys that may be claimed without anybody's knowledge, or are to be released."""
        self._followed: dict[bytes, list[_Asked]] = {}
        self._renewed = self._looked = -LEASE_S
        self._is_leaving = False
        self._moving = Worker("replies", lambda: _connected(url), self._move, self._fail_moves)
        self._claiming = Worker(
            "claims", lambda: _connected(url, durable=False), self._settle, self._fail_claims
        )

    @property
    def is_away(self) -> bool:
        """Whether the database can't be used now."""
        return self._moving.is_away or self._claiming.is_away

    async def get(self, keys: Sequence[bytes]) -> dict[bytes, Row]:
        """Return the whole rows that are stored under keys; none while the database is away."""
        asked = [_Asked(key, _new()) for key in keys]
        try:
            found = await asyncio.gather(
                *(self._answer(self._moving, self._gets, each) for each in asked)
            )
        except StoreAway:
            return {}
        return {row.key: row for row in found if row is not None}

    async def keep(self, row: Row, within_s: float) -> None:
        """Return once a row is in the database, or was not in time.

        Rows wait for a database that is away, up to MAX_WAITING_BYTES of them.
        """
        waits = within_s > 0 and not self.is_away
        written = _new()
        with self._lock:
            before = self._puts.get(row.key)
            size = self._put_bytes + len(row.payload) - (len(before.payload) if before else 0)
            if size > MAX_WAITING_BYTES:
                self.release(row.key)
                return
            self._puts[row.key], self._put_bytes = row, size
            if waits:
                self._writers.append(written)
        self._moving.wake()
        if waits:
            await asyncio.wait({written}, timeout=within_s)

    async def claim(self, key: bytes, since: float, until: float) -> bool:
        """Return whether a key is now this process's, to keep a row under it or to release it.

        It is not where a row was created between `since` and `until`, or a process that runs has
        claimed it. Raises StoreAway.
        """
        asked = _Asked(key, _new(), since, until)
        granted: bool = await self._answer(self._claiming, self._claims, asked)
        return granted

    async def follow(self, key: bytes) -> Row | None:
        """Return the row under a key once there is one; None once the key can be claimed.

        A damaged row has no payload. Raises StoreAway.
        """
        asked = _Asked(key, _new())
        found: Row | None = await self._answer(self._claiming, self._follows, asked)
        return found

    def release(self, key: bytes) -> None:
        """Give up a claim, soon, unless a row is kept under its key."""
        if key not in self._puts:
            self._releases.append(key)
            self._claiming.wake()

    def close(self) -> None:
        """Write what waits, and give up what this process has claimed."""
        self._moving.close()
        self._is_leaving = True
        self._claiming.close()

    async def _answer(self, worker: Worker, line: _Line, asked: _Asked) -> Any:  # noqa: ANN401
        """Return what comes of what is asked. Raises StoreAway where nothing does."""
        future = asked.future
        if self.is_away:
            raise StoreAway
        line.put(asked)
        try:
            return await worker.answer(future)
        except asyncio.CancelledError:
            # A claim that comes as its caller leaves is nobody's.
            is_late = future.done() and not future.cancelled() and line is self._claims
            if is_late and future.exception() is None and future.result():
                self.release(asked.key)
            raise

    def _move(self, db: Connection) -> float | None:
        """Read and write replies."""
        found = _read(db, self._gets.batch())
        tell((each.future, _whole(found.get(each.key))) for each in self._gets.done())
        with self._lock:
            rows, count = [self._puts[key] for key in sorted(self._puts)], len(self._writers)
        for start in range(0, len(rows), _BATCH):
            self._put(db, rows[start : start + _BATCH])
        self._tell_writers(count)
        return 0.0 if self._gets or self._puts else None

    def _put(self, db: Connection, rows: list[Row]) -> None:
        values = [(row.key, row.checksum, *row[1:]) for row in rows]
        try:
            db.execute(_PUT, [list(column) for column in zip(*values, strict=True)])
        except psycopg.DataError:  # a name with a NUL, which no text there may have
            _log.exception("replies not stored", count=len(rows))
            self._releases.extend(row.key for row in rows)  # else others follow them in vain
            self._claiming.wake()
        with self._lock:
            for row in rows:
                if self._puts[row.key] is row:  # else a newer one waits
                    del self._puts[row.key]
                    self._put_bytes -= len(row.payload)

    def _tell_writers(self, count: int) -> None:
        with self._lock:
            written, self._writers = self._writers[:count], self._writers[count:]
        tell((each, None) for each in written)

    def _fail_moves(self) -> None:
        tell((each.future, StoreAway()) for each in self._gets.all())
        self._tell_writers(len(self._writers))

    def _settle(self, db: Connection) -> float | None:
        """Renew the lease, and do what waits of claims."""
        now = time.monotonic()
        self._doubtful |= {self._releases.popleft() for _ in range(len(self._releases))}
        if self._doubtful:
            db.execute(_RELEASE, [sorted(self._doubtful), self._process])
            self._doubtful.clear()
        if self._is_leaving:
            db.execute(_LEAVE, [self._process])
            return None
        if batch := self._claims.batch():
            self._claim(db, batch)
            self._renewed = now
        elif now - self._renewed >= RENEW_S:
            db.execute(_RENEW, [self._process, LEASE_S])
            self._renewed = now
        self._look(db, now)
        if self._claims or self._releases or self._follows:
            return 0.0
        looks = self._looked + FOLLOW_S if self._followed else now + RENEW_S
        return max(0.0, min(self._renewed + RENEW_S, looks) - time.monotonic())

    def _claim(self, db: Connection, asked: list[_Asked]) -> None:
        keys, (*_, since, until) = {each.key for each in asked}, asked[-1]
        # Until it is known what came of it. What is claimed then is released before all else.
        self._doubtful = keys
        values = [self._process, LEASE_S, self._process, sorted(keys), since, until]
        taken = db.execute(_CLAIM, values, binary=True)
        granted = {key for (key,) in taken}
        self._doubtful = set()
        self._claims.done()

        def release(place: int) -> None:
            if asked[place].key in granted:
                self.release(asked[place].key)

        tell(((each.future, each.key in granted) for each in asked), release)

    def _look(self, db: Connection, now: float) -> None:
        """Tell those who follow a claim what has become of it: new ones now, others at times."""
        asked = self._follows.all()
        for each in asked:
            self._followed.setdefault(each.key, []).append(each)
        if now - self._looked >= FOLLOW_S:
            self._looked = now
            asked = [each for many in self._followed.values() for each in many]
        found = _read(db, asked)
        ended: list[tuple[asyncio.Future[Any], object]] = []
        for key in {each.key for each in asked}:
            values = found.get(key)
            row = _whole(values)
            if values is not None and not values[2] and values[-1]:
                if not all(each.future.done() for each in self._followed[key]):
                    continue  # it is claimed
            elif values is not None and values[2] and row is None:
                row = Row(*values[1:-1])._replace(payload=b"")
            ended += ((each.future, row) for each in self._followed.pop(key))
        tell(ended)

    def _fail_claims(self) -> None:
        waiting = [*self._claims.all(), *self._follows.all()]
        waiting += (each for many in self._followed.values() for each in many)
        self._followed.clear()
        tell((each.future, StoreAway()) for each in waiting)


def _new() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


def _read(db: Connection, asked: Iterable[_Asked]) -> dict[bytes, tuple[Any, ...]]:
    """Return the rows that are asked for by key: their columns, and whether a process has them."""
    keys = sorted({each.key for each in asked})
    found = db.execute(_READ, [keys], binary=True).fetchall() if keys else []
    return {values[1]: values for values in found}


def _whole(values: Sequence[Any] | None) -> Row | None:
    """Return a row; None if it is damaged, not there, or has no payload."""
    if values is None or not values[2]:
        return None
    crc, *rest, _ = values
    row = Row(*rest)
    return row if row.checksum == crc else None


def tell(
    answers: Iterable[tuple[asyncio.Future[Any], object]],
    unheard: Callable[[int], object] = lambda _: None,
) -> None:
    """Wake all who wait, at once; `unheard` gets the places of those who left. For any thread."""
    told = list(answers)

    def wake() -> None:
        for place, (future, answer) in enumerate(told):
            if future.done():
                unheard(place)
            elif isinstance(answer, StoreAway):
                future.set_exception(answer)
                future.exception()  # whoever waited may have left
            else:
                future.set_result(answer)

    if told:
        with suppress(RuntimeError):  # a loop that is closed has nobody left to wake
            told[0][0].get_loop().call_soon_threadsafe(wake)
