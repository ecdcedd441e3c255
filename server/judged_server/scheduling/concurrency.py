"""What runs beside what: work on threads, so that the event loop is free, and jobs as tasks.

Two rules say where work runs:

* Reading and judging texts of less than INLINE_BYTES stays on the event loop, since handing it to a
  thread costs about 0.1 ms.
* Everything else runs on a thread, and what computes takes turns there (`run_computation`).
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
"""How long work runs while other work waits, for a sender of weight 1."""
INTERACTIVE_S = 0.2
"""How long work is interactive: what has run for longer waits behind what has not."""
MOST_BEGUN = 64
"""Work that is begun, and holds a thread, at a time."""

_UNBOUNDED = Resource("", math.inf, math.inf)
"""For work without a cost, which is never refused."""

Result = TypeVar("Result")


@dataclass(eq=False, slots=True)
class _Work:
    """Work of one call: what `admission` counts of it, and how far it is."""

    run: Callable[[], Any]
    future: asyncio.Future[Any]
    sender: Sender
    cost: int
    deadline: float | None
    begun: bool = False
    gone: bool = False
    ran_s: float = 0.0
    turn_s: float = TURN_S
    """How long its last turn was, which is what the next one is charged."""
    since: float = 0.0
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    has_turn: threading.Event = field(default_factory=threading.Event)


class FairThreads:
    """Runs work on threads, some at once, the rest in turns. Safe for threads.

    A thread can't be stopped from outside, but all that runs here calls `checkpoint` every 50 ms at
    the latest. There work of which others wait for a turn lets one of them run, and goes on when it
    has the next one; and there it ends once its caller has gone.
    """

    def __init__(
        self,
        name: str,
        at_once: int,
        resource: Resource = _UNBOUNDED,
        clock: Callable[[], float] = time.monotonic,
        most_begun: int = MOST_BEGUN,
    ) -> None:
        """Let `at_once` threads run at a time; no thread begins before it is needed."""
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
        """Return work(), which calls `checkpoint` now and then.

        `cost` is its work as the admission counts it, `deadline` when its caller stops waiting, on
        the clock of `time.monotonic`. Cancelling it ends the work at its next checkpoint. Raises
        Overloaded and DeadlineTooShort.
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
        """Let what waits run, as long as there is room."""
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
        """Do all of it, on a thread of its own."""
        result, error = None, None
        try:
            result = work.context.run(watched, partial(self._let_others, work), work.run)
        except BaseException as problem:  # noqa: BLE001 - it is the caller's
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

    def _let_others(self, work: _Work) -> bool:
        """Wait for another turn if this one is over; say whether the caller has gone."""
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
"""Texts of so many bytes go to a thread. Fewer take at most a few milliseconds."""
ITEM_BYTES = 200
"""What a group, a context or a verdict counts beside its texts."""
COLUMN_BYTES = 16
"""What a verdict without details counts: it is a row of columns."""

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
    work: Callable[_Arguments, Result],
    *args: _Arguments.args,
    **kwargs: _Arguments.kwargs,
) -> Result:
    """Return work(...) on texts of `size` bytes: on a thread from INLINE_BYTES on."""
    if size >= INLINE_BYTES:
        return await asyncio.to_thread(work, *args, **kwargs)
    return work(*args, **kwargs)


async def run_computation(
    work: Callable[_Arguments, Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs
) -> Result:
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
