"""Chunks of a stream: read one after the other, worked on a bounded number at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from judged_server import errors
from judged_server.api.limits import RequestLimits

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Begun(Generic[Answer]):
    """Work on a chunk, and what to do once it has ended.

    `ended` is called once however the work ends: cancelled before its first step too, when nothing
    of the coroutine runs, not even a `finally`.
    """

    work: Coroutine[Any, Any, Answer]
    ended: Callable[[], None] = lambda: None


class ChunkIds:
    """The ids of a stream's chunks, each of which must be new."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._seen: set[int] = set()

    def add(self, chunk_id: int) -> None:
        """Raise InvalidField for an id that was sent before, LimitExceeded for one too many."""
        if chunk_id in self._seen:
            rule = f"{chunk_id} was sent before on this stream"
            raise errors.InvalidField("chunk.chunk_id", rule)
        self._seen.add(chunk_id)
        # Chunks without a context are legal, so chunks have a bound of their own.
        self._limits.check_contexts(len(self._seen), "chunk")


async def work_in_window(
    requests: AsyncIterator[Request],
    window: int,
    begin: Callable[[Request], Awaitable[Begun[Answer]]],
) -> AsyncGenerator[Answer, None]:
    """Yield what the work on each request returns, as it finishes.

    `begin` takes the requests one after the other and returns the work, which then runs beside
    others. At most `window` requests are read and not yet answered: reading stops until one answer
    has been taken, so neither a fast sender nor a slow reader makes the server hold more than that.
    A failure ends all work and is raised.
    """
    slots = asyncio.Semaphore(window)
    answers: asyncio.Queue[Answer | None] = asyncio.Queue(window + 1)

    async def work_on(begun: Begun[Answer]) -> None:
        answers.put_nowait(await begun.work)

    async def read() -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    await slots.acquire()
                    request = await anext(requests, None)
                    if request is None:
                        break
                    begun = await begin(request)
                    task = tasks.create_task(work_on(begun))
                    task.add_done_callback(partial(_end, begun))
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        except asyncio.CancelledError as cancelled:
            # The frame of TaskGroup keeps it (CPython 3.11), and it kept that frame and its tasks.
            cancelled.__traceback__ = None
            raise
        finally:
            # The queue has a place for this beside one for each slot, so it never blocks.
            answers.put_nowait(None)

    reader = asyncio.create_task(read())
    try:
        while (answer := await answers.get()) is not None:
            yield answer
            slots.release()
        await reader
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


def _end(begun: Begun[Any], _: asyncio.Task[None]) -> None:
    begun.work.close()  # it may never have started
    begun.ended()
