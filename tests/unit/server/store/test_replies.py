"""The file of replies: what it gives was put there, whatever happened to the file."""

import contextlib
import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys

import pytest
from judged_server.store.replies import FILE, ReplyFile, Selection, StoredReply
from judged_server.store.sqlite_file import DAMAGED

CAP = 16 << 20
KILL_ROUNDS = int(os.environ.get("JUDGED_TEST_KILL_ROUNDS", "10"))


def entry(number, rubric="r", version=1, model="m", size=200):
    """The one entry of this number: its payload follows from its key."""
    key = hashlib.sha256(str(number).encode()).digest()
    payload = (key * (size // 32 + 1))[:size]
    return StoredReply(key, rubric, version, model, 1_700_000_000 + number, payload)


def wrong_and_found(file, entries):
    """Count entries that come back changed, and those that come back."""
    wrong = found = 0
    for start in range(0, len(entries), 500):
        some = entries[start : start + 500]
        got = file.get([e.key for e in some])
        assert set(got) <= {e.key for e in some}
        wrong += sum(got[e.key] != e for e in some if e.key in got)
        found += len(got)
    return wrong, found


@pytest.fixture
def open_file(tmp_path):
    opened = []

    def build(max_bytes=CAP, min_free_bytes=0, folder=tmp_path / "replies"):
        opened.append(ReplyFile(folder, max_bytes, min_free_bytes))
        return opened[-1]

    yield build
    for file in opened:
        file.close()


@pytest.mark.parametrize(
    "change",
    [
        "payload = x'00'",
        "created = created + 1",
        "model = 'n'",
        "rubric = 's'",
        "version = 2",
        "crc = crc + 1",
        "key = x'00'",
        "rubric = x'72'",
        "payload = 'text'",
        "version = 'v'",
    ],
)
def test_a_row_that_was_changed_is_a_miss_and_is_put_right(open_file, tmp_path, change):
    file = open_file()
    file.put([entry(1), entry(2)])
    with contextlib.closing(sqlite3.connect(tmp_path / "replies" / FILE)) as other:
        other.execute(f"UPDATE replies SET {change} WHERE n = 1")  # noqa: S608
        other.commit()
    assert wrong_and_found(file, [entry(1), entry(2)]) == (0, 1)
    file.put([entry(1)])
    assert wrong_and_found(file, [entry(1), entry(2)]) == (0, 2)


def test_a_thousand_random_bytes_flipped_never_give_a_wrong_reply(open_file, tmp_path):
    entries = [entry(number) for number in range(1000)]
    file = open_file()
    file.put(entries)
    file.close()
    path = tmp_path / "replies" / FILE
    whole = path.read_bytes()
    rng = random.Random(20)
    flipped = total = 0
    for flips in (1, 1, 2, 3, 5, 13, 100, 300, 575):
        damaged = bytearray(whole)
        for at in rng.sample(range(len(whole)), flips):
            damaged[at] ^= rng.randrange(1, 256)
        flipped += flips
        for left in (tmp_path / "replies").iterdir():
            left.unlink()
        path.write_bytes(damaged)
        file = open_file()
        wrong, found = wrong_and_found(file, entries)
        assert wrong == 0
        total += found
        assert file.put(entries[:10])
        assert wrong_and_found(file, entries[:10]) == (0, 10)
        file.close()
    assert flipped == 1000
    assert total > 0


@pytest.mark.parametrize("raw", [b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 9000])
def test_a_file_that_is_no_store_is_moved_aside_with_one_line(open_file, tmp_path, caplog, raw):
    folder = tmp_path / "replies"
    folder.mkdir()
    (folder / FILE).write_bytes(raw)
    file = open_file()
    assert wrong_and_found(file, [entry(1)]) == (0, 0)
    assert file.put([entry(1)])
    assert wrong_and_found(file, [entry(1)]) == (0, 1)
    assert (folder / DAMAGED).read_bytes() == raw
    assert len(caplog.records) == 1


def test_it_stays_below_nine_tenths_of_its_cap_and_keeps_the_newest(open_file, tmp_path):
    file = open_file()
    made = largest = 0
    while made * 4000 < 2 * CAP:
        # Some are sixty times as long as others.
        some = [entry(made + i, size=60_000 if i % 20 == 0 else 1000) for i in range(100)]
        assert file.put(some)
        made += len(some)
        files = (tmp_path / "replies").iterdir()
        largest = max(largest, sum(path.stat().st_size for path in files))
    newest = [entry(n, size=60_000 if n % 20 == 0 else 1000) for n in range(made - 500, made)]
    assert wrong_and_found(file, newest) == (0, 500)
    assert wrong_and_found(file, [entry(1, size=1000)]) == (0, 0)
    assert file.on
    assert 0.6 * CAP < largest <= CAP


def test_purging_deletes_what_fits_all_that_is_given_and_nothing_else(open_file):
    file = open_file()
    kinds = [(r, v, m) for r in ("r", "s") for v in (1, 2) for m in ("a", "b")]
    file.put([entry(i, *kind) for i, kind in enumerate(kinds)])
    assert file.purge(Selection("r", 1, "a")) == 1
    assert file.purge(Selection("r", 2)) == 2
    assert file.purge(Selection(model="a")) == 2
    left = [(t.rubric, t.version, t.model, t.replies) for t in file.tally()]
    assert left == [("r", 1, "b", 1), ("s", 1, "b", 1), ("s", 2, "b", 1)]
    assert file.purge(Selection()) == 3
    assert file.tally() == []


def test_purged_replies_are_overwritten(open_file, tmp_path):
    file = open_file()
    secret = StoredReply(b"k" * 32, "r", 1, "m", 1, b"a secret reply" * 20)
    file.put([secret])
    file.purge(Selection())
    file.close()
    for path in (tmp_path / "replies").iterdir():
        assert b"a secret reply" not in path.read_bytes()


WRITER = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from judged_server.store.replies import ReplyFile
from tests.unit.server.store.test_replies import CAP, entry
file = ReplyFile(Path(sys.argv[1]), CAP, 0)
number = 0
while True:
    acknowledged = file.put([entry(n) for n in range(number, number + 50)])
    number += 50
    print(number if acknowledged else -1, flush=True)
"""


def start_writer(tmp_path):
    root = os.fspath(pytest.importorskip("tests").__path__[0] + "/..")
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "replies"), root],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_kill_9_in_the_middle_of_writing_harms_no_row(open_file, tmp_path):
    rng = random.Random(20)
    for _ in range(KILL_ROUNDS):
        writer = start_writer(tmp_path)
        kept = 0
        for _ in range(rng.randrange(1, 12)):
            kept = max(kept, int(writer.stdout.readline()))
        writer.send_signal(signal.SIGKILL)
        kept = max([kept, *map(int, writer.communicate()[0].split())])
        file = open_file()
        wrong, found = wrong_and_found(file, [entry(number) for number in range(kept + 50)])
        assert wrong == 0
        assert found >= kept > 0
        assert not (tmp_path / "replies" / DAMAGED).exists()
        file.close()
