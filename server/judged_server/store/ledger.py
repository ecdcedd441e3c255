"""The record of spending, which survives restarts and kills of servers.

It is a file shared by the servers of a machine, or a shared store (`store.postgres_ledger`).

An account is a budget of the server or of a tenant. In a period (a day, a month) it has

* a settled amount: spent by any process, for good, and
* leases: money that a process has drawn and not settled yet. A process renews its leases while it
  runs; those of a killed process end after LEASE_S, and their money can be drawn again.

A charge is written before its answer is returned, so that a kill loses only the charges of
questions in flight. The ledger also records the usage of each tenant by day, judge and model. A
kill may lose queued usage that no budget counts.

One thread does all reads and writes, in turn, so that the event loop never waits for another
process. Entries that arrive during a write are written together in the next.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from judged_server.domain import MOST_NANO
from judged_server.settings import SettingsError
from judged_server.store.kept_rows import connect, make_private, transaction
from judged_server.telemetry import Logger

BUSY_S = 1.0
"""How long to wait for another process's lock; a transaction takes less than a millisecond."""
AGAIN_S = 0.1
"""How long after a failure a write is retried, while a caller waits for it."""
LEAVING_S = 5.0
"""How long a process waits for the file's lock as it closes the ledger."""
LINGER_S = 0.005
"""How long an entry waits for more to share its transaction, which costs a fifth of a question."""
LEASE_S = 60.0
"""How long a lease lasts that its process does not renew."""

# Statements for PostgreSQL; `_for_file` translates them for SQLite.
TABLES = """
CREATE TABLE IF NOT EXISTS judged_settled_1 (
  account text, period text, currency text, nano bigint NOT NULL,
  PRIMARY KEY (account, period, currency));
CREATE TABLE IF NOT EXISTS judged_leases_1 (
  process text, account text, period text, currency text, nano bigint NOT NULL,
  until double precision NOT NULL, PRIMARY KEY (account, period, currency, process));
CREATE TABLE IF NOT EXISTS judged_used_1 (
  day text, tenant text, judge text, model text, rubric text, currency text,
  questions bigint NOT NULL, input_tokens bigint NOT NULL, output_tokens bigint NOT NULL,
  nano numeric NOT NULL, PRIMARY KEY (day, tenant, judge, model, rubric, currency));
"""
_OF = "account = %s AND period = %s AND currency = %s"
_UNTIL = f"judged_now_1() + {LEASE_S}"
_SETTLE = f"""
INSERT INTO judged_settled_1 (account, period, currency, nano) VALUES (%s, %s, %s, %s)
ON CONFLICT (account, period, currency) DO UPDATE
SET nano = least(CAST(judged_settled_1.nano AS numeric) + EXCLUDED.nano, {MOST_NANO})
"""  # noqa: S608 - built from constants, here and below
_RELEASE = f"""
UPDATE judged_leases_1 SET nano = greatest(0, nano - %s), until = {_UNTIL}
WHERE {_OF} AND process = %s
"""  # noqa: S608
# A file's clock counts from boot: a lease from before a reboot may end beyond now + LEASE_S.
_END = f"""
DELETE FROM judged_leases_1
WHERE {_OF} AND (until < judged_now_1() OR until > judged_now_1() + {LEASE_S})
"""  # noqa: S608
_TAKEN = f"""
SELECT (SELECT coalesce(sum(nano), 0) FROM judged_settled_1 WHERE {_OF})
  + (SELECT coalesce(sum(nano), 0) FROM judged_leases_1 WHERE {_OF})
"""  # noqa: S608
_LEASE = f"""
INSERT INTO judged_leases_1 (account, period, currency, process, nano, until)
VALUES (%s, %s, %s, %s, %s, {_UNTIL}) ON CONFLICT (account, period, currency, process) DO
"""  # noqa: S608
_LEASE_HELD = f"{_LEASE} UPDATE SET nano = least(judged_leases_1.nano, EXCLUDED.nano)"
_LEASE_MORE = f"{_LEASE} UPDATE SET nano = judged_leases_1.nano + EXCLUDED.nano, until = {_UNTIL}"
_RENEW = f"UPDATE judged_leases_1 SET until = {_UNTIL} WHERE process = %s"  # noqa: S608
_LEAVE = "DELETE FROM judged_leases_1 WHERE process = %s"
_USED = """
INSERT INTO judged_used_1 AS u VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (day, tenant, judge, model, rubric, currency) DO UPDATE SET
  questions = u.questions + EXCLUDED.questions,
  input_tokens = u.input_tokens + EXCLUDED.input_tokens,
  output_tokens = u.output_tokens + EXCLUDED.output_tokens, nano = u.nano + EXCLUDED.nano
"""
READ_USED = f"""
SELECT day, tenant, judge, model, rubric, currency, questions, input_tokens, output_tokens,
  CAST(least(nano, {MOST_NANO}) AS bigint)
FROM judged_used_1 WHERE day >= %s AND (CAST(%s AS text) IS NULL OR tenant = %s)
ORDER BY day, tenant
"""  # noqa: S608


@cache
def _for_file(statement: str) -> str:
    """Return the statement for SQLite, where tables and functions have no prefix."""
    return re.sub(r"judged_(\w+?)_1\b", r"\1", statement).replace("%s", "?")


class Account(NamedTuple):
    """A budget in one period; `account` is a tenant, or "" for the server."""

    account: str
    period: str
    currency: str


class Drawn(NamedTuple):
    """The amount drawn, and the total of settled amounts and leases after it."""

    amount: int
    taken: int


class Used(NamedTuple):
    """Usage of a model by a tenant on a day, for a judge and a rubric; `nano` is in nano-units.

    `judge` is the kind of the judge.
    """

    day: str
    tenant: str
    judge: str
    model: str
    rubric: str
    currency: str
    questions: int
    input_tokens: int
    output_tokens: int
    nano: int


class Settled(NamedTuple):
    """An amount spent from a budget, and an amount to release from this process's lease."""

    account: Account
    spent: int
    released: int


Result = TypeVar("Result")

_log = Logger("budget")


class LedgerFault(Exception):
    """The ledger can't be read or written, so that the spending is unknown."""


def _wake(waiters: Iterable[asyncio.Future[bool]], is_written: bool) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(is_written)


def boot_time() -> float:
    """Return seconds since boot: all processes agree on them, and clock changes don't move them."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


class Ledger(ABC):
    """One process's access to the spending, for use on one event loop."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._process = uuid.uuid4().hex
        self._waiting: deque[Settled | Used] = deque()
        self._batch: list[Settled | Used] = []
        self._writer: asyncio.Task[None] | None = None
        self._waiters: list[asyncio.Future[bool]] = []
        self._is_failing = False
        self._closed = False

    @property
    def is_away(self) -> bool:
        """Whether the ledger is in a shared store that is unreachable now."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Write the queued entries, end this process's leases, and close the ledger."""

    @abstractmethod
    async def _on_thread(self, work: Callable[[], Result]) -> Result:
        """Run `work` on the ledger's thread; return its result. Raises LedgerFault."""

    @abstractmethod
    def _execute(self, statement: str, values: Sequence[object]) -> Iterable[tuple[Any, ...]]:
        """Return the rows of a statement. On the thread, as is all that reads or writes below."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[object]:
        """Return a transaction to use in a `with`."""

    def _begins(self) -> bool:
        """Return False if an earlier transaction has already committed this batch."""
        return True

    async def draw(self, account: Account, limit: int, wanted: int, holds: int) -> Drawn:
        """Lease `wanted`, or as much as the limit leaves. Raises LedgerFault.

        `holds` is the most that this process may hold. It is leased again if that lease has ended;
        a larger lease, of a draw whose result was lost, is reduced to it.
        """
        return await self._on_thread(partial(self._draw, account, limit, wanted, holds))

    def settle(self, account: Account, spent: int, released: int) -> None:
        """Queue an amount spent, and an amount to release from the lease."""
        if spent or released:
            self._waiting.append(Settled(account, spent, released))
            self._write_soon()

    def note(self, used: Used) -> None:
        """Queue usage to be written."""
        self._waiting.append(used)
        self._write_soon()

    async def written(self, within_s: float | None = None) -> bool:
        """Wait until all entries queued before are written; return True.

        Return False if that takes longer than `within_s`; with None wait without a limit.
        """
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._write_soon()
        try:
            async with asyncio.timeout(within_s):
                return await waiter
        except TimeoutError:
            return False

    async def renew(self) -> None:
        """Renew this process's leases for LEASE_S."""
        with suppress(LedgerFault):
            await self._on_thread(self._renew)

    async def used(self, since: str, tenant: str | None = None) -> list[Used]:
        """Return usage since a day, of one tenant or all, oldest first. Raises LedgerFault."""
        await self.written(BUSY_S)
        return await self._on_thread(partial(self.read_used, since, tenant))

    def _renew(self) -> None:
        self._write()  # retries failed writes that no caller waits for
        self._execute(_RENEW, [self._process])

    def read_used(self, since: str, tenant: str | None = None) -> list[Used]:
        """Return the same, on the ledger's thread. Raises the driver's errors."""
        return [Used(*row) for row in self._execute(READ_USED, [since, tenant, tenant])]

    def _write_soon(self) -> None:
        if self._writer is None and not self._closed:
            self._writer = asyncio.create_task(self._write_all())

    async def _write_all(self) -> None:
        """Write until the queue is empty; after a failure, retry while a caller waits."""
        waiters = self._waiters
        try:
            while self._waiting or self._waiters:
                await asyncio.sleep(LINGER_S)
                # Callers that come during the write wait for the next, even if the queue is empty
                # by then: `_draw` may be writing their entries.
                waiters, self._waiters = self._waiters, []
                try:
                    await self._on_thread(self._write)
                except LedgerFault as fault:
                    # The entries stay queued and their money stays leased, so that no more is
                    # spent than was drawn.
                    if not self._is_failing:
                        self._warn(fault)
                    self._is_failing = True
                    self._waiters = [each for each in waiters + self._waiters if not each.done()]
                    if not self._waiters:
                        return
                    await asyncio.sleep(AGAIN_S)
                else:
                    self._is_failing = False
                    _wake(waiters, True)
        finally:
            self._writer = None
            _wake(waiters + self._waiters, False)

    def _warn(self, error: Exception) -> None:
        _log.warning("spending not written", file=self._where, reason=str(error))

    def _write(self) -> None:
        """Write the queued entries; on failure they stay queued."""
        while self._batch or self._waiting:
            if not self._batch:
                self._batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
            with self._transaction():
                if self._begins():
                    self._settle_all()
            self._batch = []

    def _settle_all(self) -> None:
        settled: dict[Account, list[int]] = {}
        used: dict[tuple[str, ...], list[int]] = {}
        for entry in self._batch:
            more: Sequence[int]
            if isinstance(entry, Used):
                sums, more = used.setdefault(entry[:6], [0] * 4), entry[6:]
            else:
                sums, more = settled.setdefault(entry.account, [0] * 2), entry[1:]
            sums[:] = (min(a + b, MOST_NANO) for a, b in zip(sums, more, strict=True))
        for account, (spent, released) in sorted(settled.items()):
            self._execute(_SETTLE, [*account, spent])
            self._execute(_RELEASE, [released, *account, self._process])
        for key, counts in sorted(used.items()):
            self._execute(_USED, [*key, *counts])

    def _draw(self, account: Account, limit: int, wanted: int, holds: int) -> Drawn:
        self._write()  # spending not yet written counts against the limit
        lease = [*account, self._process]
        with self._transaction():
            self._execute(_SETTLE, [*account, 0])  # locks the account's row
            self._execute(_END, account)
            self._execute(_LEASE_HELD, [*lease, holds])
            [(total,)] = self._execute(_TAKEN, [*account, *account])
            taken = int(total)
            drawn = min(wanted, max(0, limit - taken))
            if drawn:
                self._execute(_LEASE_MORE, [*lease, drawn])
        return Drawn(drawn, taken + drawn)

    def _end(self) -> None:
        """Write the queued entries, and end this process's leases."""
        self._write()
        self._execute(_LEAVE, [self._process])


class FileLedger(Ledger):
    """A ledger in a SQLite file that the servers of a machine share."""

    def __init__(self, path: Path, now: Callable[[], float] = boot_time) -> None:
        """Open or create the file. Raises SettingsError if that fails."""
        super().__init__(str(path))
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_private(path)
            self._db = connect(path, BUSY_S)
            self._db.create_function("now", 0, now)
            self._db.create_function("least", 2, min)
            self._db.create_function("greatest", 2, max)
            with transaction(self._db):
                for statement in TABLES.split(";"):
                    self._db.execute(_for_file(statement))
        except OSError as error:
            raise SettingsError(
                f"budget file {path} can't be used: {error.strerror}; name one that the server may "
                "write to, as file under [budget]"
            ) from None
        except sqlite3.Error as error:
            raise SettingsError(
                f"budget file {path} can't be used: {error}; name another, or move it away and "
                "today's spending is counted anew"
            ) from None

    async def _on_thread(self, work: Callable[[], Result]) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error as error:
            raise LedgerFault(str(error)) from error

    def _execute(self, statement: str, values: Sequence[object]) -> Iterable[tuple[Any, ...]]:
        return self._db.execute(_for_file(statement), values)

    def _transaction(self) -> AbstractContextManager[None]:
        return transaction(self._db)

    def close(self) -> None:
        """Write the queued entries, end this process's leases, and close the file."""
        if self._closed:
            return
        self._closed = True
        if self._writer is not None:
            self._writer.cancel()
        self._thread.submit(self._leave).result()
        self._thread.shutdown()
        self._db.close()

    def _leave(self) -> None:
        try:
            self._db.execute(f"PRAGMA busy_timeout = {LEAVING_S * 1000:.0f}")
            self._end()
        except sqlite3.Error as error:
            self._warn(error)
