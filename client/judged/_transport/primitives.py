"""The primitives that differ between asyncio and threads, in pairs: `async_sleep` and `sleep`.

The rest of the client is written once, for asyncio, and generated for threads: see proto/sync.py.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from contextvars import copy_context
from functools import partial
from itertools import islice
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

async_sleep = asyncio.sleep


@asynccontextmanager
async def async_slot(window: asyncio.Semaphore, seconds: float) -> AsyncGenerator[None, None]:
    """Acquire a slot of a window within the body. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        await window.acquire()
    try:
        yield
    finally:
        window.release()


@contextmanager
def slot(window: threading.Semaphore, seconds: float) -> Generator[None, None, None]:
    """Acquire a slot of a window within the body. Raises TimeoutError."""
    if not window.acquire(timeout=seconds):
        raise TimeoutError
    try:
        yield
    finally:
        window.release()


async def async_send(
    method: Callable[..., Awaitable[Result]], request: object, **options: object
) -> Result:
    """Return the reply of one try."""
    return await method(request, **options)


async def async_in_order(
    work: Callable[[Item], Awaitable[Result]], items: Iterable[Item], ahead: int
) -> AsyncGenerator[Result, None]:
    """Yield the result of `work` for each item, in order, with up to `ahead` running at once.

    Closing the generator cancels what is running.
    """
    under_way: deque[asyncio.Future[Result]] = deque()
    unsent = iter(items)
    try:
        while True:
            for item in islice(unsent, ahead - len(under_way)):
                under_way.append(asyncio.ensure_future(work(item)))
                await asyncio.sleep(0)  # send this one before the next is serialized
            if not under_way:
                return
            yield await under_way[0]
            under_way.popleft()
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def async_on_thread(work: Callable[[], Result]) -> Result:
    """Return the result of long-running work, from a thread of its own.

    The thread does not keep Python from exiting. Cancelling the caller returns at once; the thread
    runs on until the work notices.
    """
    return await asyncio.wrap_future(_Worker(partial(copy_context().run, work)).result)


class _Worker(threading.Thread):
    """A thread with a result; `stop` cancels its call to the server."""

    def __init__(self, work: Callable[[], object]) -> None:
        # A daemon: neither a caller that stops early nor the interpreter waits for it.
        super().__init__(name="judged-work", daemon=True)
        self.stopped = threading.Event()
        self.result: Future[Any] = Future()
        self.result.set_running_or_notify_cancel()  # a waiter may stop; the work continues
        self.call: Any = None
        self._work = work
        self.start()

    def run(self) -> None:
        try:
            self.result.set_result(self._work())
        except StopIteration as error:  # asyncio futures don't accept it
            self.result.set_exception(RuntimeError(f"the work raised {error!r}"))
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            self.result.set_exception(error)

    def stop(self) -> None:
        self.stopped.set()
        if self.call is not None:
            self.call.cancel()


class _Stopped(BaseException):
    """Ends the work of a thread whose result is no longer needed."""


def sleep(seconds: float) -> None:
    """Sleep. On a thread of `in_order`, raise _Stopped as soon as the thread is stopped."""
    worker = threading.current_thread()
    if not isinstance(worker, _Worker):
        time.sleep(seconds)
    elif worker.stopped.wait(seconds):
        raise _Stopped


def send(method: Callable[..., Result], request: object, **options: object) -> Result:
    """Return the reply of one try. On a thread of `in_order`, stopping the thread cancels it."""
    worker = threading.current_thread()
    if not isinstance(worker, _Worker):
        return method(request, **options)
    worker.call = method.future(request, **options)  # type: ignore[attr-defined]  # a call of gRPC
    if worker.stopped.is_set():
        worker.call.cancel()
    result: Result = worker.call.result()
    return result


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Generator[Result, None, None]:
    """Yield the result of `work` for each item, as `async_in_order` does, on threads.

    Within such a thread, items are processed one by one, so that the thread can be stopped.
    """
    if isinstance(threading.current_thread(), _Worker):
        yield from map(work, items)
        return
    under_way: deque[_Worker] = deque()
    unsent = iter(items)
    try:
        while True:
            for item in islice(unsent, ahead - len(under_way)):
                under_way.append(_Worker(partial(work, item)))
            if not under_way:
                return
            yield under_way[0].result.result()
            under_way.popleft()
    finally:
        for worker in under_way:
            worker.stop()
