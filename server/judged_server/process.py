"""Tunes and watches the process: thread priority, memory, garbage collection, event loop.

* gRPC's threads run under SCHED_BATCH. They only pass work on and wake six times per call. Without
  it, on a shared core, each wake-up would preempt the thread that judges: a small request took 13
  to 15 % more CPU. They still get a free core at once.
* By default the GC walks the youngest generation after 700 new objects. A few questions to a
  language model make as many, and nearly all live until the reply arrives: 10 % of a question's
  CPU. Objects that a large call holds for seconds get into the old generation, where a reference
  cycle would wait for a rare full collection: avoid cycles.
* After a burst the C heap keeps freed memory: at the top of each thread's arena, up to a limit
  that glibc raises to 64 MB, and everything below a block still in use. So the heap is trimmed once
  nothing is in work.
* A server that hangs is worse than none. If the event loop is blocked for STALL_EXIT_S, the process
  writes the stacks of all threads to standard error and exits with status 1.
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
"""Niceness added for threads that run models, so that short work goes first on a core."""
GC_THRESHOLDS = 5_000, 10, 20
"""New objects per young collection (some 3 ms), and passes per collection of the older ones."""
KEPT_AT_TOP_BYTES = 8 << 20
"""M_TRIM_THRESHOLD: free memory that glibc keeps at the top of each arena."""
MAPPED_FROM_BYTES = 32 << 20
"""M_MMAP_THRESHOLD: larger blocks are mapped. Setting them stops glibc from adapting both."""
HIGH_SHARE, CRITICAL_SHARE = 0.85, 0.95
LOOK_EVERY_S = 0.25
WORTH_TRIMMING_BYTES = 32 << 20
"""Growth since the last trim that is worth another one, which takes some 10 ms of CPU."""
UNLIMITED = 1 << 62
STALL_EXIT_S = 30.0
BEAT_S = 0.25
WORTH_LOGGING_S = 0.5

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt(3)
_C = ctypes.CDLL(None)
_PROC, _GROUPS = Path("/proc/self"), Path("/sys/fs/cgroup")
_log = Logger("process")


@contextmanager
def batch_scheduling() -> Iterator[None]:
    """Run all threads started in a `with`, directly or by such threads, under SCHED_BATCH.

    Only Linux has this policy (sched(7)). Does nothing elsewhere, or if the process has another
    policy already or may not change its own.
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
    """Lower the priority of this thread by NICENESS; only Linux can do so for one thread."""
    if sys.platform == "linux":
        with suppress(OSError):
            own = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), own + NICENESS)


def settle_heap() -> None:
    """Exempt existing objects from the GC, run it less often, and limit the free heap memory.

    Called at the end of start-up. The heap is set up only if the C library is glibc.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    trim_heap()
    if hasattr(_C, "malloc_trim"):
        _C.mallopt(_TRIM_THRESHOLD, KEPT_AT_TOP_BYTES)
        _C.mallopt(_MMAP_THRESHOLD, MAPPED_FROM_BYTES)


def trim_heap() -> None:
    """Return the C heap's free memory to the system, without holding the GIL; glibc only."""
    if hasattr(_C, "malloc_trim"):
        _C.malloc_trim(0)


class _HeapCounts(ctypes.Structure):
    """The ten numbers of mallinfo2(3)."""

    _fields_ = tuple((f"count_{place}", ctypes.c_size_t) for place in range(10))


def heap_in_use() -> int | None:
    """Return the bytes allocated on the C heap; None without glibc 2.33 or later.

    Unlike resident memory, this excludes memory that was freed but kept.
    """
    if not hasattr(_C, "mallinfo2"):
        return None
    _C.mallinfo2.restype = _HeapCounts
    counts = _C.mallinfo2()
    return int(counts.count_7 + counts.count_4)  # uordblks and hblkhd: in the heap, and mapped


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes; 0 if it is unknown."""
    try:
        return int((_PROC / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def memory_limit() -> int:
    """Return the smallest memory limit of the process's cgroups, UNLIMITED without any.

    Resident memory is compared with it, not the cgroup's own usage, which includes page cache that
    the kernel can drop.
    """
    limits = [UNLIMITED]
    for name in ("memory.max", "memory.limit_in_bytes"):
        for text in _group_files("memory", name):
            with suppress(ValueError):  # "max": no limit
                limits.append(int(text))
    return min(limits)


def available_cores() -> int:
    """Return the number of cores by this process's affinity, or by its cgroups' quota if lower.

    A quota is rounded to whole cores, at least one.
    """
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    for names in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):
        for text in _group_files("cpu", *names):
            with suppress(ValueError, ZeroDivisionError):  # "max": no quota
                quota, period = map(int, text.split())
                if quota > 0:
                    cores = min(cores, round(quota / period))
    return max(1, cores)


def _group_files(controller: str, *names: str) -> Iterator[str]:
    """Yield the contents of files of the process's cgroups, version 1 and 2, from the root down.

    In a container the root is the container's own, and the path may be that of the host.
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
        with suppress(OSError):  # the file does not exist
            yield " ".join((folder / name).read_text() for name in names)


class Pressure(IntEnum):
    """How close the process's memory is to its limit."""

    NONE = 0
    HIGH = 1
    CRITICAL = 2


class MemoryWatch:
    """Checks the process's memory every LOOK_EVERY_S, and trims the heap after a burst."""

    pressure = Pressure.NONE

    def __init__(self, limit: int = UNLIMITED) -> None:
        self._limit = limit
        self._after_trim = resident_bytes()

    async def run(self, is_idle: Callable[[], bool]) -> None:
        """Watch until cancelled; `is_idle` returns whether no request is in work."""
        while True:
            await self.look(is_idle())
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self, idle: bool) -> None:
        """Update the pressure; trim the heap if it has grown and the server is idle or short."""
        before, resident = self.pressure, self._note()
        grown = resident - self._after_trim > WORTH_TRIMMING_BYTES
        if grown and (idle or self.pressure > Pressure.NONE):
            await asyncio.to_thread(trim_heap)
            self._after_trim = resident = self._note()
        if self.pressure > before:
            _log.warning("short of memory", resident=resident, limit=self._limit)

    def _note(self) -> int:
        resident, limit = resident_bytes(), self._limit
        high, critical = resident > limit * HIGH_SHARE, resident > limit * CRITICAL_SHARE
        self.pressure = Pressure(high + critical)
        return resident


async def watch_loop(exit_s: float = STALL_EXIT_S) -> None:
    """Measure the event loop's lag until cancelled; exit if it is blocked for `exit_s`."""
    armed = 0.0
    try:
        while True:
            now = time.monotonic()
            if now - armed > BEAT_S:
                # The timer runs in C without the GIL, so it works even if the GIL is stuck.
                faulthandler.dump_traceback_later(exit_s, exit=True, file=sys.stderr)
                armed = now
            await asyncio.sleep(BEAT_S)
            lag_s = max(0.0, time.monotonic() - now - BEAT_S)
            telemetry.note("loop_lag_seconds", lag_s)
            if lag_s > WORTH_LOGGING_S:
                _log.warning("the event loop was blocked", ms=round(lag_s * 1e3))
    finally:
        faulthandler.cancel_dump_traceback_later()
