"""What may be chosen and what is told as one of a few names; the numbers are those of the contract.

Statuses, sources and flags are said of every verdict; the policies say how rankings become numbers.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag


class Status(IntEnum):
    """Whether a verdict exists."""

    OK = 1
    """The context was judged."""
    ERROR = 2
    """Something failed; the verdict's `error` says what."""
    ABSTAINED = 3
    """The judge answered, but not with a verdict."""
    NOT_ASSESSABLE = 4
    """There was nothing to judge."""


class Source(IntEnum):
    """Where a verdict came from."""

    COMPUTED = 1
    """Computed for this call."""
    CACHE = 2
    """Read from the verdict cache."""
    SHARED = 3
    """Taken from another caller's work in flight."""
    REPLAY = 4
    """Replayed from a recorded trace."""


class Flag(IntFlag):
    """Remarks on a verdict."""

    NONE = 0
    NO_TOKENS = 1
    """A text has letters or pictures, but none that the judge's profile can read."""
    TRUNCATED = 2
    """A text was longer than the model's window: only its beginning was judged."""
    WINDOWED = 4
    """A text was longer than the model's window: the score is the best over its windows."""
    RESERVED_TOKENS = 8
    """A text holds chat-template tokens or invisible characters, and may be an attack."""
    FALLBACK = 16
    """A fallback model answered at least once, because the provider of the first one failed."""
    UNSETTLED = 32
    """No stage of the cascade settled it: the verdict is that of the last stage with one."""
    UNKNOWN_TOKENS = 64
    """The judge does not read a good part of a text."""


class Matching(IntEnum):
    """How verdicts pair retrieved results with expected texts."""

    GREEDY_FIRST = 1
    """By rank, a result takes the first expected text it matches that is still free."""
    MAXIMUM = 2
    """A maximum bipartite matching."""
    ANY = 3
    """No pairing; only for the metrics that are defined without one."""


class NoGold(IntEnum):
    """What becomes of a query that expects nothing."""

    SKIP = 1
    """Leave it out of the mean, and count it."""
    ZERO = 2
    """It scores 0."""
    ERROR = 3
    """The call is refused."""


class Unjudged(IntEnum):
    """What a retrieved document counts as that the qrels do not judge."""

    NON_RELEVANT = 1
    """Not relevant, as in trec_eval."""
    CONDENSED = 2
    """Taken out of the ranking before it is measured (Sakai 2007)."""
    BOUNDS = 3
    """Not relevant, and bounds say how far the mean could move if they were judged."""


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
    """They support it."""
    CONTRADICTED = 2
    """They contradict it."""
    NOT_ENOUGH_INFO = 3
    """They do neither."""
