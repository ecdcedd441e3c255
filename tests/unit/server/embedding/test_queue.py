"""The queue between calls and threads: slices, batches, turns, leaving, closing."""

import asyncio
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_server.embedding import embedder as embedders
from judged_server.embedding.batching import (
    PADDING_TOKENS,
    QUANTUM,
    Call,
    InflightText,
    WorkQueue,
)
from judged_server.embedding.embedder import MODEL
from judged_server.embedding.tokenizer import TokenizedText
from judged_server.errors import Overloaded
from judged_server.scheduling import round_robin
from judged_server.scheduling.admission import Admission
from judged_server.tenant import Sender

from tests.fakes.models.session import begun, queued
from tests.fakes.models.tiny_model import WINDOW

BATCH_CALL = Sender(is_batch=True)
IDLE = asyncio.new_event_loop()
"""Of calls that nobody waits for."""
CALLS = st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=40), min_size=1, max_size=6)


@pytest.fixture(autouse=True, scope="module")
def _closed_at_the_end():
    yield
    IDLE.close()


def _call(texts, sender=BATCH_CALL):
    entries = [InflightText(text.encode(), text, "truncate", len(text)) for text in texts]
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        loop = IDLE
    return Call(entries, loop.create_future(), sender)


def _windows(length):
    return TokenizedText((np.zeros(length, np.int64),))


def _queue(**options):
    return WorkQueue(2, Admission(replace(MODEL, most=10**9), max_delay_s=10**6), **options)


def _batches(work):
    """Yield the lengths of the windows of each batch, and whose they are, to the end."""
    while windows := work.take_batch(timeout_s=0.0).windows:
        yield [window.length for window in windows], windows


def _waiting(calls, budget):
    """Return a queue with the windows of calls, given by the lengths of their texts."""
    work = _queue(batch_tokens=budget)
    for number, lengths in enumerate(calls):
        call = _call([f"{number} {place}" for place in range(len(lengths))])
        work.submit(call)
        for entry, length in zip(call.entries, lengths, strict=True):
            work.put_windows([entry], [_windows(length)])
    return work


class TestBatches:
    @given(CALLS, st.integers(1, 1000))
    def test_each_window_runs_once_the_budget_holds_and_padding_is_small(self, calls, budget):
        ran = []
        for lengths, _ in _batches(_waiting(calls, budget)):
            ran += lengths
            assert max(lengths) * len(lengths) <= budget or len(lengths) == 1
            assert max(lengths) - min(lengths) <= 2 * PADDING_TOKENS
        assert sorted(ran) == sorted(length for call in calls for length in call)

    @settings(max_examples=40, deadline=None)
    @given(
        st.sampled_from([1 / 100, 1 / 3, 1.0]),
        st.lists(st.integers(20, 300), min_size=1, max_size=8),
        st.lists(st.integers(20, 300), min_size=1, max_size=8),
        st.sampled_from([64, 256, 4096]),
        st.booleans(),
    )
    def test_tokens_are_shared_by_weight(self, light_weight, light, busy, budget, is_batch):
        """Of senders who always have windows that wait, whatever their lengths are."""
        weights = {"light": light_weight, "busy": 1.0}
        lengths = {"light": light, "busy": busy}
        work = _queue(batch_tokens=budget)
        waiting, ran = Counter[str](), Counter[str]()
        number = 0
        while sum(ran.values()) < 60 * QUANTUM:
            for name, weight in weights.items():
                while waiting[name] < 2 * (budget + 300) * len(lengths[name]):
                    texts = [f"{number} {place}" for place in range(len(lengths[name]))]
                    call = _call(texts, Sender(name, weight, is_batch))
                    number += 1
                    work.submit(call)
                    for entry, length in zip(call.entries, lengths[name], strict=True):
                        work.put_windows([entry], [_windows(length)])
                    waiting[name] += sum(lengths[name])
            for window in work.take_batch().windows:
                name = window.entry.calls[0].sender.name
                ran[name] += window.length
                waiting[name] -= window.length
        share = ran["light"] / sum(ran.values())
        due = light_weight / sum(weights.values())
        # A turn more or less for one of them, or a window that is longer than its turn.
        slack = (QUANTUM * light_weight + budget + 300) / sum(ran.values())
        assert share == pytest.approx(due, abs=slack)


class TestTurns:
    """Of calls to an engine whose session is held up."""

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
        monkeypatch.setattr(round_robin, "BATCH_TURNS", 3)
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
