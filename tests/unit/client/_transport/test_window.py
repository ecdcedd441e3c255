"""The window of messages in flight: bounded, in order, larger on success, smaller when refused."""

from __future__ import annotations

import asyncio
import threading

import pytest
from judged._transport import window as window_module
from judged._transport.window import FIRST, LEAST, MOST, Window


def full(window: Window) -> int:
    """Take all slots; return how many there were."""
    taken = 0
    while window.take(0):
        taken += 1
    return taken


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
    monkeypatch.setattr("judged._transport.window.time.monotonic", lambda: now)
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
    full(window)
    order: list[int] = []
    threads = []
    for number in range(5):
        waits = len(window._waiting)

        def work(number: int = number) -> None:
            assert window.take(30)
            order.append(number)
            window.release()

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        while len(window._waiting) == waits and number not in order:
            pass
    window.release()
    for thread in threads:
        thread.join(30)
    assert order == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("is_granted", [False, True])
def test_an_interrupted_waiter_takes_no_slot_along(monkeypatch: pytest.MonkeyPatch, is_granted):
    window = Window()
    slots = full(window)

    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if is_granted:
                window.release()
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading, "Event", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            window.take(60)
    for _ in range(slots - is_granted):
        window.release()
    assert full(window) == slots


async def test_a_waiter_that_leaves_takes_no_slot_along():
    window = Window()
    full(window)
    assert not await window.async_take(0.01)
    waiting = asyncio.create_task(window.async_take(30))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    window.release()
    assert await window.async_take(0.01)
    # Cancelled in the moment in which it was given a slot.
    waiting = asyncio.create_task(window.async_take(30))
    await asyncio.sleep(0)
    window.release()
    waiting.cancel()
    await asyncio.wait({waiting})
    assert window.take(0)
