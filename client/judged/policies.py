"""The choices a caller has when rankings become numbers; the numbers are those of the contract."""

from __future__ import annotations

from enum import IntEnum


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
