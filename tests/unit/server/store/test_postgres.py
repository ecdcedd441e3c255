"""Rows and claims of two processes over one real PostgreSQL server."""

from __future__ import annotations

import asyncio
import hashlib
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from judged_server.store.kept_rows import Row, StoreAway

from tests.fakes.postgres import Postgres, running_postgres

EVER = (0.0, 1e12)
_OTHER = uuid.UUID(int=1)


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with running_postgres() as running:
        yield running


def opened(database: Postgres):
    from judged_server.store.postgres import PostgresRows

    return PostgresRows(database.url)


@pytest.fixture
async def a(database: Postgres) -> AsyncIterator[Any]:
    rows = opened(database)
    yield rows
    await asyncio.to_thread(rows.close)


@pytest.fixture
async def b(database: Postgres) -> AsyncIterator[Any]:
    rows = opened(database)
    yield rows
    await asyncio.to_thread(rows.close)


def key(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def row(name: str, payload: bytes = b"reply", created: int = 1000) -> Row:
    return Row(key(name), payload, "rubric", 1, "model", created)


async def test_a_row_is_there_for_the_other_process(a, b):
    await a.keep(row("kept"), 5)
    assert await b.get([key("kept"), key("none")]) == {key("kept"): row("kept")}
    await b.keep(row("kept", b"newer"), 5)
    assert (await a.get([key("kept")]))[key("kept")].payload == b"newer"


async def test_one_of_many_has_the_claim_and_the_others_get_its_row(a, b):
    keys = [key(f"many {n}") for n in range(700)]
    firsts = await asyncio.gather(*(rows.claim(each, *EVER) for each in keys for rows in (a, b)))
    pairs = list(zip(firsts[::2], firsts[1::2], strict=True))
    assert all(sorted(pair) == [False, True] for pair in pairs)
    following = [
        asyncio.create_task((b if mine else a).follow(each))
        for each, (mine, _) in zip(keys, pairs, strict=True)
    ]
    await asyncio.sleep(0.15)
    assert not any(each.done() for each in following)
    for place, (mine, _) in enumerate(pairs):
        await (a if mine else b).keep(row(f"many {place}", b"%d" % place), 0)
    found = await asyncio.gather(*following)
    assert [each.payload for each in found] == [b"%d" % place for place in range(700)]


async def test_a_claim_that_waits_for_another_one_sees_the_lease_that_came_with_it(
    a, database: Postgres
):
    """Whether the other process has never claimed before, or its lease had ended."""
    psycopg = pytest.importorskip("psycopg")
    assert await a.get([key("none")]) == {}  # the tables are there
    for n in range(2):
        with psycopg.connect(database.url) as db:
            db.execute(
                "INSERT INTO judged_processes_1 VALUES (%s, now() + interval '60 s') "
                "ON CONFLICT (process) DO UPDATE SET until = EXCLUDED.until",
                [_OTHER],
            )
            values = [key(f"waited {n}"), _OTHER]
            db.execute("INSERT INTO judged_replies_1 VALUES (%s, 0, '', '', 0, '', 0, %s)", values)
            claiming = asyncio.create_task(a.claim(key(f"waited {n}"), *EVER))
            async with asyncio.timeout(5):
                while not database.run("SELECT 1 FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        assert not await claiming
        database.run("UPDATE judged_processes_1 SET until = now() WHERE process = %s", _OTHER)


async def test_a_claim_that_is_released_is_the_next_one_s(a, b):
    assert await a.claim(key("released"), *EVER)
    assert not await a.claim(key("released"), *EVER)
    following = asyncio.create_task(b.follow(key("released")))
    a.release(key("released"))
    assert await following is None
    assert await b.claim(key("released"), *EVER)


async def test_a_release_leaves_the_row_and_the_claims_of_others(a, b):
    await a.keep(row("left"), 5)
    assert await b.claim(key("left, too"), *EVER)
    a.release(key("left"))
    a.release(key("left, too"))
    await asyncio.sleep(0.1)
    assert await a.get([key("left")])
    assert not await a.claim(key("left, too"), *EVER)


async def test_a_claim_whose_caller_leaves_at_any_moment_is_nobody_s(a, b):
    for n in range(40):
        claiming = asyncio.create_task(a.claim(key(f"gone {n}"), *EVER))
        await asyncio.sleep(n * 0.0002)
        claiming.cancel()
        came = await asyncio.gather(claiming, return_exceptions=True)
        if came[0] is not True:
            async with asyncio.timeout(5):
                while not await b.claim(key(f"gone {n}"), *EVER):
                    assert await b.follow(key(f"gone {n}")) is None


async def test_a_row_that_counts_no_more_can_be_claimed(a, b):
    await a.keep(row("old", created=1000), 5)
    assert not await b.claim(key("old"), 999.0, 2000.0)
    assert (await b.follow(key("old"))).created == 1000
    assert await b.claim(key("old"), 1000.0, 2000.0)
    assert await a.get([key("old")]) == {}


async def test_a_damaged_row_is_none_and_whoever_follows_is_told(a, database: Postgres):
    await a.keep(row("damaged"), 5)
    database.run("UPDATE judged_replies_1 SET payload = 'other' WHERE key = %s", key("damaged"))
    assert await a.get([key("damaged")]) == {}
    assert (await a.follow(key("damaged"))).payload == b""
    await a.keep(row("damaged"), 5)
    assert await a.get([key("damaged")])


async def test_rows_are_of_any_size_and_text(a):
    kept = [
        Row(key(f"size {n}"), bytes(range(256)) * n, "é{},\"'\\", n, "☃ NULL", 2**40 + n)
        for n in (1, 100, 4000)
    ]
    for each in kept:
        await a.keep(each, 5)
    assert await a.get([each.key for each in kept]) == {each.key: each for each in kept}


async def test_a_name_that_no_text_can_hold_stops_no_other(a):
    await a.keep(row("nul")._replace(model="a\0b"), 5)
    await a.keep(row("after"), 5)
    assert set(await a.get([key("nul"), key("after")])) == {key("after")}


async def test_a_connection_that_is_cut_fails_nothing(a, database: Postgres):
    await a.keep(row("cut"), 5)
    for n in range(5):
        database.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'judged' AND pid <> pg_backend_pid()"
        )
        assert await a.get([key("cut")])
        assert await a.claim(key(f"cut {n}"), *EVER)
    assert not a.is_away


async def test_a_backup_without_the_tables_is_used_as_it_is(a, b, database: Postgres):
    await a.keep(row("before"), 5)
    database.run("DROP TABLE judged_replies_1, judged_processes_1")
    assert await a.get([key("before")]) == {}
    assert await a.claim(key("before"), *EVER)
    assert not await b.claim(key("before"), *EVER)
    await a.keep(row("before"), 5)
    assert (await b.follow(key("before"))).payload == b"reply"


_CLAIMER = """
import asyncio, sys
from judged_server.store.postgres import PostgresRows

async def claim():
    rows = PostgresRows(sys.argv[1])
    print(await rows.claim(bytes.fromhex(sys.argv[2]), 0.0, 1e12), flush=True)
    await asyncio.sleep(60)

asyncio.run(claim())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_the_claims_of_a_process_that_is_killed_or_stands_still_end_with_its_lease(
    a, database: Postgres, number: signal.Signals
):
    from judged_server.store.postgres import LEASE_S

    command = [sys.executable, "-c", _CLAIMER, database.url, key(number.name).hex()]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:  # noqa: ASYNC220 - waited for
        assert await asyncio.to_thread(other.stdout.readline) == b"True\n"
        assert not await a.claim(key(number.name), *EVER)
        other.send_signal(number)
        began = time.monotonic()
        assert await a.follow(key(number.name)) is None
        assert time.monotonic() - began < LEASE_S + 1
        assert await a.claim(key(number.name), *EVER)
        other.send_signal(signal.SIGCONT)
        other.kill()


async def test_a_process_that_ends_gives_up_its_claims(a, database: Postgres):
    other = opened(database)
    assert await other.claim(key("ended"), *EVER)
    await asyncio.to_thread(other.close)
    assert await a.follow(key("ended")) is None


def test_nothing_but_a_store_imports_the_driver():
    code = "import sys, judged_server.app; print([m for m in sys.modules if 'psycopg' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


async def away(rows, is_away: bool) -> None:
    """Wait until it is: at most 2 s for its coming back."""
    async with asyncio.timeout(5 if is_away else 2):
        while rows.is_away != is_away:  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.01)


class TestAway:
    @pytest.fixture
    def database(self) -> Iterator[Postgres]:
        with running_postgres(started=False) as made:
            yield made

    async def test_it_comes_back_by_itself_and_what_was_kept_is_written(self, database: Postgres):
        rows = opened(database)
        await self.refused(rows)
        await rows.keep(row("while away"), 5)
        for _ in range(2):
            database.start()
            await asyncio.to_thread(database.wait)
            await away(rows, False)
            while not await rows.get([key("while away")]):  # noqa: ASYNC110 - of another thread
                await asyncio.sleep(0.05)
            assert await rows.claim(key(f"back {time.monotonic()}"), *EVER)
            with database.paused():
                claiming = asyncio.create_task(rows.claim(key(f"p {time.monotonic()}"), *EVER))
                await asyncio.sleep(1)
            assert await claiming  # a pause fails nothing
            following = asyncio.create_task(rows.claim(key("fails"), *EVER))
            await following
            followed = asyncio.create_task(rows.follow(key("fails")))
            await asyncio.sleep(0.2)
            database.kill()
            with pytest.raises(StoreAway):
                await followed
            await self.refused(rows)
        await asyncio.to_thread(rows.close)

    @staticmethod
    async def refused(rows) -> None:
        await away(rows, True)
        began = time.monotonic()
        assert await rows.get([key("any")]) == {}
        with pytest.raises(StoreAway):
            await rows.claim(key("any"), *EVER)
        assert time.monotonic() - began < 0.1

    async def test_one_that_stands_still_is_not_waited_for_long(self, database: Postgres):
        database.start()
        await asyncio.to_thread(database.wait)
        rows = opened(database)
        assert await rows.claim(key("first"), *EVER)
        with database.paused():
            began = time.monotonic()
            with pytest.raises(StoreAway):
                await rows.claim(key("second"), *EVER)
            assert time.monotonic() - began < 3.5
            await self.refused(rows)
        await away(rows, False)
        assert await rows.claim(key("third"), *EVER)
        other = opened(database)
        async with asyncio.timeout(5):  # the one that was given up is nobody's
            while not await other.claim(key("second"), *EVER):
                assert await other.follow(key("second")) is None
        for each in (rows, other):
            await asyncio.to_thread(each.close)
