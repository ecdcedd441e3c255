"""What is no longer used: cycles of Python objects, and free memory of the C heap.

Owns how often either is looked for. The collector's youngest generation is walked after 700 new
objects by default, which a few questions to a language model make, while nearly all of these live
until their reply is there: a tenth of the CPU of a question. What is in no cycle is freed at once
in any case. What is freed, the C heap keeps wherever something above it is still in use, so that
requests of many sizes leave holes behind: a tenth of a server's memory after 50,000 texts.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Callable

THRESHOLDS = 20_000, 20, 20
"""New objects until the youngest are walked, a millisecond or two, and passes until older ones."""
RETURNED_S = 10.0
"""How often free memory goes back to the system while there is work: about a millisecond."""


def settle() -> None:
    """Leave out for ever what is there now, and walk the rest more seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


async def return_memory(work: Callable[[], int], every_s: float = RETURNED_S) -> None:
    """Give free memory of the C heap back to the system, again and again, until cancelled.

    `work` counts what was done since the start: nothing is given back after a time without any.
    Ends at once where the C library has no malloc_trim (all but glibc).
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return
    done = work()
    while True:
        await asyncio.sleep(every_s)
        before, done = done, work()
        if done != before:
            # ctypes lets go of the interpreter meanwhile; the heap is locked one arena at a time.
            await asyncio.to_thread(trim, 0)
