"""Single flight: a text that several calls want is run once, whoever of them goes."""

import asyncio

import numpy as np
import pytest

from tests.fakes.models.session import begun, called, queued


async def test_a_text_of_several_calls_runs_once(make, session):
    embedder = make()
    session.gate.clear()
    texts = (["a", "b"], ["b", "c"], ["b"])
    calls = [asyncio.create_task(embedder.embed(some, "truncate")) for some in texts]
    await begun(session)
    await called(embedder, 3)
    session.gate.set()
    done = await asyncio.gather(*calls)
    assert sorted(text for batch in session.batches for text in batch) == ["a", "b", "c"]
    for embedded, at in zip(done, (1, 0, 0), strict=True):
        np.testing.assert_array_equal(embedded.vectors[at], done[2].vectors[0])


async def test_policies_do_not_share(make, session):
    embedder = make()
    session.gate.clear()
    calls = [
        asyncio.create_task(embedder.embed(["a"], policy)) for policy in ("truncate", "reject")
    ]
    await called(embedder, 2)
    session.gate.set()
    await asyncio.gather(*calls)
    assert [text for batch in session.batches for text in batch] == ["a", "a"]


@pytest.mark.parametrize("running", [True, False])
async def test_the_first_caller_may_go(make, session, running):
    embedder = make()
    session.gate.clear()
    if not running:
        held = asyncio.create_task(embedder.embed(["z"], "truncate"))
        await begun(session)
    first = asyncio.create_task(embedder.embed(["a"], "truncate"))
    await (begun(session) if running else queued(embedder))
    second = asyncio.create_task(embedder.embed(["a"], "truncate"))
    await called(embedder, 2 + (not running))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    session.gate.set()
    assert (await second).vectors.any()
    if not running:
        await held
    assert sum(batch.count("a") for batch in session.batches) == 1
    assert embedder.queued_tokens == 0
