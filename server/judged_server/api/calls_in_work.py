"""The calls in work that have a limit of time, and what becomes of them when the server drains.

Watchers of health are none of them: they would watch for ever.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

from judged_server import errors

QUIET_S, LONGEST_QUIET_S = 0.1, 3.0
"""How long no call must come, at the end of a drain, and how long that is waited for."""

_DRAINING = "the server is shutting down; another replica may answer"
_DRAINED_AFTER_S = 1.0


def draining() -> errors.Draining:
    """Return the error of a call that the server does not work on, or not to its end."""
    return errors.Draining(_DRAINING, _DRAINED_AFTER_S)


class CallsInWork:
    """The tasks of calls, by which they can be waited for and ended."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any] | None] = set()
        self._idle: asyncio.Event | None = None  # only while somebody waits for it
        self._begun = 0
        self._is_cut_short = False

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self) -> asyncio.Task[Any] | None:
        """Note the call of this task."""
        self._begun += 1
        task = asyncio.current_task()
        self._tasks.add(task)
        return task

    def end(self, task: asyncio.Task[Any] | None) -> None:
        """Forget the call of a task."""
        self._tasks.discard(task)
        if self._idle is not None and not self._tasks:
            self._idle.set()
            self._idle = None

    async def wait_idle(self) -> None:
        """Return when no call is in work."""
        if self._tasks:
            self._idle = self._idle or asyncio.Event()
            await self._idle.wait()

    async def wait_quiet(self) -> None:
        """Return when none is in work and none has come for QUIET_S, or LONGEST_QUIET_S are over.

        So those that gRPC has received and not begun are begun, and hear that the server drains;
        whoever has heard it comes back later than that.
        """
        await self.wait_idle()
        ends = time.monotonic() + LONGEST_QUIET_S
        while True:
            begun = self._begun
            await asyncio.sleep(QUIET_S)
            await self.wait_idle()
            if begun == self._begun or time.monotonic() > ends:
                return

    async def cut_short(self, patience_s: float) -> None:
        """End all calls in work as drained; return when they have ended, or after `patience_s`."""
        self._is_cut_short = True
        for task in self._tasks:
            if task is not None:
                task.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self.wait_idle()

    def take_back(self, task: asyncio.Task[Any] | None) -> bool:
        """Say whether the call of a task was cut short, and let it say so to its caller."""
        if not self._is_cut_short or task is None or not task.cancelling():
            return False
        task.uncancel()
        return True
