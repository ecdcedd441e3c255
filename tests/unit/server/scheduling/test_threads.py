"""Large texts leave the event loop's thread, few stay, and what nobody awaits ends."""

import threading

import pytest
from judged_server.scheduling.concurrency import INLINE_BYTES, run_by_size


@pytest.mark.parametrize("size", [INLINE_BYTES - 1, INLINE_BYTES])
async def test_only_large_texts_go_to_a_thread(size):
    def work(value, *, plus):
        return value + plus, threading.current_thread() is threading.main_thread()

    assert await run_by_size(size, work, 1, plus=2) == (3, size < INLINE_BYTES)
