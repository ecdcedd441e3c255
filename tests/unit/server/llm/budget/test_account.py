"""Budgets of a day and of a month over a real ledger, by one process and by several."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from judged_server.llm.budgets import BudgetAccount, Budgets, Period
from judged_server.llm.transport.endpoint import Clock
from judged_server.store.ledger import LEASE_S, Account, FileLedger, Ledger, LedgerFault
from judged_server.tenant import TENANT, Tenant


class Process(BudgetAccount):
    """An account of one process, which has opened the ledger for itself."""

    def __init__(self, ledger: Ledger, limit: int, clock: Clock) -> None:
        super().__init__(ledger, "USD", limit, clock)
        self.ledger = ledger


Begin = Callable[[int], Process]


class Calendar(Clock):
    """A date and a time since the start of the machine, which only the test moves."""

    def __init__(self) -> None:
        self.today = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
        self.since_boot = 1000.0

    def date(self) -> datetime:
        return self.today


@pytest.fixture
def calendar() -> Calendar:
    return Calendar()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "spending.sqlite"


@pytest.fixture
def ledgers(file: Path, calendar: Calendar) -> Iterator[Callable[[], Ledger]]:
    """Makes ledgers of the file, as processes of their own have them."""
    made: list[Ledger] = []

    def make() -> Ledger:
        made.append(FileLedger(file, lambda: calendar.since_boot))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def process(ledgers: Callable[[], Ledger], calendar: Calendar) -> Begin:
    return lambda limit: Process(ledgers(), limit, calendar)


def rows(file: Path) -> dict[str, int]:
    with sqlite3.connect(file) as db:
        return dict(db.execute("SELECT period, nano FROM settled").fetchall())


async def take(account: BudgetAccount, amount: int) -> Account | None:
    while (taken := account.take(amount)) is None:
        if not await account.draw(amount):
            return None
    return taken


async def spend(account: Process, amount: int, spent: int) -> bool:
    taken = await take(account, amount)
    if taken is not None:
        account.settle(taken, amount, spent)
        await account.ledger.written()
    return taken is not None


async def test_what_was_spent_is_there_after_a_restart(file, process):
    first = process(1000)
    assert await spend(first, 600, 450)
    first.ledger.close()
    assert rows(file) == {"2026-03-01": 450}
    again = process(1000)
    assert await take(again, 551) is None
    assert await take(again, 550) is not None


async def test_what_a_killed_process_held_is_free_again_after_its_lease(process, calendar):
    killed, other = process(1000), process(1000)
    assert await take(killed, 300) is not None
    assert await take(other, 701) is None
    calendar.since_boot += LEASE_S - 1
    assert await take(other, 701) is None
    calendar.since_boot += 2
    assert await take(other, 1000) is not None


async def test_a_process_that_runs_renews_what_it_holds(process, calendar):
    running, other = process(1000), process(1000)
    assert await take(running, 300) is not None
    for _ in range(5):
        calendar.since_boot += LEASE_S / 2
        await running.ledger.renew()
        assert await take(other, 701) is None
    assert await take(other, 690) is not None


async def test_a_process_that_slept_through_its_lease_draws_nothing_twice(process, calendar):
    slept = process(1000)
    assert await take(slept, 300) is not None
    calendar.since_boot += 10 * LEASE_S
    assert await take(slept, 701) is None
    assert await take(slept, 700) is not None


async def test_a_machine_that_is_started_anew_keeps_no_lease(process, calendar):
    killed = process(1000)
    assert await take(killed, 300) is not None
    calendar.since_boot = 5.0
    assert await take(process(1000), 1000) is not None


async def test_processes_share_a_day(file, process):
    first, second = process(1000), process(1000)
    taken = [await take(each, 7) for _ in range(500) for each in (first, second)]
    amount = 7 * (len(taken) - taken.count(None))
    assert 1000 - 2 * 10 <= amount <= 1000


async def test_what_a_burst_did_not_need_goes_back(process):
    first, second = process(1000), process(1000)
    taken = [await take(first, 100) for _ in range(10)]
    assert await take(second, 10) is None
    for each in taken:
        first.settle(each, 100, 1)
    await first.ledger.written()
    assert await take(second, 900) is not None


async def test_a_new_day_begins_anew_and_a_clock_put_back_finds_the_old_one(process, calendar):
    account = process(100)
    held = await take(account, 60)
    assert await spend(account, 30, 30)
    calendar.today += timedelta(hours=1)
    assert (await take(account, 100)).period == "2026-03-02"
    account.settle(held, 60, 50)  # counts on the day it was taken from
    calendar.today -= timedelta(hours=1)
    assert await take(account, 21) is None
    assert (await take(account, 20)).period == "2026-03-01"


async def test_tenants_and_their_days_and_months_are_apart(ledgers, calendar):
    budgets = Budgets("USD", ledger=ledgers(), clock=calendar)

    async def accounts(name: str, **limits: float):
        TENANT.set(Tenant(name, **limits))
        return budgets.own()

    month, day = await asyncio.create_task(accounts("a", per_day=1e-7, per_month=2e-7))
    assert (month.period, day.period) == (Period.MONTH, Period.DAY)
    assert (month.limit, day.limit) == (200, 100)
    assert await take(day, 100) is not None
    assert await take(day, 1) is None
    assert await take(month, 100) is not None
    (other,) = await asyncio.create_task(accounts("b", per_day=1e-7))
    assert await take(other, 100) is not None
    assert await asyncio.create_task(accounts("c")) == []
    # A limit that is raised counts at once, for what was spent before.
    (raised,) = await asyncio.create_task(accounts("b", per_day=1.5e-7))
    assert raised is other
    assert await take(other, 51) is None
    assert await take(other, 50) is not None
    calendar.today += timedelta(hours=1)
    assert await take(day, 100) is not None
    assert (await take(month, 100)).period == "2026-03"
    assert await take(month, 1) is None


async def test_what_could_not_be_written_is_written_before_more_is_drawn(file, process):
    account = process(1000)
    taken = await take(account, 400)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    account.settle(taken, 400, 400)
    assert not await account.ledger.written(0.01)
    assert not sum(rows_of(other).values())
    other.execute("ROLLBACK")
    other.close()
    assert await take(account, 601) is None
    assert rows(file) == {"2026-03-01": 400}


def rows_of(db: sqlite3.Connection) -> dict[str, int]:
    return dict(db.execute("SELECT period, nano FROM settled").fetchall())


async def test_more_than_was_reserved_is_told_truthfully(file, process):
    account = process(100)
    assert await spend(account, 10, 5000)
    assert await take(account, 1) is None
    assert rows(file)["2026-03-01"] == 5000
    assert account.left() == 0


async def test_currencies_are_apart(ledgers, calendar):
    ledger = ledgers()
    assert await take(BudgetAccount(ledger, "USD", 100, calendar), 100) is not None
    assert await take(BudgetAccount(ledger, "EUR", 100, calendar), 100) is not None


async def test_what_cant_be_written_lets_nothing_be_asked(file, process):
    account = process(100_000)
    assert await spend(account, 10, 10)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LedgerFault):
        await take(account, 50_000)
    other.execute("ROLLBACK")
    other.close()
    assert await take(account, 50_000) is not None


async def test_what_is_drawn_for_a_caller_who_leaves_is_there_for_the_next(file, process):
    account = process(100)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")  # so that the caller leaves while it draws
    leaving = asyncio.create_task(take(account, 100))
    for _ in range(5):
        await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    other.execute("ROLLBACK")
    other.close()
    assert await take(account, 100) is not None
