"""The store: what it gives was put there, whatever happened to the file."""

import contextlib
import hashlib
import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys

import numpy as np
import pytest
from judged_server.embedding.vector_cache import FILE, StoredVectors, VectorStore
from judged_server.store.sqlite_file import DAMAGED

DIMENSIONS = 8
CAP = 16 << 20
KILL_ROUNDS = int(os.environ.get("JUDGED_TEST_KILL_ROUNDS", "20"))


def entry(number, count=1, dimensions=DIMENSIONS):
    """The one entry of this number: its vectors follow from its key."""
    key = hashlib.sha256(str(number).encode()).digest()
    rng = np.random.default_rng(list(key))
    vectors = rng.normal(size=(count, dimensions)).astype("<f4")
    return StoredVectors(key, number % 7, count, vectors.tobytes())


def wrong_and_found(store, entries, dimensions=DIMENSIONS):
    """Count entries that come back changed, and those that come back."""
    wrong = found = 0
    for start in range(0, len(entries), 500):
        some = entries[start : start + 500]
        rows = store.get([e.key for e in some], dimensions)
        at = 0
        for text, count, flags in zip(rows.texts, rows.counts, rows.flags, strict=True):
            vectors = rows.vectors[at : at + count]
            at += count
            same = vectors.tobytes() == some[text].data and flags == some[text].flags
            wrong += not same
            found += 1
    return wrong, found


@pytest.fixture
def open_store(tmp_path):
    opened = []

    def build(max_bytes=CAP, min_free_bytes=0, folder=tmp_path / "vectors"):
        opened.append(VectorStore(folder, max_bytes, min_free_bytes))
        return opened[-1]

    yield build
    for store in opened:
        store.close()


def test_what_was_put_comes_back_in_another_process_too(open_store):
    entries = [entry(number, 1 + number % 3) for number in range(50)]
    first = open_store()
    assert first.put(entries)
    assert wrong_and_found(first, entries) == (0, 50)
    assert wrong_and_found(open_store(), entries) == (0, 50)
    assert wrong_and_found(first, [entry(99)]) == (0, 0)


def test_it_is_for_its_owner_only(open_store, tmp_path):
    open_store().put([entry(1)])
    assert stat.S_IMODE((tmp_path / "vectors").stat().st_mode) == 0o700
    for path in (tmp_path / "vectors").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_vectors_of_another_size_are_a_miss(open_store):
    store = open_store()
    store.put([entry(1)])
    assert wrong_and_found(store, [entry(1)], dimensions=4) == (0, 0)


def test_a_row_that_was_changed_is_a_miss_and_is_put_right(open_store, tmp_path):
    store = open_store()
    store.put([entry(1), entry(2)])
    with contextlib.closing(sqlite3.connect(tmp_path / "vectors" / FILE)) as other:
        other.execute("UPDATE vectors SET flags = flags + 1 WHERE n = 1")
        other.commit()
    assert wrong_and_found(store, [entry(1), entry(2)]) == (0, 1)
    store.put([entry(1)])
    assert wrong_and_found(store, [entry(1), entry(2)]) == (0, 2)


def test_random_bytes_flipped_never_give_a_wrong_vector(open_store, tmp_path):
    entries = [entry(number) for number in range(2000)]
    store = open_store()
    store.put(entries)
    store.close()
    path = tmp_path / "vectors" / FILE
    whole = path.read_bytes()
    rng = np.random.default_rng(20)
    total = 0
    for flips in (1, 1, 2, 3, 5, 8, 13, 100, 300):
        damaged = bytearray(whole)
        for at in rng.integers(0, len(whole), flips).tolist():
            damaged[at] ^= int(rng.integers(1, 256))
        for left in (tmp_path / "vectors").iterdir():
            left.unlink()
        path.write_bytes(damaged)
        store = open_store()
        wrong, found = wrong_and_found(store, entries)
        assert wrong == 0
        total += found
        assert store.put(entries[:10])
        assert wrong_and_found(store, entries[:10]) == (0, 10)
        store.close()
    assert total > 0


@pytest.mark.parametrize("raw", [b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 9000])
def test_a_file_that_is_no_store_is_moved_aside_with_one_line(open_store, tmp_path, caplog, raw):
    folder = tmp_path / "vectors"
    folder.mkdir()
    (folder / FILE).write_bytes(raw)
    store = open_store()
    assert wrong_and_found(store, [entry(1)]) == (0, 0)
    assert store.put([entry(1)])
    assert wrong_and_found(store, [entry(1)]) == (0, 1)
    assert (folder / DAMAGED).read_bytes() == raw
    assert len(caplog.records) == 1


def test_another_programs_table_is_moved_aside(open_store, tmp_path):
    folder = tmp_path / "vectors"
    folder.mkdir()
    with contextlib.closing(sqlite3.connect(folder / FILE)) as other:
        other.execute("CREATE TABLE vectors (a)")
        other.commit()
    store = open_store()
    store.put([entry(1)])
    store.put([entry(1)])
    assert wrong_and_found(store, [entry(1)]) == (0, 1)


def test_a_file_that_was_deleted_is_begun_anew(open_store, tmp_path):
    store = open_store()
    store.put([entry(1)])
    for path in (tmp_path / "vectors").iterdir():
        path.unlink()
    assert wrong_and_found(store, [entry(1)]) == (0, 0)
    assert store.put([entry(1)])
    assert wrong_and_found(store, [entry(1)]) == (0, 1)


def test_it_stays_below_nine_tenths_of_its_cap_and_keeps_the_newest(open_store, tmp_path):
    store = open_store()
    made = 0
    size = 384
    largest = 0
    while made * 4 * size < 2 * CAP:
        some = [entry(made + i, dimensions=size) for i in range(100)]
        assert store.put(some)
        made += len(some)
        files = (tmp_path / "vectors").iterdir()
        largest = max(largest, sum(path.stat().st_size for path in files))
    newest = [entry(number, dimensions=size) for number in range(made - 1000, made)]
    assert wrong_and_found(store, newest, size) == (0, 1000)
    assert wrong_and_found(store, [entry(0, dimensions=size)], size) == (0, 0)
    assert largest <= 0.9 * CAP
    assert largest > 0.7 * CAP


def test_a_folder_that_cant_be_made_switches_it_off_with_one_line(open_store, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    store = open_store(folder=tmp_path / "file" / "vectors")
    for _ in range(3):
        assert not store.put([entry(1)])
        assert wrong_and_found(store, [entry(1)]) == (0, 0)
    assert not store.on
    assert len(caplog.records) == 1


@contextlib.contextmanager
def full_disk(path):
    """No file of this process may grow, as on a disk without space."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def read_only(path):
    """The header says that only a later SQLite may write to the file."""
    with path.open("r+b") as file:
        file.seek(18)
        file.write(b"\3")
    yield


@pytest.mark.parametrize("fault", [full_disk, read_only])
def test_a_disk_that_fails_switches_it_off_with_one_line(open_store, tmp_path, caplog, fault):
    first = open_store()
    first.put([entry(1)])
    first.close()
    store = open_store()
    with fault(tmp_path / "vectors" / FILE):
        for _ in range(3):
            assert not store.put([entry(2)])
            assert wrong_and_found(store, [entry(1)]) == (0, 0)
    assert not store.on
    assert len(caplog.records) == 1
    assert not (tmp_path / "vectors" / DAMAGED).exists()


def test_the_last_of_a_disk_is_left_to_others(open_store, caplog):
    store = open_store(min_free_bytes=1 << 60)
    for _ in range(3):
        assert not store.put([entry(1)])
    assert store.on
    assert len(caplog.records) == 1


def test_a_file_that_another_process_holds_is_a_miss_and_no_more(open_store, tmp_path):
    store = open_store()
    store.put([entry(1)])
    with contextlib.closing(sqlite3.connect(tmp_path / "vectors" / FILE)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert not store.put([entry(2)])
        assert wrong_and_found(store, [entry(1)]) == (0, 1)
        other.rollback()
    assert store.put([entry(2)])
    assert store.on


WRITER = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from judged_server.embedding.vector_cache import VectorStore
from tests.unit.server.embedding.test_vector_store import CAP, entry
store = VectorStore(Path(sys.argv[1]), CAP, 0)
number = 0
while True:
    acknowledged = store.put([entry(n) for n in range(number, number + 50)])
    number += 50
    print(number if acknowledged else -1, flush=True)
"""


def test_kill_9_in_the_middle_of_writing_harms_no_row(open_store, tmp_path):
    root = os.fspath(pytest.importorskip("tests").__path__[0] + "/..")
    rng = np.random.default_rng(20)
    for _ in range(KILL_ROUNDS):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "vectors"), root],
            stdout=subprocess.PIPE,
            text=True,
        )
        kept = 0
        for _ in range(int(rng.integers(1, 12))):
            kept = max(kept, int(writer.stdout.readline()))
        writer.send_signal(signal.SIGKILL)
        rest = writer.communicate()[0].split()
        kept = max([kept, *map(int, rest)])
        store = open_store()
        store.get([entry(0).key], DIMENSIONS)
        entries = [entry(number) for number in range(kept + 50)]
        wrong, found = wrong_and_found(store, entries)
        assert wrong == 0
        assert found >= kept > 0
        assert not (tmp_path / "vectors" / DAMAGED).exists()
        store.close()


def test_two_processes_write_to_one_file(open_store, tmp_path):
    root = os.fspath(pytest.importorskip("tests").__path__[0] + "/..")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "vectors"), root],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for _ in range(8):
        for writer in writers:
            writer.stdout.readline()
    for writer in writers:
        writer.kill()
        writer.communicate()
    wrong, found = wrong_and_found(open_store(), [entry(number) for number in range(400)])
    assert (wrong, found > 0) == (0, True)
