"""The process that a server is: its threads' priority, its memory, its garbage, its event loop.

* gRPC's threads run under SCHED_BATCH. They only hand work on, wake six times in a call, and would
  each time take the place of the one thread that judges, where both share a core: a small request
  took the server 13 to 15 % more CPU. A core that is free they get as soon as before.
* The collector's youngest generation is walked after 700 new objects by default, which a few
  questions to a language model make, while nearly all of these live until their reply is there: a
  tenth of the CPU of a question. What a large call has for seconds is old by then, and a cycle of
  such objects would wait for a rare walk: none should be made.
* After a burst the C heap keeps what was freed: each thread's part of it up to a limit at its top,
  which glibc raises to 64 MB, and all that lies below something still in use. So the heap is
  trimmed once nothing is in work any more.
* A server that answers nothing is worse than none. When the event loop stands for long, the process
  ends with status 1, and the stacks of all threads go to standard error.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from itertools import accumulate, takewhile
from pathlib import Path

from judged_server import telemetry
from judged_server.telemetry import Logger

NICENESS = 10
"""Of threads that run models: what is short goes first on a core."""
GC_THRESHOLDS = 5_000, 10, 20
"""New objects until the youngest are walked, in some 3 ms, and passes until older ones."""
KEPT_AT_TOP_BYTES = 8 << 20
"""Free memory that each thread's part of the heap keeps at its top,"""
MAPPED_FROM_BYTES = 32 << 20
"""and from which size on a block is no part of it: both stay as they are here."""
HIGH_SHARE, CRITICAL_SHARE = 0.85, 0.95
LOOK_EVERY_S = 0.25
WORTH_TRIMMING_BYTES = 32 << 20
"""Growth since the last trim below which none is tried: one takes some 10 ms of a core."""
UNLIMITED = 1 << 62
STALL_EXIT_S = 30.0
BEAT_S = 0.25
WORTH_LOGGING_S = 0.5
LOG_EVERY_S = 10.0

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt(3)
_C = ctypes.CDLL(None)
_PROC, _GROUPS = Path("/proc/self"), Path("/sys/fs/cgroup")
_log = Logger("process")


@contextmanager
def batch_scheduling() -> Iterator[None]:
    """Run all threads that are begun in a `with`, by this one or by those, under SCHED_BATCH.

    Linux alone has that policy (sched(7)). Elsewhere, or where the process was given another
    policy or may not change its own, threads are as they would be.
    """
    changed = False
    with suppress(AttributeError, OSError):  # a sandbox may forbid it
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
            changed = True
    try:
        yield
    finally:
        if changed:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def step_back() -> None:
    """Give this thread less of a core than others get; only Linux can do that for one thread."""
    if sys.platform == "linux":
        with suppress(OSError):
            own = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), own + NICENESS)


def settle_heap() -> None:
    """Leave out for ever what is there now, walk the rest more seldom, keep little that is free.

    For the end of the start. Of the heap it is glibc's that is told; others stay as they are.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    trim_heap()
    if hasattr(_C, "malloc_trim"):
        _C.mallopt(_TRIM_THRESHOLD, KEPT_AT_TOP_BYTES)
        _C.mallopt(_MMAP_THRESHOLD, MAPPED_FROM_BYTES)


def trim_heap() -> None:
    """Give what the C heap has free back to the system, without Python's lock; glibc alone can."""
    if hasattr(_C, "malloc_trim"):
        _C.malloc_trim(0)


class _HeapCounts(ctypes.Structure):
    """The ten numbers of mallinfo2(3)."""

    _fields_ = tuple((f"count_{place}", ctypes.c_size_t) for place in range(10))


def heap_in_use() -> int | None:
    """Return the bytes that the C heap has given out; None where glibc 2.33 is not there to tell.

    Resident memory has in it what was freed and kept too.
    """
    if not hasattr(_C, "mallinfo2"):
        return None
    _C.mallinfo2.restype = _HeapCounts
    counts = _C.mallinfo2()
    return int(counts.count_7 + counts.count_4)  # uordblks and hblkhd: in the heap, and mapped


def resident_bytes() -> int:
    """Return the resident memory of this process; 0 where that can't be told."""
    try:
        return int((_PROC / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def memory_limit() -> int:
    """Return the smallest memory limit of the process's control groups, UNLIMITED without any.

    What counts against it is the resident memory: the group's own figure has in it files that the
    kernel would drop.
    """
    limits = [UNLIMITED]
    for name in ("memory.max", "memory.limit_in_bytes"):
        for said in _group_files("memory", name):
            with suppress(ValueError):  # "max": no limit
                limits.append(int(said))
    return min(limits)


def available_cores() -> int:
    """Return the cores of this process's affinity, or fewer where a control group grants less.

    A quota is rounded to whole cores, at least one.
    """
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    for names in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):
        for said in _group_files("cpu", *names):
            with suppress(ValueError, ZeroDivisionError):  # "max": no quota
                quota, period = map(int, said.split())
                if quota > 0:
                    cores = min(cores, round(quota / period))
    return max(1, cores)


def _group_files(controller: str, *names: str) -> Iterator[str]:
    """Yield what files of the process's control groups say, of version 1 and 2, from the root down.

    In a container the root is the container's own, and the path below it may be that of the host.
    """
    folders = [_GROUPS, _GROUPS / controller]
    with suppress(OSError):
        for line in (_PROC / "cgroup").read_text().splitlines():
            _, controllers, path = [*line.split(":", 2), "", ""][:3]
            if not controllers or controller in controllers.split(","):
                folder = _GROUPS / controller if controllers else _GROUPS
                parts = takewhile("..".__ne__, Path(path).parts[1:])
                folders += accumulate(parts, Path.joinpath, initial=folder)
    for folder in folders:
        with suppress(OSError):  # there is no such file
            yield " ".join((folder / name).read_text() for name in names)


class Pressure(IntEnum):
    """How near to its limit the process is."""

    NONE = 0
    HIGH = 1
    CRITICAL = 2


class Memory:
    """The memory of a process, which is not short while nobody watches it."""

    pressure = Pressure.NONE


class MemoryWatch(Memory):
    """Looks at the process's memory a few times a second, and trims it after a burst."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._after_trim = resident_bytes()

    async def run(self, is_idle: Callable[[], bool]) -> None:
        """Look until cancelled; `is_idle` says that no request is in work."""
        while True:
            await self.look(is_idle())
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self, idle: bool) -> None:
        """Note the pressure; trim when that is worth it, or when memory is short."""
        before, held = self.pressure, self._note()
        grown = held - self._after_trim > WORTH_TRIMMING_BYTES
        if grown and (idle or self.pressure > Pressure.NONE):
            await asyncio.to_thread(trim_heap)
            self._after_trim = held = self._note()
        if self.pressure > before:
            _log.warning("short of memory", resident=held, limit=self._limit)

    def _note(self) -> int:
        held = resident_bytes()
        high, critical = held > self._limit * HIGH_SHARE, held > self._limit * CRITICAL_SHARE
        self.pressure = Pressure(high + critical)
        return held


async def watch_loop(exit_s: float = STALL_EXIT_S) -> None:
    """Watch how late the event loop is until cancelled; end a process whose loop stands so long."""
    armed = logged = 0.0
    try:
        while True:
            now = time.monotonic()
            if now - armed > BEAT_S:
                # Of C and without Python's lock: it ends a process whose lock nobody lets go.
                faulthandler.dump_traceback_later(exit_s, exit=True, file=sys.stderr)
                armed = now
            await asyncio.sleep(BEAT_S)
            lag_s = max(0.0, time.monotonic() - now - BEAT_S)
            telemetry.note("loop_lag_seconds", lag_s)
            if lag_s > WORTH_LOGGING_S and now > logged + LOG_EVERY_S:
                logged = now
                _log.warning("the event loop was held up", ms=round(lag_s * 1e3))
    finally:
        faulthandler.cancel_dump_traceback_later()
