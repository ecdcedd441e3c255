"""What differs between asyncio and threads, in pairs: `async_sleep` and `sleep`.

All else of the client is written once, on asyncio, and generated for threads: see proto/sync.py.
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
    """Hold a slot of a window. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        await window.acquire()
    try:
        yield
    finally:
        window.release()


@contextmanager
def slot(window: threading.Semaphore, seconds: float) -> Generator[None, None, None]:
    """Hold a slot of a window. Raises TimeoutError."""
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
    """Yield the result of the work on each item, in order, `ahead` under way.

    To close it cancels what is under way.
    """
    under_way: deque[asyncio.Future[Result]] = deque()
    unsent = iter(items)
    try:
        while True:
            for item in islice(unsent, ahead - len(under_way)):
                under_way.append(asyncio.ensure_future(work(item)))
                await asyncio.sleep(0)  # sends it before the next is written
            if not under_way:
                return
            yield await under_way[0]
            under_way.popleft()
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def async_on_thread(work: Callable[[], Result]) -> Result:
    """Return the result of work that may take long, from a thread of its own.

    The thread does not keep Python from exiting. Who is cancelled here leaves at once; the thread
    goes on until the work has noticed.
    """
    return await asyncio.wrap_future(_Worker(partial(copy_context().run, work)).result)


class _Worker(threading.Thread):
    """A thread with a result; its call to the server ends when it is stopped."""

    def __init__(self, work: Callable[[], object]) -> None:
        # A daemon: who leaves early does not wait for it, nor does the interpreter.
        super().__init__(name="judged-work", daemon=True)
        self.stopped = threading.Event()
        self.result: Future[Any] = Future()
        self.result.set_running_or_notify_cancel()  # who waits may leave, the work goes on
        self.call: Any = None
        self._work = work
        self.start()

    def run(self) -> None:
        try:
            self.result.set_result(self._work())
        except StopIteration as error:  # which no future of a loop takes
            self.result.set_exception(RuntimeError(f"the work raised {error!r}"))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self.result.set_exception(error)

    def stop(self) -> None:
        self.stopped.set()
        if self.call is not None:
            self.call.cancel()


class _Stopped(BaseException):
    """Ends the work of a thread whose result nobody waits for."""


def sleep(seconds: float) -> None:
    """Wait, on a thread of `in_order` until it is stopped at most."""
    worker = threading.current_thread()
    if not isinstance(worker, _Worker):
        time.sleep(seconds)
    elif worker.stopped.wait(seconds):
        raise _Stopped


def send(method: Callable[..., Result], request: object, **options: object) -> Result:
    """Return the reply of one try; it can be cancelled on a thread of `in_order`."""
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
    """Yield the result of the work on each item; as `async_in_order`, on threads.

    On a thread of such work they are worked on one by one, so that it can be stopped.
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
