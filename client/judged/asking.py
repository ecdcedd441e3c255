"""How a call wants language models to be asked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class CacheMode(IntEnum):
    """What the server's verdict cache is for; the numbers are those of the contract."""

    USE = 1
    """Read what is there, and keep what is new."""
    REFRESH = 2
    """Read nothing, and keep what is new."""
    ONLY = 3
    """Ask no model: a verdict that is not cached is an error with the reason NOT_CACHED."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How language models are asked; judges that ask none ignore it.

    `max_cost` is the most that the models may cost, above 0, in the currency of the server's
    prices; None leaves it to the server's own limits. What could exceed it is not asked. It holds
    for the call as a whole: of several messages each gets the share that its contexts are of all.
    """

    cache: CacheMode = CacheMode.USE
    max_cost: float | None = None
