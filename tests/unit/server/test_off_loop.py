"""Heavy work leaves the event loop's thread, light work stays."""

import threading

import pytest
from judged_server.off_loop import off_loop_if


@pytest.mark.parametrize("heavy", [True, False])
async def test_only_heavy_work_goes_to_a_thread(heavy):
    def work(value, *, plus):
        return value + plus, threading.current_thread() is threading.main_thread()

    assert await off_loop_if(heavy, work, 1, plus=2) == (3, not heavy)
