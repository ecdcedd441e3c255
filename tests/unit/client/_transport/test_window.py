"""The window of messages in flight: bounded, in order, larger on success, smaller when refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from judged._transport import call as window_module
from judged._transport.call import FIRST, LEAST, MOST, Window
from judged._transport.primitives import async_result, result


@contextmanager
def full(window: Window) -> Iterator[int]:
    """Hold all slots; say how many there are."""
    with ExitStack() as stack:
        taken = 0
        while stack.enter_context(window.slot()).done():
            taken += 1
        yield taken


def test_answers_make_it_larger_up_to_a_bound():
    window = Window()
    for _ in range(FIRST):
        window.answered()
    assert window.limit == FIRST
    window.answered()
    window.answered()
    assert window.limit == FIRST + 1
    for _ in range(MOST * MOST):
        window.answered()
    assert window.limit == MOST


def test_refusals_make_it_smaller_those_together_once(monkeypatch: pytest.MonkeyPatch):
    now = 100.0
    monkeypatch.setattr("judged._transport.call.time.monotonic", lambda: now)
    window = Window()
    for _ in range(50):
        window.turned_away()
    assert window.limit == int(FIRST * window_module.DECREASE)
    for _ in range(50):
        now += window_module.SHRINK_EVERY_S
        window.turned_away()
    assert window.limit == LEAST


def test_threads_get_their_slots_in_order():
    window = Window()
    order: list[int] = []
    threads = []
    with full(window):
        for number in range(5):
            waits = len(window._waiting)

            def work(number: int = number) -> None:
                with window.slot() as slot:
                    result(slot, 30)
                    order.append(number)

            threads.append(threading.Thread(target=work))
            threads[-1].start()
            while len(window._waiting) == waits:
                pass
        assert order == []
        for _ in range(MOST):
            window.turned_away()  # one at a time from here on
        window._limit = 1.0
    for thread in threads:
        thread.join(30)
    assert order == [0, 1, 2, 3, 4]


async def test_a_waiter_that_leaves_takes_no_slot_along():
    window = Window()

    async def wait(seconds: float) -> None:
        with window.slot() as slot:
            await async_result(slot, seconds)

    with full(window) as slots:
        with pytest.raises(TimeoutError):
            await wait(0.01)
        with pytest.raises(TimeoutError), window.slot() as slot:
            result(slot, 0.01)
        with pytest.raises(KeyboardInterrupt), window.slot():
            raise KeyboardInterrupt
        waiting = asyncio.create_task(wait(30))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        # Cancelled in the moment in which it was given a slot.
        granted = asyncio.create_task(wait(30))
        await asyncio.sleep(0)
    granted.cancel()
    await asyncio.wait({granted})
    assert granted.cancelled()
    with full(window) as again:
        assert again == slots
