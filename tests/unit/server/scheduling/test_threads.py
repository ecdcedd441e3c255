"""Large texts leave the event loop's thread, few stay, and what nobody awaits ends."""

import asyncio
import threading

import pytest
from judged_server.scheduling.checkpoint import checkpoint
from judged_server.scheduling.concurrency import INLINE_BYTES, run_by_size, run_computation


@pytest.mark.parametrize("size", [INLINE_BYTES - 1, INLINE_BYTES])
async def test_only_large_texts_go_to_a_thread(size):
    def work(value, *, plus):
        return value + plus, threading.current_thread() is threading.main_thread()

    assert await run_by_size(size, work, 1, plus=2) == (3, size < INLINE_BYTES)


class TestComputations:
    async def test_end_when_their_caller_leaves(self):
        began, ended = threading.Event(), threading.Event()

        def work():
            began.set()
            try:
                while True:
                    checkpoint()
            finally:
                ended.set()

        call = asyncio.create_task(run_computation(work))
        await asyncio.to_thread(began.wait, 10)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await asyncio.to_thread(ended.wait, 10)


async def test_a_short_computation_has_its_turn_beside_long_ones():
    release = threading.Event()

    def hold():
        while not release.wait(0.001):
            checkpoint()

    long = [asyncio.create_task(run_computation(hold)) for _ in range(40)]
    try:
        assert await asyncio.wait_for(run_by_size(INLINE_BYTES, lambda: 7), 10) == 7
        assert await asyncio.wait_for(run_computation(lambda: 8), 10) == 8
    finally:
        release.set()
    await asyncio.gather(*long)
