"""Questions in flight, each asked once, and the callers who wait for them.

No caller owns an entry: it goes on as long as any of them waits for it, so the caller who began it
can leave without harm to the others; when the last one leaves it is cancelled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class InflightQuestion(Generic[Result]):
    """One question on its way. `ends_at` is when its leader's time is over, on the loop's clock.

    `waiting` has a future for each caller who waits: the question wakes them as its last act.
    """

    task: asyncio.Task[Result]
    ends_at: float
    waiting: list[asyncio.Future[None]] = field(default_factory=list)


class SingleFlight(Generic[Result]):
    """The questions in flight of a server, by key. For the event loop's thread."""

    def __init__(self) -> None:
        self._inflight: dict[bytes, InflightQuestion[Result]] = {}

    def __len__(self) -> int:
        return len(self._inflight)

    def find(self, key: bytes) -> InflightQuestion[Result] | None:
        """Return the entry of a question that is being asked; None when it is not."""
        entry = self._inflight.get(key)
        return None if entry is None or entry.task.done() else entry

    def begin(
        self, key: bytes, ends_at: float, ask: Callable[[], Coroutine[Any, Any, Result]]
    ) -> InflightQuestion[Result]:
        """Ask a question that is not in flight; whoever begins it must `wait` for it."""
        entry = InflightQuestion(asyncio.create_task(self._ask_once(key, ask)), ends_at)
        self._inflight[key] = entry
        return entry

    async def wait(
        self, key: bytes, entry: InflightQuestion[Result], timeout_s: float | None = None
    ) -> Result | None:
        """Return what came of an entry; None when `timeout_s` seconds were too short for it.

        Raises what asking raised. The last one who waits, when cancelled or out of time, ends it.
        """
        task = entry.task
        if task.done():
            return task.result()
        # A future for each, since they leave one by one: dearer shields would do the same.
        woken = asyncio.get_running_loop().create_future()
        entry.waiting.append(woken)
        try:
            if timeout_s is None:
                await woken
            else:
                await asyncio.wait({woken}, timeout=timeout_s)
            return task.result() if task.done() else None
        finally:
            if not task.done():
                entry.waiting.remove(woken)
                if not entry.waiting:
                    self._forget(key, entry)
                    task.cancel()
                    # Whoever sees the caller's end sees that of the question: nothing is left
                    # behind.
                    await asyncio.wait({task})

    async def _ask_once(self, key: bytes, ask: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        entry = self._inflight[key]
        try:
            return await ask()
        finally:
            self._forget(key, entry)
            for woken in entry.waiting:
                if not woken.done():  # else whoever waited is leaving
                    woken.set_result(None)

    def _forget(self, key: bytes, entry: InflightQuestion[Result]) -> None:
        if self._inflight.get(key) is entry:
            del self._inflight[key]


class StartLimiter:
    """Lets `most` begin in each turn of the event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def begin(self) -> None:
        """Return when one more may begin: at once, or in a later turn."""
        if self._begun == self._most:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        else:
            self._count()

    def _count(self) -> None:
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._next)
        self._begun += 1

    def _next(self) -> None:
        self._begun = 0
        while self._waiting and self._begun < self._most:
            turn = self._waiting.popleft()
            if not turn.done():  # else whoever waited has left
                turn.set_result(None)
                self._count()
