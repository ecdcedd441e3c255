"""The queue between calls and threads: slices, batches, turns, leaving, closing."""

import asyncio
from collections import Counter
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_server.embedding import embedder as embedders
from judged_server.embedding.batching import (
    PADDING_TOKENS,
    QUANTUM,
    Call,
    WorkQueue,
)
from judged_server.embedding.embedder import MODEL
from judged_server.embedding.tokenizer import TokenizedText, WindowTokenizer
from judged_server.errors import Overloaded
from judged_server.scheduling import fairness
from judged_server.scheduling.fairness import Admission
from judged_server.tenant import Sender

from tests.fakes.models import tiny_model
from tests.fakes.models.session import begun
from tests.fakes.models.tiny_model import WINDOW

BATCH_CALL = Sender(is_batch=True)
IDLE = asyncio.new_event_loop()
"""Of calls that nobody waits for."""
CALLS = st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=40), min_size=1, max_size=6)


@pytest.fixture(autouse=True, scope="module")
def _closed_at_the_end():
    yield
    IDLE.close()


def _call(lengths, sender=BATCH_CALL):
    call = Call(IDLE.create_future(), sender)
    for number, length in enumerate(lengths):
        call.add(bytes(number), TokenizedText((np.zeros(length, np.int64),)), 2)
    return call


def _queue(**options):
    return WorkQueue(Admission(replace(MODEL, most=10**9), max_delay_s=10**6), **options)


class TestBatches:
    @given(CALLS, st.integers(1, 1000))
    def test_each_window_runs_once_the_budget_holds_and_padding_is_small(self, calls, budget):
        work, ran = _queue(batch_tokens=budget), []
        for lengths in calls:
            work.submit(_call(lengths))
        while windows := work.take_batch(timeout_s=0.0).windows:
            lengths = [window.length for window in windows]
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
        while sum(ran.values()) < 60 * QUANTUM:
            for name, weight in weights.items():
                while waiting[name] < 2 * (budget + 300) * len(lengths[name]):
                    work.submit(_call(lengths[name], Sender(name, weight, is_batch)))
                    waiting[name] += sum(lengths[name])
            for window in work.take_batch().windows:
                name = window.call.sender.name
                ran[name] += window.length
                waiting[name] -= window.length
        share = ran["light"] / sum(ran.values())
        due = light_weight / sum(weights.values())
        # A turn more or less for one of them, or a window that is longer than its turn.
        slack = (QUANTUM * light_weight + budget + 300) / sum(ran.values())
        assert share == pytest.approx(due, abs=slack)

    def test_batch_work_has_a_turn_now_and_then(self, monkeypatch):
        monkeypatch.setattr(fairness, "BATCH_TURNS", 3)
        work = _queue(batch_tokens=1)
        work.submit(_call([16] * 4))
        work.submit(_call([3] * 9, Sender()))
        order = ""
        while windows := work.take_batch(timeout_s=0.0).windows:
            order += "M" if windows[0].call.sender.is_batch else "."
        assert order == "..M..M..M..M."


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

    async def test_more_than_the_bound_is_refused_and_the_rest_goes_on(
        self, make, session, monkeypatch
    ):
        monkeypatch.setattr(embedders, "MODEL", replace(MODEL, most=9))
        embedder = make()
        session.gate.clear()
        first = asyncio.create_task(embedder.embed(["abc def ghi jkl mno pqr"], "truncate"))
        await begun(session)
        with pytest.raises(Overloaded) as refused:
            await embedder.embed(["abc"], "truncate")
        assert refused.value.retry_after_s > 0
        session.gate.set()
        assert not (await first).faults
        assert not (await embedder.embed(["abc"], "truncate")).faults

    async def test_what_is_too_much_is_refused_before_its_texts_are_read(
        self, make, session, monkeypatch
    ):
        tokenizer = WindowTokenizer(tiny_model.tokenizer(), WINDOW)
        monkeypatch.setattr(embedders, "MODEL", replace(MODEL, most=40))
        embedder = make(tokenizer=tokenizer)
        session.gate.clear()
        first = asyncio.create_task(embedder.embed(["abc def ghi jkl mno pqr"], "truncate"))
        await begun(session)
        with (
            mock.patch.object(tokenizer, "encode", side_effect=AssertionError("was read")),
            pytest.raises(Overloaded),
        ):
            await embedder.embed([f"{n} abc def ghi" for n in range(20)], "truncate")
        session.gate.set()
        assert not (await first).faults
