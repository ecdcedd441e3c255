"""A budget of a day or of a month, as one process sees it.

A process draws an allowance from the ledger, a hundredth of the budget at a time, keeps two of
these at most beside what it has reserved, and gives back what it does not need. So most questions
cost no access to the file before they are asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from functools import lru_cache
from pathlib import Path

from judged_server.domain import nano_within
from judged_server.llm.transport.clock import Clock
from judged_server.settings import state_folder
from judged_server.store.ledger import Account, Ledger
from judged_server.tenant import TENANT

STEPS = 100
"""The allowances a budget is cut into."""


class Period(Enum):
    """How long a budget is for, by the calendar in UTC; the value is a format of its name."""

    DAY = "%Y-%m-%d"
    MONTH = "%Y-%m"

    def name_at(self, time: datetime) -> str:
        """Return the name of the day or month that a time is in."""
        return _name_of_day(self.value, time.toordinal())


@lru_cache(maxsize=16)
def _name_of_day(form: str, day: int) -> str:
    return date.fromordinal(day).strftime(form)


def default_ledger(environ: Mapping[str, str]) -> Path:
    """Return where the file is when the operator names none: beside the user's other state."""
    return state_folder(environ) / "spending.sqlite"


class BudgetAccount:
    """One budget. Used on one event loop. All amounts are in nano-units.

    `limit` may change while it is used. `owner` is "" for the server, else a tenant.
    """

    def __init__(
        self,
        ledger: Ledger,
        currency: str,
        limit: int,
        clock: Clock,
        owner: str = "",
        period: Period = Period.DAY,
    ) -> None:
        self._ledger = ledger
        self._currency = currency
        self._clock = clock
        self.owner = owner
        self.period = period
        self.limit = limit
        self.ended = 0
        """How many reservations have ended."""
        self._held: Counter[Account] = Counter()
        self._allowance = 0
        self._taken = 0
        self._day = clock.date().toordinal()
        self._now = self._account()
        self._drawing = asyncio.Lock()

    @property
    def name(self) -> str:
        """What the budget is called in errors."""
        name = "per_month" if self.period is Period.MONTH else "per_day"
        return f"tenant_{name}" if self.owner else name

    def renewed_at(self) -> datetime:
        """Return when the next day or month begins, in UTC."""
        now = self._clock.date()
        if self.period is Period.DAY:
            return datetime(now.year, now.month, now.day, tzinfo=UTC) + timedelta(days=1)
        return datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)

    @property
    def held(self) -> int:
        """What is reserved now, by this process, for calls under way."""
        return self._held[self._now]

    def left(self) -> int:
        """Return what this process could still reserve, as of when it last drew."""
        self._roll_over()
        return max(0, self.limit - self._taken + self._allowance)

    async def look(self) -> int:
        """Return what any process could still reserve, as of now. Raises LedgerFault."""
        async with self._drawing:
            self._roll_over()
            await self._draw(self._now, 0)
            return self.left()

    def take(self, amount: int) -> Account | None:
        """Reserve an amount of what was drawn; return the account and period it was taken from.

        None when not as much is drawn: `draw` may change that.
        """
        self._roll_over()
        if self._allowance < amount:
            return None
        self._allowance -= amount
        self._held[self._now] += amount
        return self._now

    async def draw(self, amount: int) -> bool:
        """Draw what `take` lacks for an amount; return whether there was as much.

        Raises LedgerFault when it can't be written down.
        """
        async with self._drawing:
            self._roll_over()
            missing = amount - self._allowance
            if missing > 0:
                wanted = max(missing, self.limit // STEPS)
                # What is drawn for a caller who leaves is there for the next one.
                drawing = asyncio.create_task(self._draw(self._now, wanted))
                drawing.add_done_callback(_look_at)
                await asyncio.shield(drawing)
            return self._allowance >= amount

    def settle(self, taken: Account, amount: int, spent: int) -> None:
        """Put what was spent in the place of what was reserved; `written` says when it is safe."""
        self._roll_over()
        self.ended += 1
        self._held[taken] -= amount
        if not self._held[taken]:
            del self._held[taken]
        if taken != self._now:
            self._ledger.settle(taken, spent, amount)
            return
        self._allowance += amount - spent
        step = self.limit // STEPS
        released = spent
        if self._allowance > 2 * step:
            # What a burst of calls had put aside and did not need may be another process's chance.
            released += self._allowance - step
            self._allowance = step
        elif self._allowance < 0:
            # More than was drawn, and it was spent all the same.
            released += self._allowance
            self._allowance = 0
        self._taken += spent - released
        self._ledger.settle(taken, spent, released)

    async def _draw(self, account: Account, wanted: int) -> None:
        holds = self._allowance + self._held[account]
        drawn = await self._ledger.draw(account, self.limit, wanted, holds)
        if account == self._now:
            self._allowance += drawn.amount
            self._taken = drawn.taken
        else:
            self._ledger.settle(account, 0, drawn.amount)

    def _account(self) -> Account:
        name = f"tenant:{self.owner}" if self.owner else ""
        return Account(name, self.period.name_at(self._clock.date()), self._currency)

    def _roll_over(self) -> None:
        """Begin a new period, in whichever direction the clock has gone."""
        day = self._clock.date().toordinal()
        if day == self._day:
            return
        self._day = day
        now = self._account()
        if now != self._now:
            self._ledger.settle(self._now, 0, self._allowance)
            self._allowance = self._taken = 0
            self._now = now


def _look_at(drawing: asyncio.Task[None]) -> None:
    """Take note of a failure that nobody may wait for any more; the next caller meets it anew."""
    if not drawing.cancelled():
        drawing.exception()


class TenantBudgets:
    """Returns the budgets of the tenant of the call in work. Used on one event loop."""

    def __init__(self, ledger: Ledger, currency: str, clock: Clock) -> None:
        self._ledger = ledger
        self._currency = currency
        self._clock = clock
        self._begun: dict[tuple[str, Period], BudgetAccount] = {}

    def __call__(self) -> Sequence[BudgetAccount]:
        """Return none, one or two of them, those of a month first."""
        tenant = TENANT.get()
        found = []
        limits = ((Period.MONTH, tenant.per_month), (Period.DAY, tenant.per_day))
        for period, limit in limits:
            if limit is not None:
                account = self._begun.get((tenant.name, period)) or self._begin(tenant.name, period)
                account.limit = nano_within(limit)
                found.append(account)
        return found

    def _begin(self, name: str, period: Period) -> BudgetAccount:
        account = BudgetAccount(self._ledger, self._currency, 0, self._clock, name, period)
        self._begun[name, period] = account
        return account
