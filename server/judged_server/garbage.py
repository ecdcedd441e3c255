"""What is no longer used: cycles of Python objects, and free memory of the C heap.

Owns how often either is looked for. The collector's youngest generation is walked after 700 new
objects by default, which a few questions to a language model make, while nearly all of these live
until their reply is there: a tenth of the CPU of a question. What is in no cycle is freed at once
in any case.

What is freed, the C heap keeps wherever something above it is still in use, so that requests of
many sizes leave holes behind. And each thread's part of the heap keeps what is free at its top:
glibc raises that limit to twice the largest array that was ever freed, 64 MB at most.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Callable

THRESHOLDS = 20_000, 20, 20
"""New objects until the youngest are walked, a millisecond or two, and passes until older ones."""
RETURNED_S = 10.0
"""How often holes in the heap go back to the system while there is work: about a millisecond."""
KEPT_AT_TOP_BYTES = 8 << 20
"""Free memory that each thread's part of the heap keeps at its top,"""
MAPPED_FROM_BYTES = 32 << 20
"""and from which size on a block is no part of it: both stay as they are here."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt(3)


def settle() -> None:
    """Leave out for ever what is there now, walk the rest more seldom, keep little that is free."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    set_option = _of_glibc("mallopt")
    if set_option is not None:
        set_option(_TRIM_THRESHOLD, KEPT_AT_TOP_BYTES)
        set_option(_MMAP_THRESHOLD, MAPPED_FROM_BYTES)


async def return_memory(work: Callable[[], int], every_s: float = RETURNED_S) -> None:
    """Give holes in the C heap back to the system, again and again, until cancelled.

    `work` counts what was done since the start: nothing is given back after a time without any.
    Ends at once where the C library has no malloc_trim (all but glibc).
    """
    trim = _of_glibc("malloc_trim")
    if trim is None:
        return
    done = work()
    while True:
        await asyncio.sleep(every_s)
        before, done = done, work()
        if done != before:
            # ctypes lets go of the interpreter meanwhile; the heap is locked one arena at a time.
            await asyncio.to_thread(trim, 0)


def _of_glibc(name: str) -> Callable[..., int] | None:
    """Return a function of the C library that is glibc's own; None in others."""
    return getattr(ctypes.CDLL(None), name, None)
