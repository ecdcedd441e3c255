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
from contextlib import closing
from typing import Any, TypeVar

Result = TypeVar("Result")

_CLOCK_MONOTONIC = 1
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
    with closing(_Alarm()) as alarm:
        for instant in instants:
            due = started + instant
            await alarm.until(due)
            tasks.append(asyncio.create_task(begin(due)))
        return await asyncio.gather(*tasks)


class _Alarm:
    """One wait at a time, on the event loop that runs when it is made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: _Timer | None = None
        self._rings: asyncio.Future[None] | None = None
        if sys.platform == "linux":
            self._timer = _Timer()
            self._loop.add_reader(self._timer.file, self._ring, self._timer)

    def close(self) -> None:
        """Watch nothing any more."""
        if self._timer is not None:
            self._loop.remove_reader(self._timer.file)
            self._timer.close()

    async def until(self, instant: float) -> None:
        """Return at this time of `time.perf_counter`; when it has passed, without a wait."""
        while (left_s := instant - time.perf_counter()) > 0:
            if self._timer is None:
                await asyncio.sleep(left_s)
            else:
                self._rings = self._loop.create_future()
                self._timer.set(left_s)
                await self._rings

    def _ring(self, timer: _Timer) -> None:
        timer.read()
        if self._rings is not None and not self._rings.done():
            self._rings.set_result(None)


class _Spec(ctypes.Structure):
    """`struct itimerspec`: every how many seconds and nanoseconds (never), and the first time."""

    _fields_ = (
        ("every_s", ctypes.c_long),
        ("every_ns", ctypes.c_long),
        ("first_s", ctypes.c_long),
        ("first_ns", ctypes.c_long),
    )


class _Timer:
    """A timerfd(2), which Python itself has from 3.13 on."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        flags = os.O_NONBLOCK | os.O_CLOEXEC
        self.file = _checked(self._libc.timerfd_create(_CLOCK_MONOTONIC, flags))

    def set(self, seconds: float) -> None:
        """Let the file become readable after so many seconds."""
        whole, rest = divmod(max(seconds, _LEAST_S), 1.0)
        spec = _Spec(0, 0, int(whole), int(rest * 1e9))
        _checked(self._libc.timerfd_settime(self.file, 0, ctypes.byref(spec), None))

    def read(self) -> None:
        """Take note that it rang."""
        os.read(self.file, 8)

    def close(self) -> None:
        """Close the file."""
        os.close(self.file)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
