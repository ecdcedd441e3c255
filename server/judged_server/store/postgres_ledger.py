"""What servers have spent, in the PostgreSQL database that they share; see `store.ledger`.

Leases are by the database's clock. Whoever draws from an account, or settles it, holds its row
meanwhile. What is written together has a number, so that it counts once where the connection is cut
and nobody knows whether it was written.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import Connection

from judged_server.domain import MOST_NANO
from judged_server.settings import SettingsError
from judged_server.store.kept_rows import StoreAway
from judged_server.store.ledger import (
    LEASE_S,
    Account,
    Drawn,
    Ledger,
    LedgerFault,
    Result,
    Settled,
    Used,
)
from judged_server.store.postgres import Worker, check_url, connect, tell

_SCHEMA = """
CREATE TABLE IF NOT EXISTS judged_settled_1 (
  account text, period text, currency text, nano bigint NOT NULL,
  PRIMARY KEY (account, period, currency));
CREATE TABLE IF NOT EXISTS judged_leases_1 (
  account text, period text, currency text, process text, nano bigint NOT NULL,
  until timestamptz NOT NULL, PRIMARY KEY (account, period, currency, process));
CREATE TABLE IF NOT EXISTS judged_writers_1 (process text PRIMARY KEY, last bigint NOT NULL);
CREATE TABLE IF NOT EXISTS judged_used_1 (
  day text, tenant text, judge text, model text, rubric text, currency text,
  questions bigint NOT NULL, input_tokens bigint NOT NULL, output_tokens bigint NOT NULL,
  nano numeric NOT NULL, PRIMARY KEY (day, tenant, judge, model, rubric, currency));
"""
_OF = "account = %s AND period = %s AND currency = %s"
_UNTIL = f"clock_timestamp() + make_interval(secs => {LEASE_S})"
_NUMBER = """
INSERT INTO judged_writers_1 AS w VALUES (%s, %s)
ON CONFLICT (process) DO UPDATE SET last = EXCLUDED.last WHERE w.last < EXCLUDED.last RETURNING last
"""
_SETTLE = f"""
INSERT INTO judged_settled_1 AS s VALUES (%s, %s, %s, %s)
ON CONFLICT (account, period, currency)
DO UPDATE SET nano = least(s.nano::numeric + EXCLUDED.nano, {MOST_NANO})
"""  # noqa: S608 - of our own words, here and below
_RELEASE = f"""
UPDATE judged_leases_1 SET nano = greatest(0, nano - %s), until = {_UNTIL}
WHERE {_OF} AND process = %s
"""  # noqa: S608
_END = f"DELETE FROM judged_leases_1 WHERE {_OF} AND until < clock_timestamp()"  # noqa: S608
_TAKEN = f"""
SELECT (SELECT coalesce(sum(nano), 0) FROM judged_settled_1 WHERE {_OF})
  + (SELECT coalesce(sum(nano), 0) FROM judged_leases_1 WHERE {_OF})
"""  # noqa: S608
_LEASE_AGAIN = f"""
INSERT INTO judged_leases_1 VALUES (%s, %s, %s, %s, %s, {_UNTIL}) ON CONFLICT DO NOTHING
"""  # noqa: S608
_LEASE = f"""
INSERT INTO judged_leases_1 AS l VALUES (%s, %s, %s, %s, %s, {_UNTIL})
ON CONFLICT (account, period, currency, process)
DO UPDATE SET nano = l.nano + EXCLUDED.nano, until = EXCLUDED.until
"""  # noqa: S608
_RENEW = f"UPDATE judged_leases_1 SET until = {_UNTIL} WHERE process = %s"  # noqa: S608
_USED = """
INSERT INTO judged_used_1 AS u VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (day, tenant, judge, model, rubric, currency) DO UPDATE SET
  questions = u.questions + EXCLUDED.questions,
  input_tokens = u.input_tokens + EXCLUDED.input_tokens,
  output_tokens = u.output_tokens + EXCLUDED.output_tokens, nano = u.nano + EXCLUDED.nano
"""
_READ_USED = """
SELECT day, tenant, judge, model, rubric, currency, questions, input_tokens, output_tokens,
  least(nano, 9e18)::bigint
FROM judged_used_1 WHERE day >= %s AND (%s::text IS NULL OR tenant = %s) ORDER BY day, tenant
"""


def read_used(db: Connection, since: str, tenant: str | None = None) -> list[Used]:
    """Return what was used from a day on, by one tenant or by all. Raises psycopg.Error."""
    return [Used(*row) for row in db.execute(_READ_USED, [since, tenant, tenant]).fetchall()]


def used_since(url: str, since: str) -> list[Used]:
    """Return what all used from a day on. Raises SettingsError."""
    check_url(url)
    try:
        with _connected(url) as db:
            return read_used(db, since)
    except psycopg.Error as error:
        raise SettingsError(f"store: {str(error).strip()}; try again") from None


def _connected(url: str) -> Connection:
    return connect(url, _SCHEMA, "judged_used_1")


class PostgresLedger(Ledger):
    """The ledger in a database, as one process sees it. Used on one event loop."""

    def __init__(self, url: str) -> None:
        """Raise SettingsError for a bad address; a database that is away is waited for."""
        check_url(url)
        self._begin("the store")
        self._number = 0
        self._batch: list[Settled | Used] = []
        self._jobs: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._worker = Worker("ledger", lambda: _connected(url), self._do, self._fail)

    @property
    def is_away(self) -> bool:
        """Whether the database can't be used now."""
        return self._worker.is_away

    def close(self) -> None:
        """Write what waits, and give back what this process has drawn."""
        if not self._closed:
            self._closed = True
            self._worker.close()

    async def _on_thread(self, work: Callable[[], Result]) -> Result:
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._jobs.append((work, future))
        try:
            return await self._worker.answer(future)
        except StoreAway as away:
            raise LedgerFault("the store can't be reached") from away

    def _do(self, db: Connection) -> None:
        self._connection = db
        while self._jobs:
            work, future = self._jobs[0]
            if not future.done():
                tell([(future, work())])
            self._jobs.popleft()
        if self._closed:
            self._write()
            db.execute("DELETE FROM judged_leases_1 WHERE process = %s", [self._process])
            db.execute("DELETE FROM judged_writers_1 WHERE process = %s", [self._process])

    def _fail(self) -> None:
        tell((self._jobs.popleft()[1], StoreAway()) for _ in range(len(self._jobs)))

    def _renew(self) -> None:
        self._write()  # what could not be written, and nobody waits for any more
        self._connection.execute(_RENEW, [self._process])

    def read_used(self, since: str, tenant: str | None = None) -> list[Used]:
        """Return the same, for the thread that has the connection. Raises psycopg.Error."""
        return read_used(self._connection, since, tenant)

    def _write(self) -> None:
        while self._batch or self._waiting:
            if not self._batch:
                self._batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
                self._number += 1
            with self._connection.transaction():
                if self._connection.execute(_NUMBER, [self._process, self._number]).fetchone():
                    self._settle_all(self._batch)
            self._batch = []

    def _settle_all(self, batch: Sequence[Settled | Used]) -> None:
        settled: dict[Account, list[int]] = {}
        used: dict[tuple[str, ...], list[int]] = {}
        for entry in batch:
            more: Sequence[int]
            if isinstance(entry, Used):
                sums, more = used.setdefault(entry[:6], [0] * 4), entry[6:]
            else:
                sums, more = settled.setdefault(entry.account, [0] * 2), entry[1:]
            sums[:] = (min(a + b, MOST_NANO) for a, b in zip(sums, more, strict=True))
        for account, (spent, released) in sorted(settled.items()):
            self._connection.execute(_SETTLE, [*account, spent])
            self._connection.execute(_RELEASE, [released, *account, self._process])
        for key, counts in sorted(used.items()):
            self._connection.execute(_USED, [*key, *counts])

    def _draw(self, account: Account, limit: int, wanted: int, holds: int) -> Drawn:
        self._write()  # what could not be written before counts before anything is drawn
        db, lease = self._connection, [*account, self._process]
        with db.transaction():
            db.execute(_SETTLE, [*account, 0])  # from here on others wait
            db.execute(_END, account)
            if holds:
                db.execute(_LEASE_AGAIN, [*lease, holds])
            (taken,) = db.execute(_TAKEN, [*account, *account]).fetchall()[0]
            drawn = min(wanted, max(0, limit - int(taken)))
            if drawn:
                db.execute(_LEASE, [*lease, drawn])
        return Drawn(drawn, int(taken) + drawn)
