"""What servers have spent, where it survives their restarts and kills.

That is a file of those of one machine, or the store that servers share (`store.postgres_ledger`).

An account is a budget: that of the server, or one of a tenant. In a period (a day, a month) it has

* what is settled: spent for good, by whom ever, and
* leases: what a process has drawn and not settled yet. It renews them while it runs; those of one
  that was killed end LEASE_S later, and what they held can be drawn again.

What is settled is written before the answer that it paid for is given, so that a kill loses no
charge but for questions under way. There is also what each tenant asked of each model, by day and
by judge; of what no budget counts, a kill may lose what waits to be written.

A thread of its own reads and writes, one thing after the other, so that the event loop never waits
for another process; what comes while it writes is written together.
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
"""How long another process may keep the file to itself; its turns take less than a millisecond."""
AGAIN_S = 0.1
"""How long after a failure it is tried again, where somebody waits."""
LEAVING_S = 5.0
"""How long a process that ends waits for the file."""
LINGER_S = 0.005
"""How long what waits to be written waits for more: a transaction takes a fifth of a question."""
LEASE_S = 60.0
"""How long a process that does not renew it keeps what it has drawn."""

# PostgreSQL's statements; `_for_file` makes SQLite's of them.
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
"""  # noqa: S608 - of our own words, here and below
_RELEASE = f"""
UPDATE judged_leases_1 SET nano = greatest(0, nano - %s), until = {_UNTIL}
WHERE {_OF} AND process = %s
"""  # noqa: S608
# One that began before a machine was started anew may end later than any can.
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
_LEASE_AGAIN = f"{_LEASE} NOTHING"
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
    """Return a statement for a file, whose tables have plain names."""
    return re.sub(r"judged_(\w+?)_1\b", r"\1", statement).replace("%s", "?")


class Account(NamedTuple):
    """A budget in one period: "" for the server's, or that of a tenant."""

    account: str
    period: str
    currency: str


class Drawn(NamedTuple):
    """What was drawn, and all that is settled or drawn by anybody since."""

    amount: int
    taken: int


class Used(NamedTuple):
    """What a tenant asked of a model by a judge and a rubric on a day; `nano` are nano-units.

    The judge is its kind.
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
    """What was spent of a budget for good, and how much of what was drawn is given back."""

    account: Account
    spent: int
    released: int


Result = TypeVar("Result")

_log = Logger("budget")


class LedgerFault(Exception):
    """It can't be read or written, so that nobody knows what was spent."""


def _wake(waiters: Iterable[asyncio.Future[bool]], is_written: bool) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(is_written)


def boot_time() -> float:
    """Return seconds that all processes of a machine share, and that no clock change moves."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


class Ledger(ABC):
    """What was spent, as one process sees it. Used on one event loop."""

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
        """Whether it is kept in a store of several servers that can't be reached now."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Write what waits, give back what this process has drawn, and end."""

    @abstractmethod
    async def _on_thread(self, work: Callable[[], Result]) -> Result:
        """Return what comes of work on the thread. Raises LedgerFault."""

    @abstractmethod
    def _execute(self, statement: str, values: Sequence[object]) -> Iterable[tuple[Any, ...]]:
        """Return the rows that a statement gives. For the thread, as all below."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[object]:
        """Return what does all of a `with`, or nothing of it."""

    def _begins(self) -> bool:
        """Return whether the batch in this transaction has not been written before."""
        return True

    async def draw(self, account: Account, limit: int, wanted: int, holds: int) -> Drawn:
        """Draw as much as is wanted, or left below a limit. Raises LedgerFault.

        `holds` is what this process has drawn before: it counts even if it slept through its lease.
        """
        return await self._on_thread(partial(self._draw, account, limit, wanted, holds))

    def settle(self, account: Account, spent: int, released: int) -> None:
        """Write soon what was spent for good, and give back so much of what was drawn."""
        if spent or released:
            self._waiting.append(Settled(account, spent, released))
            self._write_soon()

    def note(self, used: Used) -> None:
        """Write soon what a tenant asked of a model."""
        self._waiting.append(used)
        self._write_soon()

    async def written(self, within_s: float | None = None) -> bool:
        """Return once all that was settled or noted before is in the file: True.

        False when the time was over before; None waits for as long as it takes.
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
        """Keep what this process has drawn for LEASE_S more."""
        with suppress(LedgerFault):
            await self._on_thread(self._renew)

    async def used(self, since: str, tenant: str | None = None) -> list[Used]:
        """Return what was used from a day on, by one tenant or by all, the oldest first."""
        await self.written(BUSY_S)
        return await self._on_thread(partial(self.read_used, since, tenant))

    def _renew(self) -> None:
        self._write()  # what could not be written, and nobody waits for any more
        self._execute(_RENEW, [self._process])

    def read_used(self, since: str, tenant: str | None = None) -> list[Used]:
        """Return the same, for the thread that has it to itself. Raises what the driver does."""
        return [Used(*row) for row in self._execute(READ_USED, [since, tenant, tenant])]

    def _write_soon(self) -> None:
        if self._writer is None and not self._closed:
            self._writer = asyncio.create_task(self._write_all())

    async def _write_all(self) -> None:
        """Write until nothing waits; after a failure, until nobody waits for it."""
        waiters = self._waiters
        try:
            while self._waiting or self._waiters:
                await asyncio.sleep(LINGER_S)
                # Those who come while it writes need the next round, even where nothing waits by
                # then: `_draw` may be writing it.
                waiters, self._waiters = self._waiters, []
                try:
                    await self._on_thread(self._write)
                except LedgerFault as fault:
                    # It stays here, and what was drawn for it stays drawn: nothing more is asked
                    # than there was money for.
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
        """Write all that waits; what can't be written waits on."""
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
        self._write()  # what could not be written before counts before anything is drawn
        lease = [*account, self._process]
        with self._transaction():
            self._execute(_SETTLE, [*account, 0])  # from here on others wait
            self._execute(_END, account)
            if holds:
                self._execute(_LEASE_AGAIN, [*lease, holds])
            [(total,)] = self._execute(_TAKEN, [*account, *account])
            taken = int(total)
            drawn = min(wanted, max(0, limit - taken))
            if drawn:
                self._execute(_LEASE_MORE, [*lease, drawn])
        return Drawn(drawn, taken + drawn)

    def _end(self) -> None:
        """Write what waits, and give back what this process has drawn."""
        self._write()
        self._execute(_LEAVE, [self._process])


class FileLedger(Ledger):
    """A file of the servers of a machine."""

    def __init__(self, path: Path, now: Callable[[], float] = boot_time) -> None:
        """Open the file, or make it. Raises SettingsError when that fails."""
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
        """Write what waits, give back what this process has drawn, and close the file."""
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
