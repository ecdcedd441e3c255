"""Python's cyclic garbage collector, as a server wants it.

Owns how often it runs. Its youngest generation is walked after 700 new objects by default, which a
few questions to a language model make, while nearly all of these live until their reply is there:
a tenth of the CPU of a question. What is in no cycle is freed at once in any case.
"""

from __future__ import annotations

import gc

THRESHOLDS = 20_000, 20, 20
"""New objects until the youngest are walked, a millisecond or two, and passes until older ones."""


def settle() -> None:
    """Leave out for ever what is there now, and walk the rest more seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
