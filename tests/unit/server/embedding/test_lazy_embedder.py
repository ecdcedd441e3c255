"""A stored model that its first use loads."""

import asyncio
import threading

import pytest
from judged_server.embedding.registry import LazyEmbedder
from judged_server.errors import ModelDamaged


class Loader:
    """Gives a model once it is let, or fails to."""

    def __init__(self, model):
        self.model = model
        self.loads = 0
        self.let = threading.Event()
        self.error = None

    def __call__(self):
        self.loads += 1
        assert self.let.wait(30)
        if self.error is not None:
            raise self.error
        return self.model


async def test_all_who_wait_have_one_load_and_take_no_thread_each(make):
    model = make()
    loader = Loader(model)
    lazy = LazyEmbedder(model.card, loader)
    # More than the threads of the default pool.
    calls = [asyncio.create_task(lazy.embed(["a"], "truncate")) for _ in range(50)]
    async with asyncio.timeout(20):
        await asyncio.to_thread(lambda: None)
    calls[0].cancel()
    loader.let.set()
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(ended[0], asyncio.CancelledError)
    found = [embedded for embedded in ended if not isinstance(embedded, BaseException)]
    assert [len(embedded.vectors) for embedded in found] == [1] * 49
    assert loader.loads == 1


async def test_after_a_failure_the_next_use_tries_again(make):
    model = make()
    loader = Loader(model)
    loader.let.set()
    loader.error = ModelDamaged("m", "its files are gone", "install it again")
    lazy = LazyEmbedder(model.card, loader)
    failed = await asyncio.gather(
        *(lazy.embed(["a"], "truncate") for _ in range(5)), return_exceptions=True
    )
    assert [type(error) for error in failed] == [ModelDamaged] * 5
    assert loader.loads == 1
    with pytest.raises(ModelDamaged):
        await lazy.embed(["a"], "truncate")
    loader.error = None
    assert len((await lazy.embed(["a"], "truncate")).vectors) == 1
    assert loader.loads == 3
