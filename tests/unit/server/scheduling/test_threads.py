"""Heavy work leaves the event loop's thread, light work stays, and what nobody awaits ends."""

import asyncio
import threading

import pytest
from judged_server.scheduling.checkpoint import Abandoned, checkpoint, watched
from judged_server.scheduling.concurrency import run_computation, run_in_thread_if


@pytest.mark.parametrize("heavy", [True, False])
async def test_only_heavy_work_goes_to_a_thread(heavy):
    def work(value, *, plus):
        return value + plus, threading.current_thread() is threading.main_thread()

    assert await run_in_thread_if(heavy, work, 1, plus=2) == (3, not heavy)


def test_a_checkpoint_is_nothing_where_nobody_watches():
    checkpoint()


def test_a_checkpoint_ends_what_was_abandoned():
    with pytest.raises(Abandoned):
        watched(lambda: True, checkpoint)
    checkpoint()


@pytest.mark.parametrize("long", [True, False])
class TestComputations:
    async def test_are_answered(self, long):
        assert await run_computation(long, lambda a, b: a + b, 1, b=2) == 3

    async def test_end_when_their_caller_leaves(self, long):
        began, ended = threading.Event(), threading.Event()

        def work():
            began.set()
            try:
                while True:
                    checkpoint()
            finally:
                ended.set()

        call = asyncio.create_task(run_computation(long, work))
        await asyncio.to_thread(began.wait, 10)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await asyncio.to_thread(ended.wait, 10)


async def test_short_work_does_not_queue_behind_long_computations():
    release = threading.Event()

    def hold():
        assert release.wait(30)

    long = [asyncio.create_task(run_computation(True, hold)) for _ in range(40)]
    try:
        assert await asyncio.wait_for(run_in_thread_if(True, lambda: 7), 10) == 7
        assert await asyncio.wait_for(run_computation(False, lambda: 8), 10) == 8
    finally:
        release.set()
    await asyncio.gather(*long)
