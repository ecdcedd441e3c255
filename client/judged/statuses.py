"""What is said of every verdict: whether it exists, where it came from, remarks.

The numbers are those of the contract.
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
