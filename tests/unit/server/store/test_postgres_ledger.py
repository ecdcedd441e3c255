"""What servers spend, written down in one real PostgreSQL server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from random import Random

import pytest
from judged_server.store.ledger import Account, Drawn, LedgerFault, Used

from tests.fakes.postgres import Postgres, running_postgres

DAY = "2026-11-28"


def opened(database: Postgres):
    from judged_server.store.postgres_ledger import PostgresLedger

    return PostgresLedger(database.url)


def account(name: str) -> Account:
    return Account(name, DAY, "USD")


def used(model: str, tenant: str = "a") -> Used:
    return Used(DAY, tenant, "llm", model, "r", "USD", 1, 700, 20, 5)


async def settled(ledger, name: str, spent: int, released: int) -> None:
    ledger.settle(account(name), spent, released)
    assert await ledger.written(10)


async def test_what_one_has_drawn_or_spent_the_other_can_t(a, b):
    assert await a.draw(account("x"), 100, 60, 0) == Drawn(60, 60)
    assert await b.draw(account("x"), 100, 60, 0) == Drawn(40, 100)
    await settled(a, "x", 50, 60)
    assert await b.draw(account("x"), 100, 60, 40) == Drawn(10, 100)
    await settled(b, "x", 0, 50)
    assert await a.draw(account("x"), 100, 0, 0) == Drawn(0, 50)
    assert await a.draw(account("y"), 100, 7, 0) == Drawn(7, 7)


async def test_a_lease_that_has_ended_is_free_and_one_that_is_renewed_is_not(
    a, b, database: Postgres
):
    await a.draw(account("lease"), 100, 100, 0)
    age = "UPDATE judged_leases_1 SET until = until - 50 WHERE account = 'lease'"
    database.run(age)
    await a.renew()
    database.run(age)
    assert await b.draw(account("lease"), 100, 100, 0) == Drawn(0, 100)
    database.run(age)
    assert await b.draw(account("lease"), 100, 70, 0) == Drawn(70, 70)
    # Who slept through it holds what it holds all the same.
    assert await a.draw(account("lease"), 100, 10, 100) == Drawn(0, 170)
    # What was drawn for it, but told to nobody, is free.
    for _ in range(2):
        assert await a.draw(account("lost"), 100, 60, 0) == Drawn(60, 60)


async def test_one_that_ends_gives_back_what_it_has_drawn(a, database: Postgres):
    other = opened(database)
    await other.draw(account("ended"), 100, 100, 0)
    other.settle(account("ended"), 30, 30)
    await asyncio.to_thread(other.close)
    assert await a.draw(account("ended"), 100, 100, 0) == Drawn(70, 100)


async def test_what_was_used_is_summed_by_all(a, b, database: Postgres):
    from judged_server.store.postgres_ledger import used_since

    for number in range(50):
        (a if number % 2 else b).note(used(f"m{number % 3}"))
    a.note(used("m0", "other"))
    assert await b.written(10)
    found = await a.used(DAY, "a")
    assert {each.model: (each.questions, each.nano) for each in found} == {
        "m0": (17, 85), "m1": (17, 85), "m2": (16, 80),
    }  # fmt: skip
    assert len(await a.used(DAY)) == 4
    assert used_since(database.url, DAY) == await b.used(DAY)
    assert await a.used("2026-11-29") == []


async def test_what_is_written_as_the_connection_is_cut_counts_once(a, b, database: Postgres):
    async def cut() -> None:
        for _ in range(12):
            await asyncio.sleep(0.01)
            await asyncio.to_thread(
                database.run,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'judged' AND pid <> pg_backend_pid()",
            )

    async def spend(ledger) -> None:
        for _ in range(100):
            ledger.settle(account("cut"), 1, 0)
            assert await ledger.written(20)

    await asyncio.gather(cut(), spend(a), spend(b))
    [(total,)] = database.run("SELECT nano FROM judged_settled_1 WHERE account = 'cut'")
    assert total == 200


_SPENDER = """
import asyncio, sys
from judged_server.store.ledger import Account
from judged_server.store.postgres_ledger import PostgresLedger

async def draw():
    ledger = PostgresLedger(sys.argv[1])
    print(await ledger.draw(Account("quota", "2026-11-28", "USD"), 2_000, 17, 0), flush=True)
    await asyncio.sleep(60)

asyncio.run(draw())
"""


async def test_four_spend_a_quota_and_no_more_though_one_is_killed(database: Postgres):
    rng = Random(5)

    async def spend(ledger) -> int:
        told = 0
        while drawn := (await ledger.draw(account("quota"), 2_000, 17, 0)).amount:
            await asyncio.sleep(rng.random() * 0.002)
            spent = rng.randrange(drawn + 1)
            await settled(ledger, "quota", spent, drawn)
            told += spent
        return told

    command = [sys.executable, "-c", _SPENDER, database.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:  # noqa: ASYNC220 - killed
        assert b"amount=17" in await asyncio.to_thread(other.stdout.readline)
        other.kill()
    ledgers = [opened(database) for _ in range(3)]
    told = await asyncio.gather(*map(spend, ledgers))
    for ledger in ledgers:
        await asyncio.to_thread(ledger.close)
    [(total,)] = database.run("SELECT nano FROM judged_settled_1 WHERE account = 'quota'")
    leased = database.run("SELECT nano FROM judged_leases_1 WHERE account = 'quota'")
    assert leased == [(17,)]
    assert sum(told) == total == 2_000 - 17


async def test_nothing_is_drawn_while_the_store_is_away_and_what_was_spent_is_written_then():
    with running_postgres(started=False) as database:
        ledger = opened(database)
        while not ledger.is_away:  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.01)
        with pytest.raises(LedgerFault):
            await ledger.draw(account("away"), 100, 60, 0)
        ledger.settle(account("away"), 30, 0)
        assert not await ledger.written(0.2)
        database.start()
        await asyncio.to_thread(database.wait)
        async with asyncio.timeout(2):
            while ledger.is_away:  # noqa: ASYNC110 - set by another thread
                await asyncio.sleep(0.01)
        assert await ledger.draw(account("away"), 100, 100, 0) == Drawn(70, 100)
        await asyncio.to_thread(ledger.close)
