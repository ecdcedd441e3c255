"""What the servers of a machine have spent today, in a small file that survives their restarts.

A process draws an allowance from it, a hundredth of the budget at a time, keeps two of these at
most beside what it has reserved, and gives back what is left when it ends. So most questions cost
no access to the file, and what the row says is never less than what was spent: a process that is
killed leaves its allowance behind as spent. A thread of its own reads and writes the file, one
thing after the other, so that the event loop never waits for another process.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from judged_server.llm.transport.clock import Clock
from judged_server.settings import SettingsError
from judged_server.spending import MOST_NANO
from judged_server.store.sqlite_file import make_private
from judged_server.telemetry import logger

BUSY_S = 1.0
"""How long another process may keep the file to itself; its turns take less than a millisecond."""
STEPS = 100
"""The allowances a budget is cut into."""

_CREATE = """
CREATE TABLE IF NOT EXISTS spending (
    day TEXT NOT NULL, currency TEXT NOT NULL, nano INTEGER NOT NULL, PRIMARY KEY (day, currency)
) WITHOUT ROWID
"""
_log = logger("budget")


class LedgerFault(Exception):
    """The file can't be read or written, so that nobody knows what was spent."""


def default_ledger(environ: Mapping[str, str]) -> Path:
    """Return where the file is when the operator names none: beside the user's other state."""
    root = environ.get("XDG_STATE_HOME", "")
    base = Path(root) if root.startswith("/") else Path.home() / ".local" / "state"
    return base / "judged" / "spending.sqlite"


class _Drawn(NamedTuple):
    """What was drawn of a day, and what the file has as spent since."""

    day: str
    amount: int
    spent: int


class DayLedger:
    """The budget of a day as one process sees it. Used on one event loop.

    `limit` is in nano-units. All amounts are.
    """

    def __init__(self, path: Path, currency: str, limit: int, clock: Clock) -> None:
        """Open the file, or make it. Raises SettingsError when that fails."""
        self._path = path
        self._currency = currency
        self._clock = clock
        self.limit = limit
        self._held: dict[str, int] = {}
        self._allowance = 0
        self._day = self._today()
        self._drawing = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="day-ledger")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_private(path)
            self._db = sqlite3.connect(
                path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute(_CREATE)
            self._seen = self._read(self._day)
        except OSError as error:
            raise SettingsError(f"budget file {path}: {error.strerror}") from None
        except sqlite3.Error as error:
            raise SettingsError(
                f"budget file {path} can't be used: {error}; name another, or move it away and "
                "today's spending is counted anew"
            ) from None

    @property
    def held(self) -> int:
        """What is reserved today, by this process, for calls under way."""
        return self._held.get(self._day, 0)

    def left(self) -> int:
        """Return what this process could still reserve today, as of when it last drew."""
        self._roll_over_day()
        return max(0, self.limit - self._seen + self._allowance)

    def take(self, amount: int) -> str | None:
        """Reserve an amount of what was drawn; return the day it was taken from.

        None when not as much is drawn: `draw` may change that.
        """
        self._roll_over_day()
        if self._allowance < amount:
            return None
        self._allowance -= amount
        self._held[self._day] = self._held.get(self._day, 0) + amount
        return self._day

    async def draw(self, amount: int) -> bool:
        """Draw from the file what `take` lacks for an amount; return whether there was as much.

        Raises LedgerFault when the file can't be written.
        """
        async with self._drawing:
            self._roll_over_day()
            missing = amount - self._allowance
            if missing > 0:
                drawn = asyncio.get_running_loop().run_in_executor(
                    self._thread, self._draw, self._day, max(missing, self.limit // STEPS)
                )
                drawn.add_done_callback(self._credit)
                try:
                    # What is drawn for a caller who leaves is there for the next one.
                    await asyncio.shield(drawn)
                except sqlite3.Error as error:
                    raise LedgerFault(str(error)) from error
            return self._allowance >= amount

    def settle(self, day: str, amount: int, spent: int) -> None:
        """Put what was spent in the place of what was reserved on that day."""
        self._roll_over_day()
        left = self._held.get(day, 0) - amount
        if left:
            self._held[day] = left
        else:
            self._held.pop(day, None)
        if day != self._day:
            self._add_later(day, spent - amount)
            return
        self._allowance += amount - spent
        step = self.limit // STEPS
        if self._allowance > 2 * step:
            # What a burst of calls had put aside and did not need may be another process's chance.
            surplus, self._allowance = self._allowance - step, step
            self._add_later(day, -surplus)
        elif self._allowance < 0:
            # More than was reserved: the file must know, whatever its limit.
            debt, self._allowance = -self._allowance, 0
            self._add_later(day, debt)

    def close(self) -> None:
        """Give back what is left of the allowance, and close the file. Waits for the file."""
        self._thread.submit(self._add, self._day, -self._allowance)
        self._allowance = 0
        self._thread.shutdown()
        self._db.close()

    def _today(self) -> str:
        return self._clock.date().date().isoformat()

    def _roll_over_day(self) -> None:
        """Begin a new day, in whichever direction the clock has gone."""
        today = self._today()
        if today != self._day:
            self._add_later(self._day, -self._allowance)
            self._allowance = self._seen = 0
            self._day = today

    def _credit(self, drawn: asyncio.Future[_Drawn]) -> None:
        """Put what was drawn into the allowance, or back if its day is over."""
        if drawn.cancelled() or drawn.exception() is not None:
            return
        day, amount, seen = drawn.result()
        if day == self._day:
            self._allowance += amount
            self._seen = seen
        else:
            self._add_later(day, -amount)

    def _add_later(self, day: str, amount: int) -> None:
        """Have an amount added to a day's spending.

        What can't be written stays with this process: as a debt, which is paid before anything else
        is drawn, or as an allowance.
        """
        if not amount:
            return

        def see(added: asyncio.Future[bool]) -> None:
            if not added.result() and day == self._day:
                self._allowance -= amount

        loop = asyncio.get_running_loop()
        loop.run_in_executor(self._thread, self._add, day, amount).add_done_callback(see)

    def _read(self, day: str) -> int:
        row = self._db.execute(
            "SELECT nano FROM spending WHERE day = ? AND currency = ?", (day, self._currency)
        ).fetchone()
        return 0 if row is None else int(row[0])

    def _draw(self, day: str, wanted: int) -> _Drawn:
        """Take as much of a day's budget as is wanted, or left, out of the file."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            spent = self._read(day)
            drawn = min(wanted, max(0, self.limit - spent))
            if drawn:
                self._write(day, spent + drawn)
            self._db.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        return _Drawn(day, drawn, spent + drawn)

    def _add(self, day: str, amount: int) -> bool:
        """Add to a day's spending, beyond its limit if need be; return whether that worked."""
        if not amount:
            return True
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._write(day, max(0, self._read(day) + amount))
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            _log.warning("spending not written", file=str(self._path), reason=str(error))
            return False
        return True

    def _write(self, day: str, nano: int) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO spending VALUES (?, ?, ?)",
            (day, self._currency, min(nano, MOST_NANO)),
        )

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
