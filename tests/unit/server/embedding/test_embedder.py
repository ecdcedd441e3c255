"""The engine: results in order, windows, what is kept, and nothing left behind."""

import asyncio
import dataclasses
import gc
from dataclasses import replace

import numpy as np
import pytest
from judged.values.choices import Flag
from judged_server.embedding import batching
from judged_server.embedding import embedder as embedders
from judged_server.embedding.base import TEXT_TOO_LONG
from judged_server.embedding.batching import InflightText
from judged_server.scheduling import concurrency
from judged_server.tenant import EVERYBODY, TENANT, Tenant

from tests.fakes.models.session import begun, queued, until
from tests.fakes.models.tiny_model import HIDDEN

TEXTS = ["a b c", "", "b", "c d e f g h", "zz"]


class TestResults:
    async def test_each_text_has_its_own_row_whatever_the_batches(self, make, monkeypatch):
        whole = await make().embed(TEXTS, "truncate")
        monkeypatch.setattr(batching, "SLICE_CHARS", 3)
        apart = await make(workers=3, batch_tokens=3).embed(TEXTS, "truncate")
        assert list(whole.row_offsets) == [0, 1, 2, 3, 4, 5]
        np.testing.assert_array_equal(whole.vectors, apart.vectors)

    async def test_no_texts_make_no_rows_and_no_run(self, make, session):
        embedded = await make().embed([], "truncate")
        assert embedded.vectors.shape == (0, HIDDEN)
        assert list(embedded.row_offsets) == [0]
        assert session.batches == []

    async def test_many_texts_take_the_same_road(self, make, monkeypatch):
        expected = await make().embed(TEXTS, "truncate")
        monkeypatch.setattr(concurrency, "INLINE_BYTES", 0)
        actual = await make().embed(TEXTS, "truncate")
        np.testing.assert_array_equal(actual.vectors, expected.vectors)

    async def test_batches_are_cut_by_tokens_with_padding(self, make, session):
        await make(batch_tokens=12).embed(["abcdef", "ab", "a", "b", "c"], "truncate")
        assert session.batches == [["abcdef"], ["ab", "a", "b"], ["c"]]

    async def test_the_card_says_what_the_session_runs(self, make, session):
        session.facts = dataclasses.replace(
            session.facts, precision="int8", execution_provider="OpenVINO"
        )
        card = make().card
        assert (card.precision, card.execution_provider) == ("int8", "OpenVINO")

    async def test_an_unknown_policy_is_a_bug_of_the_caller(self, make):
        with pytest.raises(ValueError, match="truncate, reject, window_max"):
            await make().embed(["a"], "drop")

    async def test_what_has_ended_is_freed_without_a_collection(self, make, monkeypatch):
        """But for what a thread that waits for more had last."""
        monkeypatch.setattr(batching, "SLICE_TEXTS", 4)
        embedder = make(batch_tokens=12)
        gc.collect()
        gc.disable()
        try:
            await embedder.embed([f"{n:03}" for n in range(200)], "truncate")
            work = embedder.embed([f"{n:04}" for n in range(200)], "truncate")
            leaving = asyncio.create_task(work)
            await asyncio.sleep(0)  # it waits for its texts
            leaving.cancel()
            await asyncio.wait({leaving})
            del work, leaving  # and the traceback of its end
            # A thread may be about to let go of the call.
            await until(lambda: sum(isinstance(o, InflightText) for o in gc.get_objects()) < 40)
        finally:
            gc.enable()


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


class TestCache:
    async def test_what_was_embedded_is_not_run_again(self, make, session):
        embedder = make(memory_bytes=1 << 16)
        texts = ["a", "b" * 50, "c"]
        for policy in ("truncate", "window_max"):
            first = await embedder.embed(texts, policy)
            runs = len(session.batches)
            again = await embedder.embed([texts[2], *texts[:2]], policy)
            assert len(session.batches) == runs
            assert again.flags.tolist() == [first.flags[i] for i in (2, 0, 1)]
            parts = np.split(first.vectors, first.row_offsets[1:-1])
            np.testing.assert_array_equal(
                again.vectors, np.concatenate([parts[i] for i in (2, 0, 1)])
            )

    async def test_what_a_tenant_had_embedded_is_run_again_for_another(self, make, session):
        embedder = make(memory_bytes=1 << 16)

        async def embed(tenant: Tenant):
            TENANT.set(tenant)
            return await embedder.embed(["a b", "c"], "truncate")

        def tenant(name: str, key: bytes) -> Tenant:
            return Tenant(name, domain_key=key)

        runs = []
        first = None
        for each in (
            tenant("a", b"1"), tenant("a", b"1"), tenant("b", b"2"), tenant("c", b"2"), EVERYBODY
        ):  # fmt: skip
            done = await asyncio.create_task(embed(each))
            first = done if first is None else first
            np.testing.assert_array_equal(done.vectors, first.vectors)
            runs.append(sum(map(len, session.batches)))
        assert runs == [2, 2, 4, 4, 6]

    async def test_old_and_new_texts_come_together_in_order(self, make, session):
        embedder = make(memory_bytes=1 << 16)
        await embedder.embed(["b", "d"], "truncate")
        mixed = await embedder.embed(list("abcde"), "truncate")
        fresh = await make().embed(list("abcde"), "truncate")
        np.testing.assert_array_equal(mixed.vectors, fresh.vectors)

    async def test_faults_are_not_kept(self, make, session):
        embedder = make(memory_bytes=1 << 16)
        session.fail_on = "q"
        assert (await embedder.embed(["q"], "truncate")).faults
        assert (await embedder.embed(["a" * 50], "reject")).faults
        session.fail_on = None
        assert not (await embedder.embed(["q"], "truncate")).faults
        assert (await embedder.embed(["a" * 50], "reject")).faults

    async def test_what_a_caller_left_behind_is_kept_if_it_ran(self, make, session):
        embedder = make(memory_bytes=1 << 16)
        session.gate.clear()
        call = asyncio.create_task(embedder.embed(["a"], "truncate"))
        await begun(session)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        session.gate.set()
        await until(lambda: embedder.queued_tokens == 0)
        await embedder.embed(["a"], "truncate")
        assert session.batches == [["a"]]


class TestStorm:
    async def test_random_calls_and_cancels_leave_nothing_behind(self, make, session, monkeypatch):
        monkeypatch.setattr(embedders, "MODEL", replace(embedders.MODEL, interactive=12))
        embedder = make(workers=2, memory_bytes=1 << 12, batch_tokens=12)
        alone = {
            text: (await make(batch_tokens=12).embed([text], "truncate")).vectors
            for text in "abcdefghij"
        }
        rng = np.random.default_rng(20)

        async def call():
            texts = [
                str(text) for text in rng.permutation(list("abcdefghij"))[: rng.integers(1, 8)]
            ]
            task = asyncio.create_task(embedder.embed(texts, "truncate"))
            for _ in range(int(rng.integers(0, 6))):
                await asyncio.sleep(0)
            if rng.random() < 0.5:
                task.cancel()
            try:
                embedded = await task
            except asyncio.CancelledError:
                return
            expected = np.concatenate([alone[text] for text in texts])
            np.testing.assert_array_equal(embedded.vectors, expected)

        for _ in range(20):
            await asyncio.gather(*(call() for _ in range(25)))
        await until(lambda: embedder.queued_tokens == 0)
        # No text is left over as one that is under way, which would never end.
        texts = list("abcdefghij")
        async with asyncio.timeout(30):
            embedded = await embedder.embed(texts, "truncate")
        np.testing.assert_array_equal(
            embedded.vectors, np.concatenate([alone[text] for text in texts])
        )


class TestClosing:
    async def test_closing_ends_what_waits_with_an_error_nobody_mistakes(self, make, session):
        embedder = make()
        session.gate.clear()
        first = asyncio.create_task(embedder.embed(["a"], "truncate"))
        await begun(session)
        second = asyncio.create_task(embedder.embed(["b"], "truncate"))
        await queued(embedder)
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
