"""What is known of the file without reading it: nothing that is there is ever ruled out unseen."""

import asyncio
import contextlib
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_server.store.kept_replies import (
    FILE_BYTES_A_BIT,
    LOOK_S,
    MAX_BYTES,
    TRUSTED_S,
    StoredIds,
)
from judged_server.store.replies import FILE, ReplyFile, Selection

from tests.unit.server.store.test_replies import CAP, entry, start_writer


class FakeTime:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def reader():
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
def file(tmp_path):
    with contextlib.closing(ReplyFile(tmp_path, CAP, 0)) as file:
        yield file


@pytest.fixture
def other(tmp_path):
    """The file as another process has it open."""
    with contextlib.closing(ReplyFile(tmp_path, CAP, 0)) as file:
        yield file


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture
def ids(file, reader, time):
    return StoredIds(file, reader, time)


def ruled_out(ids, numbers):
    return [number for number in numbers if ids.rules_out(entry(number).key)]


async def test_before_the_first_look_nothing_is_ruled_out(ids):
    assert ids.is_due
    assert not ids.rules_out(entry(1).key)


async def test_after_a_look_what_is_not_there_is_ruled_out(ids, file):
    file.put([entry(number) for number in range(100)])
    await ids.look()
    assert ruled_out(ids, range(100)) == []
    assert ruled_out(ids, range(100, 200)) == list(range(100, 200))


async def test_of_an_empty_file_everything_is_ruled_out(ids):
    await ids.look()
    assert ids.rules_out(entry(1).key)


async def test_a_row_that_waits_to_be_written_is_not_ruled_out(ids):
    await ids.look()
    ids.add(entry(1).key)
    assert not ids.rules_out(entry(1).key)


async def test_a_look_is_due_and_then_trusted_no_more(ids, time):
    await ids.look()
    time.now = LOOK_S
    assert (ids.is_due, ids.rules_out(entry(1).key)) == (False, True)
    time.now = TRUSTED_S
    assert (ids.is_due, ids.rules_out(entry(1).key)) == (True, True)
    time.now = TRUSTED_S + 0.001
    assert not ids.rules_out(entry(1).key)


async def test_the_next_look_sees_what_another_process_stored(ids, other):
    await ids.look()
    other.put([entry(1)])
    assert ids.rules_out(entry(1).key)  # for TRUSTED_S at most
    await ids.look()
    assert ruled_out(ids, [1, 2]) == [2]


async def test_a_look_reads_only_what_is_new(ids, file, monkeypatch):
    file.put([entry(number) for number in range(100)])
    await ids.look()
    monkeypatch.setattr(file, "ids_above", None)
    monkeypatch.setattr(file, "newest", None)
    file.put([entry(0), entry(100)])  # the first anew
    await ids.look()
    file.put([entry(100)])  # the newest anew
    await ids.look()
    assert ruled_out(ids, range(102)) == [101]


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4, 9, 10])
async def test_many_rows_are_read_in_slices(file, reader, rows):
    ids = StoredIds(file, reader, FakeTime(), slice_ids=3)
    file.put([entry(number) for number in range(rows)])
    await ids.look()
    file.put([entry(number) for number in range(20, 20 + rows)])
    await ids.look()
    assert ruled_out(ids, [*range(rows), *range(20, 20 + rows)]) == []
    assert ruled_out(ids, [50]) == [50]


async def test_rows_that_come_in_during_the_first_look_are_seen(file, reader, other, monkeypatch):
    ids = StoredIds(file, reader, FakeTime(), slice_ids=3)
    file.put([entry(number) for number in range(30)])
    more = iter(range(30, 60))
    read = file.ids_above

    def while_others_write(least, most):
        other.put([entry(next(more))])
        return read(least, most)

    monkeypatch.setattr(file, "ids_above", while_others_write)
    await ids.look()
    stored = range(next(more))
    assert len(stored) > 35
    assert ruled_out(ids, stored) == []


async def test_rows_of_another_process_are_seen_before_and_after_it_was_killed(reader, tmp_path):
    writer = start_writer(tmp_path)
    stored = int(writer.stdout.readline())
    with contextlib.closing(ReplyFile(tmp_path / "replies", CAP, 0)) as file:
        ids = StoredIds(file, reader)
        for _ in range(5):
            await ids.look()
            assert ruled_out(ids, range(stored)) == []
            stored = int(writer.stdout.readline())
        writer.kill()
        stored = max([stored, *map(int, writer.communicate()[0].split())])
        await ids.look()
        assert ruled_out(ids, [*range(stored), -1]) == [-1]


@pytest.mark.parametrize("more", [0, 1, 50])
async def test_after_a_purge_by_another_process_new_rows_are_seen(ids, other, more):
    other.put([entry(number) for number in range(20)])
    await ids.look()
    assert other.purge(Selection()) == 20
    other.put([entry(number) for number in range(100, 100 + more)])
    await ids.look()
    assert ruled_out(ids, range(99, 100 + more)) == [99]


async def test_a_file_that_took_the_place_of_another_is_read_anew(ids, file, other, tmp_path):
    file.put([entry(1)])
    await ids.look()
    (tmp_path / FILE).write_bytes(b"garbage" * 1000)
    for side in ("-wal", "-shm"):
        (tmp_path / f"{FILE}{side}").unlink(missing_ok=True)
    with contextlib.closing(ReplyFile(tmp_path, CAP, 0)) as third:
        third.put([entry(2)])
        third.put([entry(2)])
        for _ in range(3):
            await ids.look()
        assert ruled_out(ids, [2, 3]) == [3]


@pytest.mark.parametrize("name", ["newest", "ids_above", "ids_behind"])
async def test_a_file_that_cant_be_read_rules_nothing_out(ids, file, monkeypatch, name):
    file.put([entry(1)])
    with monkeypatch.context() as broken:
        broken.setattr(file, name, lambda *_: None)
        await ids.look()
        assert ruled_out(ids, [1, 2]) == []
    await ids.look()
    assert ruled_out(ids, [1, 2]) == [2]


async def test_it_is_made_anew_when_most_of_it_was_deleted(ids, file, tmp_path):
    bits = 8 * CAP // (8 * FILE_BYTES_A_BIT)
    every = range(0, bits // 16 + 1000, 500)
    for start in every:
        file.put([entry(number, size=1) for number in range(start, start + 500)])
        await ids.look()
    file.purge(Selection())
    file.put([entry(-1)])
    assert ruled_out(ids, range(100)) == [], "they are in the filter still"
    await ids.look()
    await ids.look()
    assert ruled_out(ids, [-1, *range(100)]) == [*range(100)]


def test_its_size_follows_the_files_within_bounds(tmp_path, reader):
    def size(max_bytes):
        return StoredIds(ReplyFile(tmp_path, max_bytes, 0), reader)._ids.size_bits // 8

    assert size(1 << 30) == 4 << 20
    assert size(3 << 29) == 4 << 20
    assert size(1 << 50) == MAX_BYTES
    assert size(1) == 4096


NUMBERS = st.lists(st.integers(0, 40), max_size=8)
STEPS = st.one_of(
    st.tuples(st.just("put"), NUMBERS),
    st.tuples(st.just("other puts"), NUMBERS),
    st.tuples(st.just("purge"), st.sampled_from([None, "r", "s"])),
    st.tuples(st.just("look"), st.none()),
)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, max_size=25), slice_=st.sampled_from([1, 2, 7, 5000]))
def test_whatever_happens_a_look_leaves_nothing_that_is_stored_ruled_out(steps, slice_):
    """Rows are put, anew, by two processes, and purged."""

    def row(number):
        return entry(number, rubric="rs"[number % 2])

    async def play(file, other, ids):
        for step, what in [*steps, ("look", None)]:
            if step == "put":
                file.put([row(number) for number in what])
            elif step == "other puts":
                other.put([row(number) for number in what])
            elif step == "purge":
                other.purge(Selection(rubric=what))
            else:
                await ids.look()
                stored = other.get([row(number).key for number in range(41)])
                assert not any(map(ids.rules_out, stored))
                assert ids.rules_out(row(99).key)

    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(ReplyFile(Path(folder), CAP, 0)) as file,
        contextlib.closing(ReplyFile(Path(folder), CAP, 0)) as other,
        ThreadPoolExecutor(1) as reader,
    ):
        asyncio.run(play(file, other, StoredIds(file, reader, FakeTime(), slice_)))
