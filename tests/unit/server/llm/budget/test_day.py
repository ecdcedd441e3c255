from __future__ import annotations

import asyncio
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from judged_server.llm.budget import DayLedger, LedgerFault, default_ledger
from judged_server.llm.transport.clock import Clock
from judged_server.settings import SettingsError


class Calendar(Clock):
    def __init__(self) -> None:
        self.today = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)

    def date(self) -> datetime:
        return self.today


@pytest.fixture
def calendar() -> Calendar:
    return Calendar()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "spending.sqlite"


def rows(file: Path) -> dict[str, int]:
    with sqlite3.connect(file) as db:
        return dict(db.execute("SELECT day, nano FROM spending").fetchall())


async def take(ledger: DayLedger, amount: int) -> str | None:
    while (day := ledger.take(amount)) is None:
        if not await ledger.draw(amount):
            return None
    return day


async def spend(ledger: DayLedger, amount: int, spent: int) -> bool:
    day = await take(ledger, amount)
    if day is not None:
        ledger.settle(day, amount, spent)
    return day is not None


async def test_what_was_spent_is_there_after_a_restart(file, calendar):
    ledger = DayLedger(file, "USD", 1000, calendar)
    assert await spend(ledger, 600, 450)
    ledger.close()
    assert rows(file) == {"2026-03-01": 450}
    again = DayLedger(file, "USD", 1000, calendar)
    assert await take(again, 551) is None
    assert await take(again, 550) is not None
    again.close()


async def test_a_process_that_is_killed_leaves_what_it_held_as_spent(file, calendar):
    killed = DayLedger(file, "USD", 1000, calendar)  # and never closed
    assert await take(killed, 300) is not None
    again = DayLedger(file, "USD", 1000, calendar)
    assert await take(again, 701) is None
    assert await take(again, 700) is not None


async def test_processes_share_a_day(file, calendar):
    first, second = (DayLedger(file, "USD", 1000, calendar) for _ in range(2))
    days = [await take(ledger, 7) for _ in range(500) for ledger in (first, second)]
    taken = len(days) - days.count(None)
    assert 1000 - 2 * 10 <= 7 * taken <= 1000
    assert rows(file)["2026-03-01"] <= 1000


async def test_what_a_burst_did_not_need_goes_back(file, calendar):
    first, second = (DayLedger(file, "USD", 1000, calendar) for _ in range(2))
    days = [await take(first, 100) for _ in range(10)]
    assert await take(second, 10) is None
    for day in days:
        first.settle(day, 100, 1)
    async with asyncio.timeout(9):
        while await take(second, 900) is None:
            """What goes back is written behind the call."""


async def test_a_new_day_begins_anew_and_a_clock_put_back_finds_the_old_one(file, calendar):
    ledger = DayLedger(file, "USD", 100, calendar)
    held = await take(ledger, 60)
    assert await spend(ledger, 30, 30)
    calendar.today += timedelta(hours=1)
    assert await take(ledger, 100) == "2026-03-02"
    ledger.settle(held, 60, 50)  # counts on the day it was taken from
    calendar.today -= timedelta(hours=1)
    assert await take(ledger, 21) is None
    assert await take(ledger, 20) == "2026-03-01"


async def test_more_than_was_reserved_is_told_truthfully(file, calendar):
    ledger = DayLedger(file, "USD", 100, calendar)
    assert await spend(ledger, 10, 5000)
    assert await take(ledger, 1) is None
    assert rows(file)["2026-03-01"] == 5000
    assert ledger.left() == 0
    ledger.close()
    assert rows(file)["2026-03-01"] == 5000


async def test_currencies_are_apart(file, calendar):
    dollars = DayLedger(file, "USD", 100, calendar)
    assert await take(dollars, 100) is not None
    assert await take(DayLedger(file, "EUR", 100, calendar), 100) is not None


async def test_what_cant_be_written_lets_nothing_be_asked(file, calendar):
    ledger = DayLedger(file, "USD", 100_000, calendar)
    assert await spend(ledger, 10, 10)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LedgerFault):
        await take(ledger, 50_000)
    other.execute("ROLLBACK")
    other.close()
    assert await take(ledger, 50_000) is not None


async def test_the_event_loop_goes_on_while_another_process_has_the_file(file, calendar):
    ledger = DayLedger(file, "USD", 100_000, calendar)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    taking = asyncio.create_task(take(ledger, 50_000))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not taking.done()
    other.execute("ROLLBACK")
    other.close()
    assert await taking is not None
    ledger.close()


async def test_what_is_drawn_for_a_caller_who_leaves_is_there_for_the_next(file, calendar):
    ledger = DayLedger(file, "USD", 100, calendar)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")  # so that the caller leaves while it draws
    leaving = asyncio.create_task(take(ledger, 100))
    for _ in range(5):
        await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    other.execute("ROLLBACK")
    other.close()
    assert await take(ledger, 100) is not None
    ledger.close()


def test_a_file_that_is_none_of_ours_stops_the_start(tmp_path, calendar):
    path = tmp_path / "notes.txt"
    path.write_text("no database " * 500)
    with pytest.raises(SettingsError, match=r"notes.txt can't be used.*move it away"):
        DayLedger(path, "USD", 100, calendar)
    with pytest.raises(SettingsError, match="budget file"):
        DayLedger(path / "below", "USD", 100, calendar)


def test_the_usual_place():
    assert default_ledger({"XDG_STATE_HOME": "/state"}) == Path("/state/judged/spending.sqlite")
    assert default_ledger({"XDG_STATE_HOME": "relative"}).is_relative_to(Path.home())
