"""The engine: what is kept, and nothing left behind."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from judged_server.embedding import embedder as embedders
from judged_server.tenant import EVERYBODY, TENANT, Tenant

from tests.fakes.models.session import begun, queued, until


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
        await until(lambda: embedder._cache._kept)
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
        assert embedder._queue._waiting_tokens == 0


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
