"""What runs beside what: work on threads, so that the event loop is free, and jobs as tasks.

Two rules say where work runs:

* Reading and judging texts of less than INLINE_BYTES stays on the event loop, since handing it to a
  thread costs about 0.1 ms.
* Everything else runs on a thread, and what computes takes turns there (`run_computation`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from judged_server.scheduling.admission import Resource
from judged_server.scheduling.fair_threads import FairThreads
from judged_server.tenant import SENDER

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

Job = TypeVar("Job")
Answer = TypeVar("Answer")

INLINE_BYTES = 1 << 16
"""Texts of so many bytes go to a thread. Fewer take at most a few milliseconds."""
ITEM_BYTES = 200
"""What a group, a context or a verdict counts beside its texts."""

_STARTED_TOGETHER = 32
"""Jobs begin in this many at a time, so that their beginnings don't hold up the event loop."""
INTERACTIVE_QUESTIONS = 32
"""A call that asks more questions is batch work."""

_COMPUTATIONS = FairThreads("computation", max(1, (os.cpu_count() or 1) - 1))
"""For metrics and statistics, which may take seconds. They leave a core to other work."""

IN_PYTHON = FairThreads(
    "slices",
    1,
    Resource("judging by texts", 40e6, 1_000_000_000, 100_000),
)
"""For work in Python that is cut into slices of some 10 ms. One thread, because such work holds the
interpreter lock: a second would add switches only. 40 million characters a second is what a lexical
judge does."""


async def run_by_size(
    size: int,
    work: Callable[_Arguments, _Result],
    *args: _Arguments.args,
    **kwargs: _Arguments.kwargs,
) -> _Result:
    """Return work(...) on texts of `size` bytes: on a thread from INLINE_BYTES on."""
    if size >= INLINE_BYTES:
        return await asyncio.to_thread(work, *args, **kwargs)
    return work(*args, **kwargs)


async def run_computation(
    work: Callable[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs
) -> _Result:
    """Return work(...), done on a thread, where the work of several callers takes turns.

    When the caller is cancelled, the work ends at its next `checkpoint`, or never begins.
    """
    return await _COMPUTATIONS.run(partial(work, *args, **kwargs))


def choose_class(questions: int) -> None:
    """Let the rest of this task wait behind interactive calls if it asks many questions."""
    if questions > INTERACTIVE_QUESTIONS:
        SENDER.set(replace(SENDER.get(), is_batch=True))


async def fan_out(
    work: Callable[[Job], Awaitable[None]], jobs: Iterable[Job], at_once: int
) -> None:
    """Return when every job is done; `at_once` tasks take them from one iterator, in order.

    The first failure ends the others and is raised. So does a job that was cancelled by nobody, as
    a RuntimeError: passed over, it would leave a hole among the results.
    """
    queue = iter(jobs)

    async def worker() -> bool:
        for job in queue:
            await work(job)
            # One that the cache answers waits for nothing, and there may be thousands of them.
            await asyncio.sleep(0)
        return True

    try:
        async with asyncio.TaskGroup() as group:
            workers = []
            for number in range(1, at_once + 1):
                workers.append(group.create_task(worker()))
                if number % _STARTED_TOGETHER == 0:
                    await asyncio.sleep(0)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    if any(worker.cancelled() for worker in workers):
        raise RuntimeError("a job was cancelled by nobody")


@dataclass(frozen=True, slots=True)
class Begun(Generic[Answer]):
    """Work to run beside other work, and what to do once it has ended.

    `ended` is called once however the work ends: cancelled before its first step too, when nothing
    of the coroutine runs, not even a `finally`.
    """

    work: Coroutine[Any, Any, Answer]
    ended: Callable[[], None] = lambda: None


async def work_in_window(
    begun: AsyncIterator[Begun[Answer]], window: int
) -> AsyncGenerator[Answer, None]:
    """Yield what each work returns, as it finishes.

    At most `window` of them are begun and not yet taken: no more are, until one answer has been
    taken, so neither a fast sender nor a slow reader makes the server hold more than that. A
    failure ends all work and is raised.
    """
    slots = asyncio.Semaphore(window)
    answers: asyncio.Queue[Answer | None] = asyncio.Queue(window + 1)

    async def work_on(each: Begun[Answer]) -> None:
        answers.put_nowait(await each.work)

    def end(each: Begun[Answer], _: asyncio.Task[None]) -> None:
        each.work.close()  # it may never have started
        each.ended()

    async def run() -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    await slots.acquire()
                    if (each := await anext(begun, None)) is None:
                        break
                    tasks.create_task(work_on(each)).add_done_callback(partial(end, each))
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        except asyncio.CancelledError as cancelled:
            # The frame of TaskGroup keeps it (CPython 3.11), and it kept that frame and its tasks.
            cancelled.__traceback__ = None
            raise
        finally:
            # The queue has a place for this beside one for each slot, so it never blocks.
            answers.put_nowait(None)

    runner = asyncio.create_task(run())
    try:
        while (answer := await answers.get()) is not None:
            yield answer
            slots.release()
        await runner
    finally:
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)
