"""Kept rows: what is found was put there, whatever happened to the file, and nobody waits long."""

import asyncio
import contextlib
import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest
from judged_server.store import kept_rows
from judged_server.store.kept_rows import DAMAGED, REPLIES, KeptRows, Row

CAP = 16 << 20
KILL_ROUNDS = int(os.environ.get("JUDGED_TEST_KILL_ROUNDS", "10"))


def entry(number, size=200):
    """The one row of this number: its payload follows from its key."""
    key = hashlib.sha256(str(number).encode()).digest()
    payload = (key * (size // 32 + 1))[:size]
    return Row(key, payload, 1_700_000_000 + number)


def wrong_and_found(file, entries):
    """Count entries that come back changed, and those that come back."""
    wrong = found = 0
    for start in range(0, len(entries), 500):
        some = entries[start : start + 500]
        got = file.read([e.key for e in some])
        assert set(got) <= {e.key for e in some}
        wrong += sum(got[e.key] != e for e in some if e.key in got)
        found += len(got)
    return wrong, found


def read_by_another_process(path):
    """What a process that opens the file, reads it and closes it finds there."""
    script = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]);"
        "print(*(row[0] for row in db.execute('SELECT created FROM kept ORDER BY n'))); db.close()"
    )
    command = [sys.executable, "-c", script, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "kept"


@pytest.fixture
def open_file(folder):
    opened = []

    def build(max_bytes=CAP, kind=KeptRows):
        opened.append(kind(folder, REPLIES, max_bytes))
        return opened[-1]

    yield build
    for file in opened:
        file.close()


class TestDamage:
    @pytest.mark.parametrize(
        "change",
        [
            "payload = x'00'",
            "created = created + 1",
            "crc = crc + 1",
            "key = x'00'",
            "payload = 'text'",
            "created = 'then'",
        ],
    )
    def test_a_row_that_was_changed_is_a_miss_and_is_put_right(self, open_file, folder, change):
        file = open_file()
        file.write([entry(1), entry(2)])
        with contextlib.closing(sqlite3.connect(folder / REPLIES.name)) as other:
            other.execute(f"UPDATE kept SET {change} WHERE n = 1")  # noqa: S608
            other.commit()
        assert wrong_and_found(file, [entry(1), entry(2)]) == (0, 1)
        file.write([entry(1)])
        assert wrong_and_found(file, [entry(1), entry(2)]) == (0, 2)

    def test_a_thousand_random_bytes_flipped_never_give_a_wrong_row(self, open_file, folder):
        entries = [entry(number) for number in range(1000)]
        file = open_file()
        file.write(entries)
        file.close()
        path = folder / REPLIES.name
        whole = path.read_bytes()
        rng = random.Random(20)
        flipped = total = 0
        for flips in (1, 1, 2, 3, 5, 13, 100, 300, 575):
            damaged = bytearray(whole)
            for at in rng.sample(range(len(whole)), flips):
                damaged[at] ^= rng.randrange(1, 256)
            flipped += flips
            for left in folder.iterdir():
                left.unlink()
            path.write_bytes(damaged)
            file = open_file()
            wrong, found = wrong_and_found(file, entries)
            assert wrong == 0
            total += found
            assert file.write(entries[:10])
            assert wrong_and_found(file, entries[:10]) == (0, 10)
            file.close()
        assert flipped == 1000
        assert total > 0

    @pytest.mark.parametrize("raw", [b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 9000])
    def test_a_file_that_is_no_store_is_moved_aside_with_one_line(
        self, open_file, folder, caplog, raw
    ):
        folder.mkdir()
        (folder / REPLIES.name).write_bytes(raw)
        file = open_file()
        assert wrong_and_found(file, [entry(1)]) == (0, 0)
        assert file.write([entry(1)])
        assert wrong_and_found(file, [entry(1)]) == (0, 1)
        assert (folder / DAMAGED).read_bytes() == raw
        assert len(caplog.records) == 1

    @pytest.mark.parametrize(
        "code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR_WRITE]
    )
    def test_a_disk_that_fails_switches_it_off_with_one_line(self, open_file, caplog, code):
        file = open_file()

        def change(_):
            error = sqlite3.OperationalError("the disk failed")
            error.sqlite_errorcode = code
            raise error

        for _ in range(3):
            assert file.change(change) is None
            assert wrong_and_found(file, [entry(1)]) == (0, 0)
        assert not file.on
        (record,) = caplog.records
        assert record.getMessage().split(": ", 1)[1] == f"the disk failed; {REPLIES.instead}"

    def test_a_change_that_raises_leaves_nothing_half_done(self, open_file):
        file = open_file()
        file.write([entry(1)])

        def change(db):
            db.execute("DELETE FROM kept")
            raise ValueError("a bug")

        with pytest.raises(ValueError, match="a bug"):
            file.change(change)
        assert wrong_and_found(file, [entry(1)]) == (0, 1)
        assert file.write([entry(2)])


class TestSize:
    def test_it_stays_below_nine_tenths_of_its_cap_and_keeps_the_newest(self, open_file, folder):
        file = open_file()
        made = largest = 0
        while made * 4000 < 2 * CAP:
            # Some are sixty times as long as others.
            some = [entry(made + i, size=60_000 if i % 20 == 0 else 1000) for i in range(100)]
            assert file.write(some)
            made += len(some)
            largest = max(largest, sum(path.stat().st_size for path in folder.iterdir()))
        newest = [entry(n, size=60_000 if n % 20 == 0 else 1000) for n in range(made - 500, made)]
        assert wrong_and_found(file, newest) == (0, 500)
        assert wrong_and_found(file, [entry(1, size=1000)]) == (0, 0)
        assert file.on
        assert 0.6 * CAP < largest <= CAP

    def test_purged_replies_are_overwritten(self, open_file, folder):
        file = open_file()
        file.write([Row(b"k" * 32, b"a secret reply" * 20, 1)])
        file.purge()
        file.close()
        for path in folder.iterdir():
            assert b"a secret reply" not in path.read_bytes()


WRITER = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from judged_server.store.kept_rows import REPLIES, KeptRows
from tests.unit.server.store.test_kept_rows import CAP, entry
file = KeptRows(Path(sys.argv[1]), REPLIES, CAP)
number = 0
while True:
    acknowledged = file.write([entry(n) for n in range(number, number + 50)])
    number += 50
    print(number if acknowledged else -1, flush=True)
"""


class TestProcesses:
    def test_kill_9_in_the_middle_of_writing_harms_no_row(self, open_file, folder):
        rng = random.Random(20)
        root = os.fspath(pytest.importorskip("tests").__path__[0] + "/..")
        for _ in range(KILL_ROUNDS):
            command = [sys.executable, "-c", WRITER, str(folder), root]
            writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            kept = 0
            for _ in range(rng.randrange(1, 12)):
                kept = max(kept, int(writer.stdout.readline()))
            writer.send_signal(signal.SIGKILL)
            kept = max([kept, *map(int, writer.communicate()[0].split())])
            file = open_file()
            wrong, found = wrong_and_found(file, [entry(number) for number in range(kept + 50)])
            assert wrong == 0
            assert found >= kept > 0
            assert not (folder / DAMAGED).exists()
            file.close()

    @pytest.mark.parametrize("begin", ["read", "write"])
    def test_a_process_that_leaves_takes_nothing_from_those_who_stay(
        self, open_file, folder, begin
    ):
        """The last one who closes a file in this mode deletes its journal: so locks must hold."""
        path, file = folder / REPLIES.name, open_file()
        assert begin == "write" or wrong_and_found(file, [entry(1)]) == (0, 0)
        written = []
        for place in range(3):
            file.write([entry(place)])
            written.append(str(entry(place).created))
            assert file.count()[0] == place + 1
            assert read_by_another_process(path) == written
        assert path.with_name(f"{path.name}-wal").exists()


class TestOffTheLoop:
    """Rows are read together, and written by nobody who waits."""

    async def test_a_thousand_questions_at_once_are_answered_off_the_loop(self, open_file):
        open_file().write([entry(n) for n in range(0, 1000, 2)])
        threads = set()

        class Noting(KeptRows):
            def read(self, keys):
                threads.add(threading.current_thread())
                return super().read(keys)

        file = open_file(kind=Noting)
        found = await asyncio.gather(*(file.get([entry(n).key]) for n in range(1000)))
        for n, each in enumerate(found):
            assert each == ({entry(n).key: entry(n)} if n % 2 == 0 else {})
        assert threading.main_thread() not in threads
        every = await file.get([entry(n).key for n in range(1000)])
        assert len(every) == 500

    async def test_a_folder_that_cant_be_made_is_a_miss_and_no_more(self, tmp_path, caplog):
        (tmp_path / "file").write_text("")
        file = KeptRows(tmp_path / "file" / "replies", REPLIES, CAP)
        for _ in range(3):
            await file.keep(entry(1), 30)
            assert await file.get([entry(1).key]) == {}
        file.close()
        assert len(caplog.records) == 1
        assert "--llm-cache memory" in caplog.text

    async def test_a_disk_that_hangs_delays_an_answer_by_its_time_alone(self, open_file):
        gate = threading.Event()

        class Hanging(KeptRows):
            def write(self, rows):
                gate.wait(30)
                return super().write(rows)

        file = open_file(kind=Hanging)
        async with asyncio.timeout(20):
            for number in range(1, 9):
                await file.keep(entry(number), 0.01)
        assert await file.get([entry(1).key]) == {}  # reading goes on
        gate.set()
        await asyncio.to_thread(file.close)
        assert wrong_and_found(open_file(), [entry(8)]) == (0, 1)

    async def test_closing_writes_what_waits_in_parts_and_then_takes_nothing(self, open_file):
        sizes = []

        class Noting(KeptRows):
            def write(self, rows):
                sizes.append(sum(len(row.payload) for row in rows))
                return super().write(rows)

        rows = [entry(n, size=100_000) for n in range(20)]
        file = open_file(kind=Noting)
        file.put(rows)
        file.close()
        assert wrong_and_found(open_file(), rows) == (0, 20)
        assert len(sizes) > 5
        assert max(sizes) <= CAP / 64
        assert file.put([entry(1)]) is None
        assert await file.get([entry(1).key]) == {}

    def test_more_than_the_bound_is_not_written_and_nobody_waits(self, open_file, monkeypatch):
        monkeypatch.setattr(kept_rows, "MAX_WAITING_BYTES", 600)
        gate = threading.Event()

        class Hanging(KeptRows):
            def write(self, rows):
                gate.wait(30)
                return super().write(rows)

        file = open_file(kind=Hanging)
        assert file.put([entry(1), entry(2)]) is not None
        assert file.put([entry(3)]) is None
        gate.set()
        file.close()
        assert wrong_and_found(open_file(), [entry(n) for n in (1, 2, 3)]) == (0, 2)
