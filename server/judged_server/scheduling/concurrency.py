"""Concurrency: work on threads, which keeps the event loop free, and jobs as asyncio tasks.

Two rules decide where work runs:

* Reading and judging texts of less than INLINE_BYTES stays on the event loop, since handing it to a
  thread costs about 0.1 ms.
* Everything else runs on a thread; computations take turns there (`run_computation`).
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import os
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, Generic, ParamSpec, TypeVar

from judged_server.scheduling.fairness import Admission, FairQueue, Resource, settle, watched
from judged_server.tenant import SENDER, Sender

TURN_S = 0.01
"""How long a turn is for a sender of weight 1, when other work waits."""
INTERACTIVE_S = 0.2
"""Work that has run for longer counts as batch work: it waits behind interactive work."""
MOST_BEGUN = 64
"""The most pieces of work that have begun, each of which holds a thread."""

_UNBOUNDED = Resource("", math.inf, math.inf)
"""For work without a cost, which is never rejected."""

Result = TypeVar("Result")


@dataclass(eq=False, slots=True)
class _Work:
    """Work of one call: the facts that `admission` needs, and its progress."""

    run: Callable[[], Any]
    future: asyncio.Future[Any]
    sender: Sender
    cost: int
    deadline: float | None
    begun: bool = False
    gone: bool = False
    ran_s: float = 0.0
    turn_s: float = TURN_S
    """How long its last turn was; charged when the next one begins."""
    since: float = 0.0
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    has_turn: threading.Event = field(default_factory=threading.Event)


class FairThreads:
    """Runs work on threads: a fixed number at a time, senders taking turns. Safe for threads.

    A thread can't be stopped from outside, so all work that runs here calls `checkpoint` at least
    every 50 ms. There it ends if its caller has left. If other work waits and its turn is over, it
    blocks until its next turn.
    """

    def __init__(
        self,
        name: str,
        at_once: int,
        resource: Resource = _UNBOUNDED,
        clock: Callable[[], float] = time.monotonic,
        most_begun: int = MOST_BEGUN,
    ) -> None:
        """Run work on `at_once` threads at a time. Threads are started on demand."""
        self._threads = ThreadPoolExecutor(most_begun, thread_name_prefix=name)
        self._most_begun = most_begun
        self._at_once = at_once
        self.admission = Admission(resource)
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: FairQueue[_Work] = FairQueue(TURN_S)
        self._running = self._begun = 0

    async def run(
        self, work: Callable[[], Result], cost: int = 0, deadline: float | None = None
    ) -> Result:
        """Return work(), which must call `checkpoint` regularly.

        `cost` is in the admission's unit; `deadline` is when its caller stops waiting, by
        `time.monotonic`. Cancellation ends the work at its next checkpoint. Raises Overloaded and
        DeadlineTooShort.
        """
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        sender = self.admission.sender(SENDER.get(), cost)
        mine = _Work(work, future, sender, cost, deadline)
        with self._lock:
            self.admission.admit(mine, self._clock())
            self._waiting.put(mine, sender)
            self._begin_next()
        try:
            return await future
        except BaseException:
            with self._lock:
                if not mine.gone and not mine.begun:
                    self.admission.left(mine)
                mine.gone = True
            raise

    def _begin_next(self) -> None:
        """Start or resume waiting work while fewer than `at_once` threads run."""
        while self._running < self._at_once and (work := self._waiting.first()) is not None:
            if not work.gone and self.admission.is_late(work, self._clock()):
                self.admission.left(work)
                work.gone = True
                settle(work.future, None, self.admission.overloaded(work))
            if work.gone and not work.begun:
                self._waiting.take(0.0)
                continue
            self._waiting.take(work.turn_s)
            self._running += 1
            work.since = self._clock()
            if work.begun:
                work.has_turn.set()
            else:
                work.begun = True
                self._begun += 1
                self._threads.submit(self._work, work)

    def _work(self, work: _Work) -> None:
        """Run the work from start to end, on a thread of its own."""
        result, error = None, None
        try:
            result = work.context.run(watched, partial(self._end_turn, work), work.run)
        except BaseException as problem:  # noqa: BLE001 - the caller gets it
            error = problem
        settle(work.future, result, error)
        with self._lock:
            work.ran_s += self._clock() - work.since
            self._running -= 1
            self._begun -= 1
            if error is None:
                self.admission.measured(work.cost, work.ran_s, self._at_once, full=True)
            self.admission.left(work)
            self._begin_next()

    def _end_turn(self, work: _Work) -> bool:
        """Wait for the next turn if this one is over; return whether the caller has left."""
        if work.gone:
            return True
        turn_s = self._clock() - work.since
        if turn_s < TURN_S * work.sender.weight:
            return False
        with self._lock:
            work.ran_s += turn_s
            work.since += turn_s
            work.turn_s = turn_s
            following = self._waiting.first()
            if following is None or not (following.begun or self._begun < self._most_begun):
                return False
            work.has_turn.clear()
            is_batch = work.sender.is_batch or work.ran_s > INTERACTIVE_S
            self._waiting.put(work, replace(work.sender, is_batch=is_batch), again=True)
            self._running -= 1
            self._begin_next()
        work.has_turn.wait()
        return work.gone


_Arguments = ParamSpec("_Arguments")

Job = TypeVar("Job")
Answer = TypeVar("Answer")

INLINE_BYTES = 1 << 16
"""Texts of at least this size go to a thread. Smaller ones take at most a few milliseconds."""
ITEM_BYTES = 200
"""Size added for each group, context or verdict, besides its texts."""
COLUMN_BYTES = 16
"""Size of a verdict without details, which is a row of columns."""

_STARTED_TOGETHER = 32
"""Jobs begin this many at a time, so that starting them doesn't block the event loop."""
INTERACTIVE_QUESTIONS = 32
"""A call that asks a model more questions is batch work."""

_COMPUTATIONS = FairThreads("computation", max(1, (os.cpu_count() or 1) - 1))
"""For metrics, statistics and cosines, which may take seconds. Leaves one core for other work."""

IN_PYTHON = FairThreads(
    "slices",
    1,
    Resource("judging by texts", 40e6, 1_000_000_000, 100_000),
)
"""For pure-Python work that is cut into slices of some 10 ms. One thread, because such work holds
the GIL: a second would only add switches. A lexical judge does 40 million characters a second."""


async def run_by_size(
    size: int,
    work: Callable[_Arguments, Result],
    *args: _Arguments.args,
    **kwargs: _Arguments.kwargs,
) -> Result:
    """Return work(...) on texts of `size` bytes; runs on a thread from INLINE_BYTES up."""
    if size >= INLINE_BYTES:
        return await asyncio.to_thread(work, *args, **kwargs)
    return work(*args, **kwargs)


async def run_computation(
    work: Callable[_Arguments, Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs
) -> Result:
    """Return work(...), run on a thread in turns with other callers' work.

    When the caller is cancelled, the work ends at its next `checkpoint`, or never begins.
    """
    return await _COMPUTATIONS.run(partial(work, *args, **kwargs))


def choose_class(questions: int) -> None:
    """Make the rest of this task batch work if it asks more than INTERACTIVE_QUESTIONS."""
    if questions > INTERACTIVE_QUESTIONS:
        SENDER.set(replace(SENDER.get(), is_batch=True))


async def fan_out(
    work: Callable[[Job], Awaitable[Answer]], jobs: Iterable[Job], at_once: int
) -> list[Answer]:
    """Return the results of all jobs, in order; `at_once` tasks take them from one iterator.

    The first failure cancels the others and is raised. A stray CancelledError in a job raises
    RuntimeError, since ignoring it would leave a result missing.
    """
    queue = enumerate(jobs)
    found: dict[int, Answer] = {}

    async def worker() -> bool:
        for place, job in queue:
            found[place] = await work(job)
            # Thousands of jobs that the cache answers never wait; let the event loop run between.
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
        raise RuntimeError("a job raised a stray CancelledError")
    return [found[place] for place in range(len(found))]


@dataclass(frozen=True, slots=True)
class Begun(Generic[Answer]):
    """Work to run concurrently, and what to do once it has ended.

    `ended` is called exactly once, however the work ends: also when it is cancelled before its
    first step, when nothing of the coroutine runs, not even a `finally`.
    """

    work: Coroutine[Any, Any, Answer]
    ended: Callable[[], None] = lambda: None


async def work_in_window(
    begun: AsyncIterator[Begun[Answer]], window: int
) -> AsyncGenerator[Answer, None]:
    """Yield the result of each piece of work, as it finishes.

    At most `window` are running or have results not yet taken, so neither a fast sender nor a slow
    reader makes the server hold more than that. A failure cancels all work and is raised.
    """
    slots = asyncio.Semaphore(window)
    answers: asyncio.Queue[Answer | None] = asyncio.Queue(window + 1)

    async def work_on(each: Begun[Answer]) -> None:
        answers.put_nowait(await each.work)

    def end(each: Begun[Answer], _: asyncio.Task[None]) -> None:
        each.work.close()  # it may never have been started
        each.ended()

    async def run() -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in count(1):
                    await slots.acquire()
                    if (each := await anext(begun, None)) is None:
                        break
                    tasks.create_task(work_on(each)).add_done_callback(partial(end, each))
                    if number % _STARTED_TOGETHER == 0:
                        await asyncio.sleep(0)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        except asyncio.CancelledError as cancelled:
            # TaskGroup's frame holds the error (CPython 3.11): a cycle that would keep its tasks.
            cancelled.__traceback__ = None
            raise
        finally:
            # The queue has one place more than there are slots, so this never blocks.
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
