"""What is counted and timed while calls are worked: the figures of `monitoring.prometheus`.

`active` is None unless somebody asked for them at the start, and nothing is done then.
"""

from __future__ import annotations

from typing import Literal, Protocol

Stage = Literal["queue", "tokenize", "infer", "provider", "store"]
"""Where a call's time goes: waiting for an embedding model, reading texts, running the model,
waiting for a language model, reading stored replies."""


class Recorder(Protocol):
    """Hears what happens, on any thread. It must be quick, and raise nothing."""

    def note(self, figure: str, value: float, *labels: str) -> None:
        """Add to a counter, or to the distribution of a time."""
        ...


active: Recorder | None = None


def note(figure: str, value: float, *labels: str) -> None:
    """Add to a counter of FIGURES, or to the distribution of a time."""
    if active is not None:
        active.note(figure, value, *labels)


def note_lookups(cache: Literal["replies", "vectors"], hits: int, misses: int) -> None:
    """Note how often something was found in a cache, and how often not."""
    for result, times in (("hit", hits), ("miss", misses)):
        if times:
            note("cache_lookups", times, cache, result)
