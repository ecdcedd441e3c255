"""The workers: a failure is that of its texts, until the model fails a plain text too."""

import numpy as np
import pytest
from judged_server.embedding.base import EMBEDDING_FAILED, OVERLOADED

from tests.fakes.models.session import Panic, until


class TestFaults:
    async def test_a_failed_batch_is_halved_once(self, make, session):
        session.fail_on = "q"
        embedded = await make().embed(["a", "b", "c", "q"], "truncate")
        assert embedded.faults.keys() == {2, 3}
        assert {fault[0] for fault in embedded.faults.values()} == {EMBEDDING_FAILED}
        assert [len(batch) for batch in session.batches] == [4, 2, 2]
        good = await make().embed(["a", "b"], "truncate")
        np.testing.assert_array_equal(embedded.vectors[:2], good.vectors)

    @pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, Panic])
    async def test_the_worker_lives_on(self, make, session, error):
        session.error = error("a panic")
        embedder = make()
        session.fail_on = "q"
        assert (await embedder.embed(["q"], "truncate")).faults[0][0] == EMBEDDING_FAILED
        assert not (await embedder.embed(["a"], "truncate")).faults

    @pytest.mark.parametrize(
        "error",
        [
            MemoryError(),
            RuntimeError("ONNXRuntime: Failed to allocate memory for requested buffer"),
            RuntimeError("CUDA_ERROR_OUT_OF_MEMORY"),
        ],
    )
    async def test_want_of_memory_is_said_and_may_pass(self, make, session, error):
        session.error, session.fail_on = error, "q"
        embedded = await make().embed(["q"], "truncate")
        assert embedded.faults[0][0] == OVERLOADED


class TestTrouble:
    async def test_a_model_that_fails_three_times_and_then_a_plain_text(self, make, session):
        told: list[bool] = []
        embedder = make(report_unhealthy=told.append)
        session.fail_on = ""
        for _ in range(2):
            await embedder.embed(["b"], "truncate")
        assert told == []
        await embedder.embed(["b"], "truncate")
        await until(lambda: told == [True])
        session.fail_on = None
        assert not (await embedder.embed(["b"], "truncate")).faults
        await until(lambda: told == [True, False])

    async def test_texts_to_blame_are_no_trouble(self, make, session):
        told: list[bool] = []
        embedder = make(report_unhealthy=told.append)
        session.fail_on = "q"
        for _ in range(7):
            await embedder.embed(["q"], "truncate")
        await embedder.embed(["b"], "truncate")
        assert told == []
