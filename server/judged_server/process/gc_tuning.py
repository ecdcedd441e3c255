"""What is no longer used: cycles of Python objects, and free memory of the C heap.

The collector's youngest generation is walked after 700 new objects by default, which a few
questions to a language model make, while nearly all of these live until their reply is there: a
tenth of the CPU of a question. What is in no cycle is freed at once in any case. gRPC leaves some
five objects in a cycle for each call, and with them what the call was sent: at 20,000 new objects
that was 10 MB before the walk, and the event loop stood for 15 ms while it went on. What a large
call has for seconds is old by then, and a cycle of such objects would wait for a rare walk: none
should be made.

What is freed, the C heap keeps where something above it is still in use, so that loading a model
leaves 26 MB behind; and each thread's part of the heap keeps what is free at its top: glibc raises
that limit to twice the largest array that was ever freed, 64 MB at most.
"""

from __future__ import annotations

import ctypes
import gc

THRESHOLDS = 5_000, 10, 20
"""New objects until the youngest are walked, in some 3 ms, and passes until older ones."""
KEPT_AT_TOP_BYTES = 8 << 20
"""Free memory that each thread's part of the heap keeps at its top,"""
MAPPED_FROM_BYTES = 32 << 20
"""and from which size on a block is no part of it: both stay as they are here."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt(3)


def settle() -> None:
    """Leave out for ever what is there now, walk the rest more seldom, keep little that is free.

    For the end of the start. Of the heap it is glibc's that is told; others stay as they are.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
        library.mallopt(_TRIM_THRESHOLD, KEPT_AT_TOP_BYTES)
        library.mallopt(_MMAP_THRESHOLD, MAPPED_FROM_BYTES)
