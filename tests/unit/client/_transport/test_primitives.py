"""Several calls at once, in order: on threads as on an event loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest
from judged._transport.primitives import (
    async_in_order,
    async_on_thread,
    async_sleep,
    async_slot,
    in_order,
    send,
    slot,
)


class Method:
    """A call of gRPC that is answered once the test says so."""

    def __init__(self) -> None:
        self.calls: list[Future[str]] = []
        self.called = threading.Semaphore(0)

    def future(self, request: str, **_: object) -> Future[str]:
        del request
        call: Future[str] = Future()
        self.calls.append(call)
        self.called.release()
        return call


def test_results_come_in_order_and_no_more_than_said_are_under_way():
    begun: list[int] = []
    lock = threading.Lock()

    def work(n: int) -> int:
        with lock:
            begun.append(n)
        return n * n

    found = in_order(work, range(6), 2)
    assert next(found) == 0
    assert max(begun) <= 1
    assert list(found) == [n * n for n in range(1, 6)]


async def test_so_they_do_on_a_loop():
    two, under_way = asyncio.Barrier(2), 0

    async def work(n: int) -> int:
        nonlocal under_way
        under_way += 1
        assert under_way <= 2
        await two.wait()
        under_way -= 1
        return n * n

    found = [each async for each in async_in_order(work, range(6), 2)]
    assert found == [n * n for n in range(6)]


def test_to_leave_cancels_the_calls_that_are_under_way():
    method = Method()
    found: Any = in_order(lambda n: send(method, str(n)), range(9), 2)

    def take_first() -> None:
        with pytest.raises(ValueError, match="so all"):
            next(found)

    first = threading.Thread(target=take_first)
    first.start()
    for _ in range(2):
        assert method.called.acquire(timeout=10)
    one, other = method.calls
    one.set_exception(ValueError("ends the first, and so all"))
    first.join(10)
    assert one.cancelled() or other.cancelled()


async def test_to_leave_cancels_the_tasks_that_are_under_way():
    cancelled = asyncio.Event()

    async def work(n: int) -> int:
        if n:
            try:
                await async_sleep(600)
            except asyncio.CancelledError:
                cancelled.set()
                raise
        return n

    found = async_in_order(work, range(3), 2)
    assert await anext(found) == 0
    await found.aclose()
    assert cancelled.is_set()


async def test_what_work_on_a_thread_raises_is_raised_here():
    assert await async_on_thread(lambda: threading.current_thread().daemon)
    with pytest.raises(KeyError):
        await async_on_thread(lambda: dict[str, int]()["x"])
    with pytest.raises(RuntimeError, match="StopIteration"):
        await async_on_thread(lambda: next(iter(())))


async def test_who_waits_for_a_slot_waits_as_long_as_its_time_lasts():
    loops, threads = asyncio.Semaphore(1), threading.Semaphore(1)
    async with async_slot(loops, 1):
        with pytest.raises(TimeoutError):
            async with async_slot(loops, 0.01):
                pass
    async with async_slot(loops, 1):
        pass
    with slot(threads, 1), pytest.raises(TimeoutError), slot(threads, 0.01):
        pass
    with slot(threads, 1):
        pass
