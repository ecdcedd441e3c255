"""Starts tasks at their due times, to the microsecond, whether or not earlier ones have ended.

Event loops count in whole milliseconds: `asyncio.sleep` wakes up to 1 ms late, which would be part
of every latency measured from the due time. Linux has timers that a loop can watch
(timerfd_create(2)); elsewhere the loop's own timers are used.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import ExitStack, closing
from typing import Any, TypeVar

Result = TypeVar("Result")

_LEAST_S = 1e-6
"""The shortest wait: 0 would disarm the timer."""


async def depart(
    started: float, instants: Iterable[float], begin: Callable[[float], Coroutine[Any, Any, Result]]
) -> list[Result]:
    """Return the result of each task, in the order of `instants`, once all have ended.

    `instants` are ascending seconds after `started`, a time of `time.perf_counter`. `begin` gets
    the due time and returns the task's coroutine. Raises the first failure.
    """
    tasks = []
    wait: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep
    with ExitStack() as stack:
        if sys.platform == "linux":
            wait = stack.enter_context(closing(_Timer())).wait
        for instant in instants:
            due = started + instant
            while (left_s := due - time.perf_counter()) > 0:
                await wait(left_s)
            tasks.append(asyncio.create_task(begin(due)))
        return await asyncio.gather(*tasks)


class _Timer:
    """A timerfd(2) watched by the running loop; Python's `os` has it only from 3.13 on."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        flags = os.O_NONBLOCK | os.O_CLOEXEC
        self._file = self._libc.timerfd_create(time.CLOCK_MONOTONIC, flags)
        self._expired = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._file, self._on_expiry)

    def close(self) -> None:
        """Stop watching, and close the timer."""
        self._loop.remove_reader(self._file)
        os.close(self._file)

    async def wait(self, seconds: float) -> None:
        """Wait for this many seconds."""
        whole, rest = divmod(max(seconds, _LEAST_S), 1.0)
        # struct itimerspec: interval (0: no repeat), then first expiry; seconds and nanoseconds.
        spec = (ctypes.c_long * 4)(0, 0, int(whole), int(rest * 1e9))
        self._expired.clear()
        self._libc.timerfd_settime(self._file, 0, spec, None)
        await self._expired.wait()

    def _on_expiry(self) -> None:
        os.read(self._file, 8)
        self._expired.set()
