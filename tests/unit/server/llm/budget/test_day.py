from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from judged_server.llm.budget import DayLedger, LedgerFault, default_ledger
from judged_server.llm.clock import Clock
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


def spend(ledger: DayLedger, amount: int, spent: int) -> bool:
    day = ledger.take(amount)
    if day is not None:
        ledger.settle(day, amount, spent)
    return day is not None


def test_what_was_spent_is_there_after_a_restart(file, calendar):
    ledger = DayLedger(file, "USD", 1000, calendar)
    assert spend(ledger, 600, 450)
    ledger.close()
    assert rows(file) == {"2026-03-01": 450}
    again = DayLedger(file, "USD", 1000, calendar)
    assert again.take(551) is None
    assert again.take(550) is not None
    again.close()


def test_a_process_that_is_killed_leaves_what_it_held_as_spent(file, calendar):
    DayLedger(file, "USD", 1000, calendar).take(300)  # and never closed
    again = DayLedger(file, "USD", 1000, calendar)
    assert again.take(701) is None
    assert again.take(700) is not None


def test_processes_share_a_day(file, calendar):
    first, second = (DayLedger(file, "USD", 1000, calendar) for _ in range(2))
    taken = sum(ledger.take(7) is not None for _ in range(500) for ledger in (first, second))
    assert 1000 - 2 * 10 <= 7 * taken <= 1000
    assert rows(file)["2026-03-01"] <= 1000


def test_what_a_burst_did_not_need_goes_back(file, calendar):
    first, second = (DayLedger(file, "USD", 1000, calendar) for _ in range(2))
    days = [first.take(100) for _ in range(10)]
    assert second.take(10) is None
    for day in days:
        first.settle(day, 100, 1)
    assert second.take(900) is not None


def test_a_new_day_begins_anew_and_a_clock_put_back_finds_the_old_one(file, calendar):
    ledger = DayLedger(file, "USD", 100, calendar)
    held = ledger.take(60)
    assert spend(ledger, 30, 30)
    calendar.today += timedelta(hours=1)
    assert ledger.take(100) == "2026-03-02"
    ledger.settle(held, 60, 50)  # counts on the day it was taken from
    calendar.today -= timedelta(hours=1)
    assert ledger.take(21) is None
    assert ledger.take(20) == "2026-03-01"


def test_more_than_was_reserved_is_told_truthfully(file, calendar):
    ledger = DayLedger(file, "USD", 100, calendar)
    assert spend(ledger, 10, 5000)
    assert rows(file)["2026-03-01"] == 5000
    assert ledger.take(1) is None
    assert ledger.left() == 0
    ledger.close()
    assert rows(file)["2026-03-01"] == 5000


def test_currencies_are_apart(file, calendar):
    dollars = DayLedger(file, "USD", 100, calendar)
    assert dollars.take(100) is not None
    assert DayLedger(file, "EUR", 100, calendar).take(100) is not None


def test_what_cant_be_written_lets_nothing_be_asked(file, calendar):
    ledger = DayLedger(file, "USD", 100_000, calendar)
    assert spend(ledger, 10, 10)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LedgerFault):
        ledger.take(50_000)
    other.execute("ROLLBACK")
    other.close()
    assert ledger.take(50_000) is not None


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
