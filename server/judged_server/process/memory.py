"""How much memory the process has and may have, and giving back what it no longer needs.

The limit is that of its control group, where it has one: a container is killed when it takes more.
What counts is what the process itself holds (its resident memory), since the group's own figure has
in it files that the kernel would drop.

After a burst the C heap keeps what was freed: each thread's part of it, up to a limit at its top
(see `gc_tuning`), and all that lies below something still in use. So a watch trims the heap once
nothing is in work any more.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from pathlib import Path

from judged_server.telemetry import logger

HIGH_SHARE, CRITICAL_SHARE = 0.85, 0.95
LOOK_EVERY_S = 0.25
WORTH_TRIMMING_BYTES = 32 << 20
"""Growth since the last trim below which none is tried: one takes some 10 ms of a core."""
FOLLOW_UP_LOOKS = 16
"""After so many idle looks (4 s) a trim is followed by another: replies that were still being sent
at the first are freed by then, and their memory would stay until the next burst."""
UNLIMITED = 1 << 62

_PROC, _GROUPS = Path("/proc/self"), Path("/sys/fs/cgroup")
_log = logger("memory")


class Pressure(IntEnum):
    """How near to its limit the process is."""

    NONE = 0
    HIGH = 1
    CRITICAL = 2


def resident_bytes(proc: Path = _PROC) -> int:
    """Return the resident memory of this process; 0 where that can't be told."""
    try:
        return int((proc / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


class _HeapCounts(ctypes.Structure):
    """What mallinfo2(3) tells, in its order."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks"),
            *("uordblks", "fordblks", "keepcost"),
        )
    )


def heap_in_use() -> int | None:
    """Return the bytes that the C heap has given out; None where glibc 2.33 is not there to tell.

    Resident memory has in it what was freed and kept too. Python's small objects are in neither of
    the heap's parts: `sys.getallocatedblocks` counts them.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return None
    library.mallinfo2.restype = _HeapCounts
    counts = library.mallinfo2()
    return int(counts.uordblks + counts.hblkhd)


def group_limit(proc: Path = _PROC, groups: Path = _GROUPS) -> int:
    """Return the smallest memory limit of the process's control groups, UNLIMITED without any.

    Reads version 2 (memory.max) and version 1 (memory.limit_in_bytes), from the group to the root.
    """
    limits = [UNLIMITED]
    try:
        lines = (proc / "cgroup").read_text().splitlines()
    except OSError:
        return UNLIMITED
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        root = groups / "memory" if controllers else groups
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        folder = root / path.lstrip("/")
        # In a container the path may be that of the host: then the limit stands at the root.
        for place in (folder, *folder.parents, root):
            if place == root or root in place.parents:
                with suppress(OSError, ValueError):  # "max" is no limit
                    limits.append(int((place / name).read_text()))
    return min(limits)


def trim() -> None:
    """Give what the C heap has free back to the system, without Python's lock; glibc alone can."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


class Memory:
    """The memory of a process, which is not short while nobody watches it."""

    pressure = Pressure.NONE


class MemoryWatch(Memory):
    """Looks at the process's memory a few times a second, and trims it after a burst."""

    def __init__(
        self,
        limit: int,
        resident: Callable[[], int] = resident_bytes,
        trim_heap: Callable[[], None] = trim,
    ) -> None:
        self._limit = limit
        self._resident = resident
        self._trim = trim_heap
        self._after_trim = resident()
        self._until_follow_up = 0

    async def run(self, is_idle: Callable[[], bool]) -> None:
        """Look until cancelled; `is_idle` says that no request is in work."""
        while True:
            await self.look(is_idle())
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self, idle: bool) -> None:
        """Note the pressure; trim when that is worth it, or when memory is short."""
        before, held = self.pressure, self._note()
        short = self.pressure > Pressure.NONE
        follows = idle and self._until_follow_up == 1
        if idle and self._until_follow_up:
            self._until_follow_up -= 1
        grown = held - self._after_trim > WORTH_TRIMMING_BYTES
        if (grown and (idle or short)) or follows:
            await asyncio.to_thread(self._trim)
            self._after_trim = held = self._note()
            if grown:
                self._until_follow_up = FOLLOW_UP_LOOKS
        if self.pressure > before:
            _log.warning("short of memory", resident=held, limit=self._limit)

    def _note(self) -> int:
        held = self._resident()
        self.pressure = Pressure.NONE
        if held > self._limit * CRITICAL_SHARE:
            self.pressure = Pressure.CRITICAL
        elif held > self._limit * HIGH_SHARE:
            self.pressure = Pressure.HIGH
        return held
