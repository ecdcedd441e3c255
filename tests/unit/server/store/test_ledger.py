"""What tenants asked is written down together."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from judged_server.store.ledger import Account, FileLedger, Used


def used(model: str) -> Used:
    return Used("2026-11-25", "a", "llm", model, "r", "USD", 1, 700, 20, 5)


def counts(path: Path) -> tuple[int, int]:
    """Return the questions and the money in the file."""
    with sqlite3.connect(path) as db:
        (questions,) = db.execute("SELECT SUM(questions) FROM used").fetchone()
        (money,) = db.execute("SELECT SUM(nano) FROM settled").fetchone()
    return questions or 0, money or 0


async def test_notes_are_written_together_and_told_whenever_asked(tmp_path: Path):
    ledger = FileLedger(path := tmp_path / "ledger")
    for number in range(50):
        ledger.note(used(f"m{number % 3}"))
    assert counts(path) == (0, 0)  # they wait for each other
    found = await ledger.used("2026-11-25")
    assert {each.model: each.questions for each in found} == {"m0": 17, "m1": 17, "m2": 16}
    assert counts(path) == (50, 0)
    ledger.close()


async def test_whoever_waits_has_its_own_money_in_the_file(tmp_path: Path):
    ledger = FileLedger(path := tmp_path / "ledger")

    async def spend(number: int) -> None:
        for _ in range(number % 7):  # some come while others' money is written
            await asyncio.sleep(0)
        ledger.settle(Account(f"a{number}", "2026-11-25", "USD"), number, 0)
        ledger.note(used("m"))
        await ledger.written()
        with sqlite3.connect(path) as db:
            found = db.execute("SELECT nano FROM settled WHERE account = ?", (f"a{number}",))
            assert found.fetchone() == (number,)

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for number in range(1, 60):
            tasks.create_task(spend(number))
    assert counts(path) == (59, sum(range(60)))
    ledger.close()


async def test_a_file_that_another_keeps_to_itself_is_not_waited_for_too_long(tmp_path: Path):
    ledger = FileLedger(path := tmp_path / "ledger")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    ledger.settle(Account("a", "2026-11-25", "USD"), 7, 0)
    await ledger.written(0.01)
    assert counts(path) == (0, 0)
    other.execute("ROLLBACK")
    await ledger.written()
    await ledger.written()  # the first attempt may have given up
    assert counts(path) == (0, 7)
    other.close()
    ledger.close()


async def test_what_a_draw_has_written_is_written_for_whoever_waits(tmp_path: Path):
    ledger = FileLedger(path := tmp_path / "ledger")
    account = Account("a", "2026-11-25", "USD")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for _ in range(2):  # the first waits for the file, the second for the first
            tasks.create_task(ledger.draw(account, 1000, 1, 0))
        await asyncio.sleep(0)
        other.execute("ROLLBACK")
        ledger.settle(account, 7, 0)
        while counts(path) != (0, 7):
            pass  # so that nothing else writes it
        assert await ledger.written()
    other.close()
    ledger.close()
