"""Replies off the event loop: read together, written by nobody who waits."""

import asyncio
import threading

import pytest
from judged_server.store.kept_replies import LOOK_S, MAX_PAYLOAD_BYTES, KeptReplies
from judged_server.store.replies import ReplyFile

from tests.unit.server.store.test_replies import CAP, entry


class CountingFile(ReplyFile):
    def __init__(self, folder):
        super().__init__(folder, CAP, 0)
        self.reads = []
        self.threads = set()

    def get(self, keys):
        self.reads.append(len(keys))
        self.threads.add(threading.current_thread())
        return super().get(keys)


@pytest.fixture
def file(tmp_path):
    return CountingFile(tmp_path / "replies")


class FakeTime:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture
def kept(file, time):
    kept = KeptReplies(file, now=time)
    yield kept
    kept.close()


async def test_a_thousand_questions_at_once_are_a_few_reads(tmp_path, file, kept):
    ReplyFile(tmp_path / "replies", CAP, 0).put([entry(n) for n in range(0, 1000, 2)])
    found = await asyncio.gather(*(kept.get(entry(n).key) for n in range(1000)))
    assert found == [entry(n) if n % 2 == 0 else None for n in range(1000)]
    assert file.reads == [500, 500]
    assert threading.main_thread() not in file.threads


async def test_the_same_key_is_read_once_for_all_who_ask(tmp_path, file, kept):
    ReplyFile(tmp_path / "replies", CAP, 0).put([entry(1)])
    assert await asyncio.gather(*(kept.get(entry(1).key) for _ in range(9))) == [entry(1)] * 9
    assert file.reads == [1]


async def test_one_who_leaves_takes_nothing_from_the_others(tmp_path, kept):
    ReplyFile(tmp_path / "replies", CAP, 0).put([entry(1)])
    tasks = [asyncio.create_task(kept.get(entry(1).key)) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    assert await asyncio.gather(*tasks[1:]) == [entry(1)] * 2


async def looked(kept, file):
    """Return once the ids of the file are known, so that a key without a row costs no read."""
    async with asyncio.timeout(60):
        file.reads.append(1)
        while file.reads:
            file.reads.clear()
            assert await kept.get(entry(-1).key) is None


async def test_what_is_certainly_not_stored_waits_for_no_read(tmp_path, file, kept):
    ReplyFile(tmp_path / "replies", CAP, 0).put([entry(1)])
    await looked(kept, file)
    for number in range(2, 100):
        with pytest.raises(StopIteration) as end:  # at once
            kept.get(entry(number).key).send(None)
        assert end.value.value is None
    assert file.reads == []
    assert await kept.get(entry(1).key) == entry(1)
    assert file.reads == [1]


async def test_who_must_be_sure_reads_the_file_whatever_is_known_of_it(tmp_path, file, kept):
    await looked(kept, file)
    ReplyFile(tmp_path / "replies", CAP, 0).put([entry(1)])
    assert await kept.get(entry(1).key) is None  # what another process stored just now
    assert await kept.get(entry(1).key, sure=True) == entry(1)
    file.reads.clear()
    assert await kept.get(entry(2).key, sure=True) is None
    assert file.reads == [1]


async def test_what_another_process_stored_is_found_with_the_next_look(tmp_path, file, kept, time):
    await looked(kept, file)
    ReplyFile(tmp_path / "replies", CAP, 0).put([entry(1)])
    assert await kept.get(entry(1).key) is None
    time.now += LOOK_S + 0.01
    async with asyncio.timeout(60):
        while (found := await kept.get(entry(1).key)) is None:  # noqa: ASYNC110 - it looks
            await asyncio.sleep(0)
    assert found == entry(1)


async def test_what_this_process_stores_is_never_ruled_out(file, kept):
    await looked(kept, file)
    kept.put(entry(1))
    await kept.get(entry(2).key)
    assert file.reads == []
    await kept.get(entry(1).key)
    assert file.reads == [1]


async def test_a_look_ends_with_the_store(file, kept):
    gate = threading.Event()
    read = file.newest

    def hanging():
        gate.wait(30)
        return read()

    file.newest = hanging
    waiting = asyncio.create_task(kept.get(entry(1).key))
    await asyncio.sleep(0)
    closing = asyncio.create_task(asyncio.to_thread(kept.close))
    gate.set()
    assert await waiting is None
    await closing
    looking = asyncio.all_tasks() - {asyncio.current_task()}
    _, late = await asyncio.wait(looking, timeout=60) if looking else (set(), set())
    assert not late


async def test_closing_writes_what_waits_and_then_finds_nothing(tmp_path, kept):
    kept.put(entry(1))
    kept.close()
    assert await kept.get(entry(1).key) is None
    kept.put(entry(2))
    file = ReplyFile(tmp_path / "replies", CAP, 0)
    assert set(file.get([entry(1).key, entry(2).key])) == {entry(1).key}


async def test_a_reply_that_is_very_long_is_not_stored(tmp_path, kept):
    kept.put(entry(1, size=MAX_PAYLOAD_BYTES + 1))
    kept.put(entry(2))
    kept.close()
    file = ReplyFile(tmp_path / "replies", CAP, 0)
    assert set(file.get([entry(1).key, entry(2).key])) == {entry(2).key}


async def test_a_folder_that_cant_be_made_is_a_miss_and_no_more(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    kept = KeptReplies(ReplyFile(tmp_path / "file" / "replies", CAP, 0))
    for _ in range(3):
        kept.put(entry(1))
        assert await kept.get(entry(1).key) is None
    kept.close()
    assert len(caplog.records) == 1
    assert "--llm-cache memory" in caplog.text


async def test_a_disk_that_hangs_holds_up_whoever_reads_and_nobody_else(tmp_path):
    gate = threading.Event()

    class Hanging(ReplyFile):
        def get(self, keys):
            gate.wait(30)
            return super().get(keys)

        def put(self, replies):
            gate.wait(30)
            return super().put(replies)

    kept = KeptReplies(Hanging(tmp_path / "replies", CAP, 0))
    reading = asyncio.create_task(kept.get(entry(1).key))
    for number in range(100):  # any of these would hang, were it to wait for the disk
        kept.put(entry(number))
        await asyncio.sleep(0)
    assert not reading.done()
    gate.set()
    assert await reading is None
    kept.close()
    assert len(ReplyFile(tmp_path / "replies", CAP, 0).get([entry(99).key])) == 1


async def test_a_reply_that_was_paid_for_is_in_the_file_when_its_put_returns(tmp_path, kept):
    await asyncio.gather(*(kept.put_soon(entry(number), 30) for number in range(50)))
    keys = [entry(number).key for number in range(50)]
    assert len(ReplyFile(tmp_path / "replies", CAP, 0).get(keys)) == 50


async def test_a_disk_that_hangs_delays_one_answer_and_not_the_next(tmp_path, caplog):
    gate = threading.Event()

    class Hanging(ReplyFile):
        def put(self, replies):
            gate.wait(30)
            return super().put(replies)

    kept = KeptReplies(Hanging(tmp_path / "replies", CAP, 0))
    await kept.put_soon(entry(1), 0.01)
    async with asyncio.timeout(20):  # they would take 30 s each, were they to wait
        for number in range(2, 9):
            await kept.put_soon(entry(number), 30)
    assert "the disk is slow" in caplog.text
    gate.set()
    await asyncio.to_thread(kept.close)
    assert len(ReplyFile(tmp_path / "replies", CAP, 0).get([entry(8).key])) == 1


async def test_a_loop_that_stood_while_the_disk_wrote_makes_nobody_late(tmp_path, caplog):
    gate, written = threading.Event(), threading.Event()

    class Gated(ReplyFile):
        def put(self, replies):
            gate.wait(30)
            stored = super().put(replies)
            written.set()
            return stored

    kept = KeptReplies(Gated(tmp_path / "replies", CAP, 0))
    first = asyncio.create_task(kept.put_soon(entry(1), 0.05))
    await asyncio.sleep(0)
    # The write ends, and the time too, while the loop stands: it hears of both in one turn.
    gate.set()
    assert written.wait(30)
    threading.Event().wait(0.1)
    await first
    assert "the disk is slow" not in caplog.text
    gate.clear()
    await kept.put_soon(entry(2), 0.01)  # waits, and says that it did so for nothing
    assert "the disk is slow" in caplog.text
    gate.set()
    await asyncio.to_thread(kept.close)
