"""Threads for long work of many callers, who take turns at it.

A thread can't be stopped from outside, but all that runs here calls `checkpoint` every 50 ms at the
latest. There work of which others wait for a turn lets one of them run, and goes on when it has the
next one; and there it ends once its caller has gone.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from judged_server.scheduling.admission import Admission, Resource, settle
from judged_server.scheduling.checkpoint import watched
from judged_server.scheduling.round_robin import FairQueue
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
    """Runs work on threads, some at once, the rest in turns. Safe for threads."""

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
        self._admission: Admission[_Work] = Admission(resource)
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: FairQueue[_Work] = FairQueue(TURN_S)
        self._running = self._begun = 0

    def limit_delay(self, seconds: float) -> None:
        """Let interactive work that has a cost wait and run for so long at most."""
        self._admission.max_delay_s = seconds

    async def run(
        self, work: Callable[[], Result], cost: int = 0, deadline: float | None = None
    ) -> Result:
        """Return work(), which calls `checkpoint` now and then.

        `cost` is its work as the admission counts it, `deadline` when its caller stops waiting, on
        the clock of `time.monotonic`. Cancelling it ends the work at its next checkpoint. Raises
        Overloaded and DeadlineTooShort.
        """
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        sender = self._admission.sender(SENDER.get(), cost)
        mine = _Work(work, future, sender, cost, deadline)
        with self._lock:
            for victim in self._admission.admit(mine, self._clock()):
                self._refuse(victim)
            self._waiting.put(mine, self._class_of(mine))
            self._begin_next()
        try:
            return await future
        except BaseException:
            self._leave(mine)
            raise

    def _leave(self, work: _Work) -> None:
        with self._lock:
            if not work.gone and not work.begun:
                self._admission.left(work)
            work.gone = True

    def _class_of(self, work: _Work) -> Sender:
        is_batch = work.sender.is_batch or work.ran_s > INTERACTIVE_S
        return replace(work.sender, is_batch=is_batch)

    def _begin_next(self) -> None:
        """Let what waits run, as long as there is room."""
        while self._running < self._at_once and (work := self._waiting.first()) is not None:
            if not work.gone and self._admission.is_late(work, self._clock()):
                self._refuse(work)
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

    def _refuse(self, work: _Work) -> None:
        """Take work out that has not begun, and tell its caller."""
        self._admission.left(work)
        work.gone = True
        settle(work.future, None, self._admission.overloaded(work))

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
                self._admission.measured(work.cost, work.ran_s, self._at_once, full=True)
            self._admission.left(work)
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
            self._waiting.put(work, self._class_of(work), again=True)
            self._running -= 1
            self._begin_next()
        work.has_turn.wait()
        return work.gone
