"""Begins work at the microsecond that it is due, whether or not earlier work has ended.

Event loops count in whole milliseconds: what waits by `asyncio.sleep` is begun up to one of them
late, and a latency that runs from the due instant has the generator's clock in it. Linux has timers
that a loop can watch (timerfd_create(2)); elsewhere the loop's own are used. What is begun, and
what it took, is up to the caller.
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
"""The shortest wait: none at all would disarm the timer."""


async def depart(
    started: float, instants: Iterable[float], begin: Callable[[float], Coroutine[Any, Any, Result]]
) -> list[Result]:
    """Return what each piece of work gave, in the order of the instants, when all have ended.

    `instants` are ascending seconds after `started`, a time of `time.perf_counter`. Each piece is
    made by `begin`, which is told when it was due. The first failure is raised.
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
    """A timerfd(2), which Python itself has from 3.13 on; watched by the loop that runs."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        flags = os.O_NONBLOCK | os.O_CLOEXEC
        self._file = self._libc.timerfd_create(time.CLOCK_MONOTONIC, flags)
        self._rang = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._file, self._ring)

    def close(self) -> None:
        """Watch it no longer."""
        self._loop.remove_reader(self._file)
        os.close(self._file)

    async def wait(self, seconds: float) -> None:
        """Return after so many seconds."""
        whole, rest = divmod(max(seconds, _LEAST_S), 1.0)
        # struct itimerspec: every how many seconds and nanoseconds (never), and the first time.
        spec = (ctypes.c_long * 4)(0, 0, int(whole), int(rest * 1e9))
        self._rang.clear()
        self._libc.timerfd_settime(self._file, 0, spec, None)
        await self._rang.wait()

    def _ring(self) -> None:
        os.read(self._file, 8)
        self._rang.set()
