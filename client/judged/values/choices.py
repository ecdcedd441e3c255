"""What may be chosen and what is told as one of a few names; the numbers are those of the contract.

Statuses, sources and flags are said of every verdict; the policies say how rankings become numbers.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag


class Status(IntEnum):
    """Whether a verdict exists."""

    OK = 1
    ERROR = 2
    ABSTAINED = 3
    NOT_ASSESSABLE = 4


class Source(IntEnum):
    """Where a verdict came from."""

    COMPUTED = 1
    CACHE = 2
    SHARED = 3
    REPLAY = 4


class Flag(IntFlag):
    """Remarks on a verdict."""

    NONE = 0
    NO_TOKENS = 1
    TRUNCATED = 2
    WINDOWED = 4
    RESERVED_TOKENS = 8
    FALLBACK = 16
    UNSETTLED = 32
    UNKNOWN_TOKENS = 64


class Matching(IntEnum):
    """How verdicts pair retrieved results with expected texts."""

    GREEDY_FIRST = 1
    MAXIMUM = 2
    ANY = 3


class NoGold(IntEnum):
    """What becomes of a query that expects nothing."""

    SKIP = 1
    ZERO = 2
    ERROR = 3


class Unjudged(IntEnum):
    """What a retrieved document counts as that the qrels do not judge."""

    NON_RELEVANT = 1
    CONDENSED = 2
    BOUNDS = 3


class CacheMode(IntEnum):
    """What the server's verdict cache is for."""

    USE = 1
    """Read what is there, and keep what is new."""
    REFRESH = 2
    """Read nothing, and keep what is new."""
    ONLY = 3
    """Ask no model: a verdict that is not cached is an error with the reason NOT_CACHED."""


class ClaimVerdict(IntEnum):
    """What the contexts say of a claim."""

    SUPPORTED = 1
    CONTRADICTED = 2
    NOT_ENOUGH_INFO = 3
