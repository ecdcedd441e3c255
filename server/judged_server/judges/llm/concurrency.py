"""Many jobs that wait, a bounded number at once, behind those of calls that have few."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from judged_server.tenant import current_sender, send_as

Job = TypeVar("Job")

_STARTED_TOGETHER = 32
"""Jobs begin in this many at a time, so that their beginnings don't hold up the event loop."""


INTERACTIVE_QUESTIONS = 32
"""A call that asks more questions is batch work."""


def choose_class(questions: int) -> None:
    """Let the rest of this task wait behind interactive calls if it asks many questions."""
    if questions > INTERACTIVE_QUESTIONS:
        send_as(replace(current_sender(), is_batch=True))


async def fan_out(
    work: Callable[[Job], Awaitable[None]], jobs: Iterable[Job], at_once: int
) -> None:
    """Return when every job is done; `at_once` tasks take them from one iterator, in order.

    The first failure ends the others and is raised. So does a job that was cancelled by nobody, as
    a RuntimeError: passed over, it would leave a hole among the results.
    """
    queue = iter(jobs)
    if at_once == 1:
        await _one_by_one(work, queue)
        return

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


async def _one_by_one(work: Callable[[Job], Awaitable[None]], jobs: Iterable[Job]) -> None:
    """Do the jobs in the caller's own task: one more would cost a small call two turns."""
    caller = asyncio.current_task()
    cancels = caller.cancelling() if caller is not None else 0
    try:
        for number, job in enumerate(jobs):
            if number:
                await asyncio.sleep(0)
            await work(job)
    except asyncio.CancelledError:
        if caller is None or caller.cancelling() > cancels:
            raise
        raise RuntimeError("a job was cancelled by nobody") from None
