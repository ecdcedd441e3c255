"""Replies off the event loop: read together, written by nobody who waits."""

import asyncio
import threading

import pytest
from judged_server.store.replies import KeptReplies, ReplyFile

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


@pytest.fixture
def kept(file):
    kept = KeptReplies(file)
    yield kept
    kept.close()


async def test_a_thousand_questions_at_once_are_a_few_reads(tmp_path, file, kept):
    ReplyFile(tmp_path / "replies", CAP, 0).put([entry(n) for n in range(0, 1000, 2)])
    found = await asyncio.gather(*(kept.get(entry(n).key) for n in range(1000)))
    assert found == [entry(n) if n % 2 == 0 else None for n in range(1000)]
    assert file.reads == [500, 500]
    assert threading.main_thread() not in file.threads


async def test_a_folder_that_cant_be_made_is_a_miss_and_no_more(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    kept = KeptReplies(ReplyFile(tmp_path / "file" / "replies", CAP, 0))
    for _ in range(3):
        await kept.put(entry(1), 30)
        assert await kept.get(entry(1).key) is None
    kept.close()
    assert len(caplog.records) == 1
    assert "--llm-cache memory" in caplog.text


async def test_a_reply_that_was_paid_for_is_in_the_file_when_its_put_returns(tmp_path, kept):
    await asyncio.gather(*(kept.put(entry(number), 30) for number in range(50)))
    keys = [entry(number).key for number in range(50)]
    assert len(ReplyFile(tmp_path / "replies", CAP, 0).get(keys)) == 50


async def test_a_disk_that_hangs_delays_one_answer_and_not_the_next(tmp_path, caplog):
    gate = threading.Event()

    class Hanging(ReplyFile):
        def put(self, replies):
            gate.wait(30)
            return super().put(replies)

    kept = KeptReplies(Hanging(tmp_path / "replies", CAP, 0))
    await kept.put(entry(1), 0.01)
    assert await kept.get(entry(1).key) is None  # reading goes on
    async with asyncio.timeout(20):  # they would take 30 s each, were they to wait
        for number in range(2, 9):
            await kept.put(entry(number), 30)
    assert "the disk is slow" in caplog.text
    gate.set()
    await asyncio.to_thread(kept.close)
    assert len(ReplyFile(tmp_path / "replies", CAP, 0).get([entry(8).key])) == 1
