"""The engine: results in order, turns between calls, nothing run for callers who have gone."""

import asyncio
import threading

import numpy as np
import pytest
from judged_server.domain import Flag
from judged_server.embedding import engine
from judged_server.embedding.engine import OnnxEmbedder
from judged_server.embedding.policy import EMBEDDING_FAILED, TEXT_TOO_LONG
from judged_server.embedding.tokenizer import WindowTokenizer
from judged_server.errors import Overloaded
from judged_server.ports import ModelCard

from tests.fakes import tiny_model
from tests.fakes.tiny_model import HIDDEN, VOCABULARY, WINDOW

CARD = ModelCard("fake", HIDDEN, WINDOW, "a" * 64, "b" * 64, "mean", True, "fp32", "Fake")
TEXTS = ["a b c", "", "b", "c d e f g h", "zz"]


class FakeSession:
    """A vector by the first letter of each row; can wait, fail, or give what is not finite."""

    def __init__(self):
        self.batches = []
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Semaphore(0)
        self.fail_on = None
        self.not_finite_on = None

    def run(self, token_ids, mask):
        self.begun.release()
        self.gate.wait(30)
        self.batches.append(
            [self._letters(row, kept) for row, kept in zip(token_ids, mask, strict=True)]
        )
        vectors = np.zeros((len(token_ids), HIDDEN), np.float32)
        for row, letters in enumerate(self.batches[-1]):
            if self.fail_on is not None and self.fail_on in letters:
                raise RuntimeError("out of memory")
            vectors[row, sum(letters.encode()) % HIDDEN] = 1
            if self.not_finite_on is not None and self.not_finite_on in letters:
                vectors[row, 0] = np.nan
        return vectors

    def _letters(self, row, kept):
        tokens = [VOCABULARY[i] for i in row[kept.astype(bool)]]
        return "".join(token.removeprefix("##") for token in tokens if token[0] != "[")


@pytest.fixture
def session():
    return FakeSession()


@pytest.fixture
def make(session):
    made = []

    def build(workers=1, **options):
        tokenizer = WindowTokenizer(tiny_model.tokenizer(), WINDOW)
        made.append(OnnxEmbedder(CARD, tokenizer, session, workers, **options))
        return made[-1]

    yield build
    session.gate.set()
    for embedder in made:
        embedder.close()


async def _begun(session):
    assert await asyncio.to_thread(session.begun.acquire, timeout=30)


async def _queued(embedder):
    """Return once a batch waits behind the one that runs."""
    while embedder._pool._work_queue.empty():  # noqa: ASYNC110 - the queue has no event
        await asyncio.sleep(0)


class TestResults:
    async def test_each_text_has_its_own_row_whatever_the_batches(self, make, monkeypatch):
        whole = await make().embed(TEXTS, "truncate")
        monkeypatch.setattr(engine, "BATCH_TOKENS", 3)
        monkeypatch.setattr(engine, "SLICE_CHARS", 3)
        apart = await make(workers=3).embed(TEXTS, "truncate")
        assert list(whole.row_offsets) == [0, 1, 2, 3, 4, 5]
        np.testing.assert_array_equal(whole.vectors, apart.vectors)

    async def test_no_texts_make_no_rows_and_no_run(self, make, session):
        embedded = await make().embed([], "truncate")
        assert embedded.vectors.shape == (0, HIDDEN)
        assert list(embedded.row_offsets) == [0]
        assert session.batches == []

    async def test_many_texts_take_the_same_road(self, make, monkeypatch):
        expected = await make().embed(TEXTS, "truncate")
        monkeypatch.setattr(engine, "INLINE_TEXTS", 0)
        actual = await make().embed(TEXTS, "truncate")
        np.testing.assert_array_equal(actual.vectors, expected.vectors)

    async def test_batches_are_cut_by_tokens_with_padding(self, make, session, monkeypatch):
        monkeypatch.setattr(engine, "BATCH_TOKENS", 12)
        await make().embed(["abcdef", "ab", "a", "b", "c"], "truncate")
        assert session.batches == [["abcdef"], ["ab", "a", "b"], ["c"]]

    async def test_an_unknown_policy_is_a_bug_of_the_caller(self, make):
        with pytest.raises(ValueError, match="truncate, reject, window_max"):
            await make().embed(["a"], "drop")


class TestLongTexts:
    async def test_truncated_texts_are_flagged(self, make):
        embedded = await make().embed(["a", "a" * 50], "truncate")
        assert embedded.flags.tolist() == [Flag.NONE, Flag.TRUNCATED]

    async def test_rejected_texts_have_a_fault_and_no_row(self, make):
        embedded = await make().embed(["a", "a" * 50, "b"], "reject")
        assert list(embedded.row_offsets) == [0, 1, 1, 2]
        assert {i: fault[0] for i, fault in embedded.faults.items()} == {1: TEXT_TOO_LONG}

    async def test_windows_have_a_row_each(self, make):
        embedded = await make().embed(["a", "a" * 50, "b"], "window_max")
        assert embedded.flags.tolist() == [Flag.NONE, Flag.WINDOWED, Flag.NONE]
        first, second, third, last = embedded.row_offsets
        assert (first, second, last - third) == (0, 1, 1)
        assert third - second > 4


class TestFaults:
    async def test_a_vector_that_is_not_finite_is_the_fault_of_its_text(self, make, session):
        session.not_finite_on = "q"
        embedded = await make().embed(["a", "q", "b"], "truncate")
        assert embedded.faults.keys() == {1}
        assert embedded.faults[1][0] == EMBEDDING_FAILED
        assert np.isfinite(embedded.vectors).all()

    async def test_one_bad_window_is_the_fault_of_its_text(self, make, session):
        session.not_finite_on = "q"
        texts = ["a", "a" * 40 + "q", "b"]
        embedded = await make().embed(texts, "window_max")
        assert embedded.faults.keys() == {1}

    async def test_a_failed_batch_is_halved_once(self, make, session):
        session.fail_on = "q"
        embedded = await make().embed(["a", "b", "c", "q"], "truncate")
        assert embedded.faults.keys() == {2, 3}
        assert {fault[0] for fault in embedded.faults.values()} == {EMBEDDING_FAILED}
        assert [len(batch) for batch in session.batches] == [4, 2, 2]
        good = await make().embed(["a", "b"], "truncate")
        np.testing.assert_array_equal(embedded.vectors[:2], good.vectors)

    async def test_the_worker_lives_on(self, make, session):
        embedder = make()
        session.fail_on = "q"
        await embedder.embed(["q"], "truncate")
        assert not (await embedder.embed(["a"], "truncate")).faults


class TestScheduling:
    async def test_calls_side_by_side_take_turns(self, make, session, monkeypatch):
        monkeypatch.setattr(engine, "BATCH_TOKENS", 1)
        embedder = make()
        session.gate.clear()
        large = asyncio.create_task(embedder.embed(list("abcdefgh"), "truncate"))
        await _begun(session)
        small = asyncio.create_task(embedder.embed(["z"], "truncate"))
        await _queued(embedder)
        session.gate.set()
        await small
        await large
        order = [batch[0] for batch in session.batches]
        assert order.index("z") <= 3

    async def test_a_cancelled_calls_batches_never_begin(self, make, session, monkeypatch):
        monkeypatch.setattr(engine, "BATCH_TOKENS", 1)
        embedder = make()
        session.gate.clear()
        call = asyncio.create_task(embedder.embed(list("abcdefgh"), "truncate"))
        await _begun(session)
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
        await _begun(session)
        second = asyncio.create_task(embedder.embed(["b"], "truncate"))
        await _queued(embedder)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        session.gate.set()
        await first
        await embedder.embed(["c"], "truncate")
        assert session.batches == [["a"], ["c"]]

    async def test_more_than_the_bound_is_refused_and_the_rest_goes_on(self, make, session):
        embedder = make(max_queued_tokens=9)
        session.gate.clear()
        first = asyncio.create_task(embedder.embed(["abc def ghi jkl mno pqr"], "truncate"))
        await _begun(session)
        with pytest.raises(Overloaded) as refused:
            await embedder.embed(["abc"], "truncate")
        assert refused.value.retry_after_s > 0
        session.gate.set()
        assert not (await first).faults
        assert not (await embedder.embed(["abc"], "truncate")).faults

    async def test_two_workers_run_two_batches_at_once(self, make, session, monkeypatch):
        monkeypatch.setattr(engine, "BATCH_TOKENS", 1)
        embedder = make(workers=2)
        session.gate.clear()
        call = asyncio.create_task(embedder.embed(list("abcd"), "truncate"))
        await _begun(session)
        await _begun(session)
        session.gate.set()
        assert not (await call).faults


class TestClosing:
    async def test_closing_ends_what_waits_with_an_error_nobody_mistakes(self, make, session):
        embedder = make()
        session.gate.clear()
        first = asyncio.create_task(embedder.embed(["a"], "truncate"))
        await _begun(session)
        second = asyncio.create_task(embedder.embed(["b"], "truncate"))
        await _queued(embedder)
        closing = asyncio.create_task(asyncio.to_thread(embedder.close))
        with pytest.raises(RuntimeError, match="closed"):
            await second
        session.gate.set()
        await closing
        assert not (await first).faults
        assert session.batches == [["a"]]

    async def test_a_closed_embedder_takes_no_work_and_closes_again(self, make):
        embedder = make()
        embedder.close()
        embedder.close()
        with pytest.raises(RuntimeError):
            await embedder.embed(["a"], "truncate")
