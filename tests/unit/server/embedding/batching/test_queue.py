"""The queue between calls and threads: slices of texts, classes and turns, leaving, closing."""

import asyncio
import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
from judged_server.embedding import embedder as embedders
from judged_server.embedding.batching import queue
from judged_server.embedding.batching.queue import WorkQueue
from judged_server.embedding.batching.windows import Call, InflightText
from judged_server.embedding.embedder import MODEL
from judged_server.embedding.tokenizer import TokenizedText
from judged_server.errors import Overloaded
from judged_server.scheduling.admission import Admission
from judged_server.scheduling.round_robin import BATCH, INTERACTIVE
from judged_server.tenant import SENDER, Sender

from tests.fakes.models.session import begun, queued
from tests.fakes.models.tiny_model import WINDOW


def _call(texts, *, interactive=False, policy="truncate"):
    entries = [InflightText(text.encode(), text, policy, len(text)) for text in texts]
    waiter = asyncio.get_running_loop().create_future()
    return Call(range(len(texts)), entries, interactive, waiter)


def _read(work):
    entries = work.take_texts()
    work.put_windows(
        entries, [TokenizedText((np.zeros(len(entry.text), np.int64),)) for entry in entries]
    )
    return [entry.text for entry in entries]


@pytest.fixture
def admission():
    return Admission(replace(MODEL, most=1000))


@pytest.fixture
def work(admission):
    return WorkQueue(2, admission)


async def test_texts_are_read_in_slices_call_by_call_the_interactive_ones_first(work, monkeypatch):
    monkeypatch.setattr(queue, "SLICE_CHARS", 7)
    work.submit(_call(["aaa", "bbb", "ccc"]))
    work.submit(_call(["ddd"]))
    work.submit(_call(["eee"], interactive=True))
    read = [_read(work) for _ in range(4)]
    assert read == [["eee"], ["aaa", "bbb"], ["ddd"], ["ccc"]]


async def test_a_text_longer_than_a_slice_is_read_alone(work, monkeypatch):
    monkeypatch.setattr(queue, "SLICE_CHARS", 2)
    work.submit(_call(["aaa", "b"]))
    assert [_read(work), _read(work)] == [["aaa"], ["b"]]


async def test_batches_come_interactive_first_and_the_express_worker_takes_nothing_else(work):
    work.submit(_call(["aaaa"] * 1))
    work.submit(_call(["bb"], interactive=True))
    _read(work)
    _read(work)
    assert work.take_batch(express=True, timeout_s=0.001).windows == ()
    first, second = work.take_batch(express=False), work.take_batch(express=False)
    assert [first.turn, second.turn] == [INTERACTIVE, BATCH]
    work.submit(_call(["cc"], interactive=True))
    _read(work)
    assert work.take_batch(express=True, timeout_s=30).windows[0].entry.text == "cc"


async def test_a_call_that_was_refused_is_let_go_of_at_once(work):
    work.submit(_call(["a" * 900]))
    gc.disable()
    try:
        refused = _call(["b" * 900])
        with pytest.raises(Overloaded):
            work.submit(refused)
        held = weakref.ref(refused.waiter)
        del refused
        assert held() is None
    finally:
        gc.enable()


async def test_a_call_is_woken_when_its_last_text_has_ended(work):
    call = _call(["a", "bb"])
    work.submit(call)
    _read(work)
    batch = work.take_batch(express=False)
    kept: list[InflightText] = []
    work.finish(batch, [np.ones(2, np.float32), ("R", "m")], kept.extend)
    await call.waiter
    assert [entry.text for entry in kept] == ["bb"]
    assert [entry.fault for entry in call.entries] == [("R", "m"), None]


async def test_leaving_drops_what_was_neither_read_nor_run(work, admission):
    call = _call(["a", "b"])
    work.submit(call)
    work.leave(call)
    assert admission.cost == 0
    work.submit(_call(["c", "a"]))
    assert _read(work) == ["c", "a"], "nothing waits for the a that was left"


async def test_a_text_that_is_left_while_it_is_read_is_dropped_afterwards(work):
    call = _call(["a"])
    work.submit(call)
    entries = work.take_texts()
    work.leave(call)
    work.put_windows(entries, [TokenizedText((np.zeros(3, np.int64),))])
    assert work.take_batch(express=False, timeout_s=0.001).windows == ()
    work.submit(_call(["a"]))
    assert _read(work) == ["a"]


async def test_a_closed_queue_wakes_everybody(work):
    call = _call(["a"])
    work.submit(call)
    work.close()
    with pytest.raises(RuntimeError, match="closed"):
        await call.waiter
    assert work.take_texts() is None
    assert work.take_batch(express=False) is None
    with pytest.raises(RuntimeError, match="closed"):
        work.submit(_call(["b"]))


class TestTurns:
    """Of calls to an engine whose session is held up."""

    async def test_batch_calls_take_turns(self, make, session):
        SENDER.set(Sender(is_batch=True))
        embedder = make(batch_tokens=1)
        session.gate.clear()
        first = asyncio.create_task(embedder.embed(list("abcdefgh"), "truncate"))
        await begun(session)
        second = asyncio.create_task(embedder.embed(["z"], "truncate"))
        await queued(embedder, 24)
        session.gate.set()
        await asyncio.gather(first, second)
        assert [batch[0] for batch in session.batches].index("z") <= 2

    async def test_an_interactive_call_waits_for_no_batch_work(self, make, session, monkeypatch):
        monkeypatch.setattr(embedders, "MODEL", replace(embedders.MODEL, interactive=3))
        embedder = make(batch_tokens=1)
        session.gate.clear()
        large = asyncio.create_task(embedder.embed(list("abcdefgh"), "truncate"))
        await begun(session)
        small = asyncio.create_task(embedder.embed(["z"], "truncate"))
        await begun(session)  # by the express worker, while the other one is held up
        session.gate.set()
        await asyncio.gather(large, small)
        assert [batch[0] for batch in session.started].index("z") == 1

    async def test_batch_work_has_a_turn_now_and_then(self, make, session, monkeypatch):
        monkeypatch.setattr(embedders, "MODEL", replace(embedders.MODEL, interactive=30))
        monkeypatch.setattr(queue, "INTERACTIVE_IN_A_ROW", 2)
        embedder = make(batch_tokens=1)
        session.gate.clear()
        first = asyncio.create_task(embedder.embed(["a"], "truncate"))
        await begun(session)
        large = asyncio.create_task(embedder.embed(["m" * 9 + c for c in "abcd"], "truncate"))
        small = asyncio.create_task(embedder.embed(list("bcdefg"), "truncate"))
        await queued(embedder, 4 * WINDOW + 6 * 3)
        session.gate.set()
        await asyncio.gather(first, large, small)
        order = "".join("M" if batch[0][0] == "m" else "." for batch in session.batches)
        assert "..." not in order[1 : order.rindex("M")]

    async def test_small_calls_share_a_batch(self, make, session):
        embedder = make()
        session.gate.clear()
        calls = [asyncio.create_task(embedder.embed(["a"], "truncate"))]
        await begun(session)
        calls += [asyncio.create_task(embedder.embed([text], "truncate")) for text in "bcd"]
        await queued(embedder, 9)
        session.gate.set()
        await asyncio.gather(*calls)
        assert len(session.batches) == 2

    async def test_idle_workers_share_a_call(self, make, session):
        embedder = make(workers=2)
        session.gate.clear()
        call = asyncio.create_task(embedder.embed(["a" * 10 + c for c in "abcdefgh"], "truncate"))
        await begun(session)
        await begun(session)
        session.gate.set()
        await call
        assert max(len(batch) for batch in session.batches) == 4

    async def test_a_cancelled_calls_batches_never_begin(self, make, session):
        embedder = make(batch_tokens=1)
        session.gate.clear()
        call = asyncio.create_task(embedder.embed(list("abcdefgh"), "truncate"))
        await begun(session)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        session.gate.set()
        await embedder.embed(["z"], "truncate")
        assert len(session.batches) <= 2
        assert session.batches[-1] == ["z"]
        assert embedder.queued_tokens == 0

    async def test_a_call_cancelled_in_the_queue_is_dropped(self, make, session):
        embedder = make()
        session.gate.clear()
        first = asyncio.create_task(embedder.embed(["a"], "truncate"))
        await begun(session)
        alone = embedder.queued_tokens
        second = asyncio.create_task(embedder.embed(["b"], "truncate"))
        await queued(embedder)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert embedder.queued_tokens == alone
        session.gate.set()
        await first
        await embedder.embed(["c"], "truncate")
        assert session.batches == [["a"], ["c"]]

    async def test_more_than_the_bound_is_refused_and_the_rest_goes_on(self, make, session):
        embedder = make(max_queued_tokens=9)
        session.gate.clear()
        first = asyncio.create_task(embedder.embed(["abc def ghi jkl mno pqr"], "truncate"))
        await begun(session)
        with pytest.raises(Overloaded) as refused:
            await embedder.embed(["abc"], "truncate")
        assert refused.value.retry_after_s > 0
        session.gate.set()
        assert not (await first).faults
        assert not (await embedder.embed(["abc"], "truncate")).faults

    async def test_two_workers_run_two_batches_at_once(self, make, session):
        embedder = make(workers=2, batch_tokens=1)
        session.gate.clear()
        call = asyncio.create_task(embedder.embed(list("abcd"), "truncate"))
        await begun(session)
        await begun(session)
        session.gate.set()
        assert not (await call).faults
