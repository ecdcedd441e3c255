"""Rows and claims of two processes over one real PostgreSQL server."""

from __future__ import annotations

import asyncio
import hashlib
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from judged_server.store.kept_rows import Row, StoreAway

from tests.fakes.cutting_proxy import cutting_proxy
from tests.fakes.postgres import Postgres, running_postgres

_OTHER = uuid.UUID(int=1)


def opened(database: Postgres, ttl_s: float = 1e12):
    from judged_server.store.postgres import PostgresRows

    return PostgresRows(database.url, ttl_s)


def key(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def row(name: str, payload: bytes = b"reply", created: int = 1000) -> Row:
    return Row(key(name), payload, created)


async def test_a_row_is_there_for_the_other_process(a, b):
    await a.keep(row("kept"), 5)
    assert await b.get([key("kept"), key("none")]) == {key("kept"): row("kept")}
    await b.keep(row("kept", b"newer"), 5)
    assert (await a.get([key("kept")]))[key("kept")].payload == b"newer"


async def is_free(rows, name: str) -> bool:
    """Claim a key, or leave it after a while."""
    try:
        async with asyncio.timeout(0.3):
            assert await rows.claim(key(name)) is None
    except TimeoutError:
        return False
    return True


async def test_one_of_many_has_the_claim_and_the_others_get_its_row(a, b):
    claiming = {
        (n, rows): asyncio.create_task(rows.claim(key(f"many {n}")))
        for n in range(700)
        for rows in (a, b)
    }
    async with asyncio.timeout(10):
        while sum(each.done() for each in claiming.values()) < 700:  # noqa: ASYNC110 - by threads
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.15)
    mine = {n: rows for (n, rows), each in claiming.items() if each.done()}
    assert len(mine) == sum(each.done() for each in claiming.values()) == 700
    for n, rows in mine.items():
        await rows.keep(row(f"many {n}", b"%d" % n), 0)
    async with asyncio.timeout(10):
        for (n, rows), each in claiming.items():
            found = await each
            assert found is None if mine[n] is rows else found.payload == b"%d" % n


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
            db.execute("INSERT INTO judged_replies_2 VALUES (%s, 0, '', 0, %s)", values)
            claiming = asyncio.create_task(is_free(a, f"waited {n}"))
            async with asyncio.timeout(5):
                while not database.run("SELECT 1 FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        assert not await claiming
        database.run("UPDATE judged_processes_1 SET until = now() WHERE process = %s", _OTHER)


async def test_a_claim_that_is_released_is_the_next_one_s(a, b):
    assert await is_free(a, "released")
    assert not await is_free(a, "released")
    following = asyncio.create_task(b.claim(key("released")))
    await asyncio.sleep(0.05)
    a.release(key("released"))
    assert await following is None


async def test_a_release_leaves_the_row_and_the_claims_of_others(a, b):
    await a.keep(row("left"), 5)
    assert await is_free(b, "left, too")
    a.release(key("left"))
    a.release(key("left, too"))
    assert not await is_free(a, "left, too")
    assert await a.get([key("left")])


async def test_a_claim_whose_caller_leaves_at_any_moment_is_nobody_s(a, b):
    for n in range(40):
        claiming = asyncio.create_task(a.claim(key(f"gone {n}")))
        await asyncio.sleep(n * 0.0002)
        claiming.cancel()
        came = await asyncio.gather(claiming, return_exceptions=True)
        if came[0] is not None:
            async with asyncio.timeout(5):
                assert await b.claim(key(f"gone {n}")) is None


async def test_a_row_that_counts_no_more_can_be_claimed(a, database: Postgres):
    now = int(time.time())
    for n, created in enumerate((now - 50, now - 101, now + 90_000)):
        await a.keep(row(f"old {n}", created=created), 5)
    strict = opened(database, 100)
    assert (await strict.claim(key("old 0"))).created == now - 50
    assert await is_free(strict, "old 1")
    assert await is_free(strict, "old 2")
    assert await a.get([key("old 1")]) == {}
    await asyncio.to_thread(strict.close)


async def test_a_damaged_row_is_none_and_whoever_claims_it_is_told(a, database: Postgres):
    await a.keep(row("damaged"), 5)
    database.run("UPDATE judged_replies_2 SET payload = 'other' WHERE key = %s", key("damaged"))
    assert await a.get([key("damaged")]) == {}
    assert (await a.claim(key("damaged"))).payload == b""
    await a.keep(row("damaged"), 5)
    assert await a.get([key("damaged")])


async def test_rows_are_of_any_size(a):
    kept = [Row(key(f"size {n}"), bytes(range(256)) * n, 2**40 + n) for n in (1, 100, 4000)]
    for each in kept:
        await a.keep(each, 5)
    assert await a.get([each.key for each in kept]) == {each.key: each for each in kept}


async def test_a_connection_that_is_cut_fails_nothing(a, database: Postgres):
    await a.keep(row("cut"), 5)
    for n in range(5):
        database.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'judged' AND pid <> pg_backend_pid()"
        )
        assert await a.get([key("cut")])
        assert await a.claim(key(f"cut {n}")) is None
    assert not a.is_away


async def test_a_backup_without_the_tables_is_used_as_it_is(a, b, database: Postgres):
    await a.keep(row("before"), 5)
    database.run("DROP TABLE judged_replies_2, judged_processes_1, judged_used_1")
    assert await a.get([key("before")]) == {}
    assert await is_free(a, "before")
    following = asyncio.create_task(b.claim(key("before")))
    await a.keep(row("before"), 5)
    assert (await following).payload == b"reply"


_CLAIMER = """
import asyncio, sys, time
from judged_server.store.kept_rows import Row
from judged_server.store.postgres import PostgresRows

told = time.time
time.time = lambda: told() + float(sys.argv[3])

async def claim():
    rows, key = PostgresRows(sys.argv[1], 2_592_000), bytes.fromhex(sys.argv[2])
    print(await rows.claim(key), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await rows.keep(Row(key, b"late", created=int(time.time())), 5)
    rows.release(key)
    await asyncio.to_thread(rows.close)

asyncio.run(claim())
"""


@contextmanager
def claimer(database: Postgres, name: str, ahead_s: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has a claim, whose clock is wrong, and which keeps a row when told."""
    command = [sys.executable, "-c", _CLAIMER, database.url, key(name).hex(), str(ahead_s)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as other:
        assert other.stdout.readline() == b"None\n"
        try:
            yield other
        finally:
            other.kill()


@pytest.mark.parametrize(
    ("number", "ahead_s"), [(signal.SIGKILL, 3600), (signal.SIGSTOP, -3600)], ids=str
)
async def test_the_claims_of_a_process_that_is_killed_or_stands_still_end_with_its_lease(
    a, database: Postgres, number: signal.Signals, ahead_s: int
):
    """Whatever its clock says; and what it writes afterwards takes nothing away."""
    from judged_server.store.postgres import LEASE_S

    with claimer(database, number.name, ahead_s) as other:
        assert not await is_free(a, number.name)
        other.send_signal(number)
        began = time.monotonic()
        assert await a.claim(key(number.name)) is None
        assert time.monotonic() - began < LEASE_S + 1
        await a.keep(row(number.name), 5)
        if number == signal.SIGSTOP:
            other.send_signal(signal.SIGCONT)
            await asyncio.to_thread(other.communicate, b"\n")
            assert (await a.get([key(number.name)]))[key(number.name)].payload == b"late"
            assert other.returncode == 0


async def test_a_process_that_ends_gives_up_its_claims(a, database: Postgres):
    other = opened(database)
    assert await is_free(other, "ended")
    await asyncio.to_thread(other.close)
    assert await is_free(a, "ended")


def test_a_pooler_is_asked_for_nothing_that_it_refuses(database: Postgres):
    from judged_server.store.postgres import connect

    with connect(database.url) as db:
        assert "options" not in db.info.get_parameters()
        assert db.execute("SHOW statement_timeout").fetchone() == ("5s",)


def test_nothing_but_a_store_imports_the_driver():
    code = "import sys, judged_server.app; print([m for m in sys.modules if 'psycopg' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


async def away(rows, is_away: bool) -> None:
    """Wait until it is: at most 2 s for its coming back."""
    async with asyncio.timeout(5 if is_away else 2):
        while rows.is_away != is_away:  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.01)


@contextmanager
def all_connections(database: Postgres) -> Iterator[None]:
    """Take all connections there are, also those that others have."""
    psycopg = pytest.importorskip("psycopg")
    taken = [psycopg.connect(database.url, autocommit=True)]
    try:
        are_taken = False
        while not are_taken:
            ended = taken[0].execute(
                "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity "
                "WHERE application_name = 'judged'"
            )
            are_taken = len(taken) > 1 and not ended.fetchall()
            with suppress(psycopg.OperationalError):
                while True:
                    taken.append(psycopg.connect(database.url))
        yield
    finally:
        for each in taken:
            each.close()


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
            assert await is_free(rows, f"back {time.monotonic()}")
            with database.paused():
                claiming = asyncio.create_task(rows.claim(key(f"p {time.monotonic()}")))
                await asyncio.sleep(1)
            assert await claiming is None  # a pause fails nothing
            name = f"fails {time.monotonic()}"
            assert await is_free(rows, name)
            followed = asyncio.create_task(rows.claim(key(name)))
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
            await rows.claim(key("any"))
        assert time.monotonic() - began < 0.1

    async def test_one_that_stands_still_is_not_waited_for_long(self, database: Postgres):
        database.start()
        await asyncio.to_thread(database.wait)
        rows = opened(database)
        assert await is_free(rows, "first")
        with database.paused():
            began = time.monotonic()
            with pytest.raises(StoreAway):
                await rows.claim(key("second"))
            assert time.monotonic() - began < 3.5
            await self.refused(rows)
        await away(rows, False)
        assert await is_free(rows, "third")
        other = opened(database)
        async with asyncio.timeout(5):  # the one that was given up is nobody's
            assert await other.claim(key("second")) is None
        for each in (rows, other):
            await asyncio.to_thread(each.close)

    async def test_connections_that_are_used_up_are_a_store_that_is_away(self, database: Postgres):
        database.start()
        await asyncio.to_thread(database.wait)
        with all_connections(database):
            rows = opened(database)
            await self.refused(rows)
        await away(rows, False)
        assert await is_free(rows, "first")
        with all_connections(database):
            await self.refused(rows)
        await away(rows, False)
        assert await is_free(rows, "second")
        await asyncio.to_thread(rows.close)

    async def test_one_that_takes_no_claims_as_its_disk_is_full_is_away(self, database: Postgres):
        database.start()
        await asyncio.to_thread(database.wait)
        rows = opened(database)
        assert await is_free(rows, "before")
        full = "CHECK (payload <> '') NOT VALID"
        database.run(f"ALTER TABLE judged_replies_2 ADD CONSTRAINT full_disk {full}")
        with pytest.raises(StoreAway):
            await rows.claim(key("full"), 20)
        database.run("ALTER TABLE judged_replies_2 DROP CONSTRAINT full_disk")
        await away(rows, False)
        assert await is_free(rows, "full")
        await asyncio.to_thread(rows.close)

    async def test_a_proxy_that_cuts_fails_nothing_and_one_that_is_down_is_a_store_that_is_away(
        self, database: Postgres
    ):
        database.start()
        await asyncio.to_thread(database.wait)
        with cutting_proxy(f"127.0.0.1:{database.port}") as proxy:
            rows = opened(Postgres(database.folder, int(proxy.address.rpartition(":")[2])))
            for n in range(5):
                # Both connections stand: one that is cut twice in a row is a store that is away.
                await rows.keep(row(f"kept {n}"), 5)
                assert await rows.get([key(f"kept {n}")])
                assert await is_free(rows, f"before {n}")
                proxy.cut()
                assert await is_free(rows, f"cut {n}")
            proxy.is_down = True
            proxy.cut()
            await self.refused(rows)
            await rows.keep(row("while down"), 5)
            proxy.is_down = False
            await away(rows, False)
            assert await is_free(rows, "again")
            while not await rows.get([key("while down")]):  # noqa: ASYNC110 - of another thread
                await asyncio.sleep(0.05)
            await asyncio.to_thread(rows.close)

    async def test_a_backup_has_its_rows_and_no_claim_of_a_process_that_is_gone(
        self, database: Postgres
    ):
        database.start()
        await asyncio.to_thread(database.wait)
        rows = opened(database)
        await rows.keep(row("in it", b"old"), 5)
        with claimer(database, "gone"):
            database.kill()
        database.back_up()
        database.start()
        await asyncio.to_thread(database.wait)
        await away(rows, False)
        await rows.keep(row("in it", b"new"), 5)
        await rows.keep(row("later"), 5)
        assert set(await rows.get([key("in it"), key("later")])) == {key("in it"), key("later")}
        database.kill()
        database.restore()
        database.start()
        await asyncio.to_thread(database.wait)
        await away(rows, False)
        assert (await rows.get([key("in it")]))[key("in it")].payload == b"old"
        assert await is_free(rows, "later")
        async with asyncio.timeout(7):
            assert await rows.claim(key("gone")) is None
        await asyncio.to_thread(rows.close)
