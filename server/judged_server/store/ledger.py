"""What the servers of a machine have spent, in a file that survives their restarts and kills.

Those that share a store have it there: `store.postgres_ledger`.

An account is a budget: that of the server, or one of a tenant. In a period (a day, a month) it has

* what is settled: spent for good, by whom ever, and
* leases: what a process has drawn and not settled yet. It renews them while it runs; those of one
  that was killed end LEASE_S later, and what they held can be drawn again.

What is settled is written before the answer that it paid for is given, so that a kill loses no
charge but for questions under way. The file also has what each tenant asked of each model, by day
and by judge; of what no budget counts, a kill may lose what waits to be written.

A thread of its own reads and writes the file, one thing after the other, so that the event loop
never waits for another process; what comes while it writes is written together.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

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

_CREATE = (
    """
    CREATE TABLE IF NOT EXISTS settled (
        account TEXT NOT NULL, period TEXT NOT NULL, currency TEXT NOT NULL, nano INTEGER NOT NULL,
        PRIMARY KEY (account, period, currency)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS leases (
        process TEXT NOT NULL, account TEXT NOT NULL, period TEXT NOT NULL, currency TEXT NOT NULL,
        nano INTEGER NOT NULL, until REAL NOT NULL,
        PRIMARY KEY (account, period, currency, process)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS used (
        day TEXT NOT NULL, tenant TEXT NOT NULL, judge TEXT NOT NULL, model TEXT NOT NULL,
        rubric TEXT NOT NULL, currency TEXT NOT NULL, questions INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, nano INTEGER NOT NULL,
        PRIMARY KEY (day, tenant, judge, model, rubric, currency)
    ) WITHOUT ROWID
    """,
)
_SETTLE = """
    INSERT INTO settled VALUES (:account, :period, :currency, :spent)
    ON CONFLICT DO UPDATE SET nano = MIN(nano + :spent, :most)
"""
_RELEASE = """
    UPDATE leases SET nano = MAX(0, nano - :released), until = :until
    WHERE process = :process AND account = :account AND period = :period AND currency = :currency
"""
_LEASE = """
    INSERT INTO leases VALUES (:process, :account, :period, :currency, :nano, :until)
    ON CONFLICT DO UPDATE SET nano = nano + :nano, until = :until
"""
_LEASE_AGAIN = """
    INSERT INTO leases VALUES (:process, :account, :period, :currency, :nano, :until)
    ON CONFLICT DO NOTHING
"""
_USED = """
    INSERT INTO used VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET questions = questions + excluded.questions,
        input_tokens = input_tokens + excluded.input_tokens,
        output_tokens = output_tokens + excluded.output_tokens, nano = nano + excluded.nano
"""


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
    """The file can't be read or written, so that nobody knows what was spent."""


def _wake(waiters: Iterable[asyncio.Future[bool]], is_written: bool) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(is_written)


def boot_time() -> float:
    """Return seconds that all processes of a machine share, and that no clock change moves."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


class Ledger:
    """The file as one process sees it. Used on one event loop."""

    def __init__(self, path: Path, now: Callable[[], float] = boot_time) -> None:
        """Open the file, or make it. Raises SettingsError when that fails."""
        self._begin(str(path))
        self._now = now
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_private(path)
            self._db = connect(path, BUSY_S)
            with transaction(self._db):
                for statement in _CREATE:
                    self._db.execute(statement)
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

    def _begin(self, where: str) -> None:
        self._where = where
        self._process = uuid.uuid4().hex
        self._waiting: deque[Settled | Used] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._waiters: list[asyncio.Future[bool]] = []
        self._is_failing = False
        self._closed = False

    @property
    def is_away(self) -> bool:
        """Whether it is kept in a store of several servers that can't be reached now."""
        return False

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
        until = self._now() + LEASE_S
        self._db.execute("UPDATE leases SET until = ? WHERE process = ?", (until, self._process))

    def read_used(self, since: str, tenant: str | None = None) -> list[Used]:
        """Return the same, for a thread that has the file to itself. Raises sqlite3.Error."""
        rows = self._db.execute(
            "SELECT * FROM used WHERE day >= ? AND (? IS NULL OR tenant = ?) ORDER BY day, tenant",
            (since, tenant, tenant),
        )
        return [Used(*row) for row in rows]

    async def _on_thread(self, work: Callable[[], Result]) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error as error:
            raise LedgerFault(str(error)) from error

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
        entries = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if not entries:
            return
        until = self._now() + LEASE_S
        try:
            with transaction(self._db):
                for entry in entries:
                    if isinstance(entry, Used):
                        self._db.execute(_USED, entry)
                    else:
                        self._settle(entry, until)
        except BaseException:
            self._waiting.extendleft(reversed(entries))
            raise

    def _settle(self, entry: Settled, until: float) -> None:
        values: dict[str, object] = {
            **entry.account._asdict(),
            "spent": min(entry.spent, MOST_NANO),
            "released": min(entry.released, MOST_NANO),
            "most": MOST_NANO,
            "process": self._process,
            "until": until,
        }
        if entry.spent:
            self._db.execute(_SETTLE, values)
        self._db.execute(_RELEASE, values)

    def _draw(self, account: Account, limit: int, wanted: int, holds: int) -> Drawn:
        self._write()  # what could not be written before counts before anything is drawn
        now = self._now()
        with transaction(self._db):
            # One from before the machine was started anew may end later than any can.
            self._db.execute(
                "DELETE FROM leases WHERE until < ? OR until > ?", (now, now + LEASE_S)
            )
            values = {**account._asdict(), "process": self._process, "until": now + LEASE_S}
            if holds:
                self._db.execute(_LEASE_AGAIN, {**values, "nano": holds})
            taken = self._sum("settled", account) + self._sum("leases", account)
            drawn = min(wanted, max(0, limit - taken))
            if drawn:
                self._db.execute(_LEASE, {**values, "nano": drawn})
        return Drawn(drawn, taken + drawn)

    def _sum(self, table: str, account: Account) -> int:
        (total,) = self._db.execute(
            f"SELECT SUM(nano) FROM {table} WHERE account = ? AND period = ? AND currency = ?",  # noqa: S608 - a name of our own
            account,
        ).fetchone()
        return int(total or 0)

    def _leave(self) -> None:
        try:
            self._db.execute(f"PRAGMA busy_timeout = {LEAVING_S * 1000:.0f}")
            self._write()
        except sqlite3.Error as error:
            self._warn(error)
        with suppress(sqlite3.Error):
            self._db.execute("DELETE FROM leases WHERE process = ?", (self._process,))
