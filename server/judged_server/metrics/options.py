"""The choices a caller has when rankings become numbers.

Owns the enumerations and their defaults. What each choice does is in `matching`, `compute` and
`trec`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class MatchingMode(IntEnum):
    """How verdicts pair results with expected texts; the numbers are those of the wire."""

    GREEDY_FIRST = 1
    MAXIMUM = 2
    ANY = 3


class NoGoldPolicy(IntEnum):
    """What becomes of a query that expects nothing; the numbers are those of the wire."""

    SKIP = 1
    ZERO = 2
    ERROR = 3


@dataclass(frozen=True, slots=True)
class MetricOptions:
    """The options of one request.

    `matching` applies to verdicts only, `no_gold` to verdicts and gains, `complete` (a topic that
    the run lacks counts as 0, trec_eval -c) to qrels. `strict_duplicates` refuses what is
    otherwise dropped and counted.
    """

    matching: MatchingMode = MatchingMode.GREEDY_FIRST
    no_gold: NoGoldPolicy = NoGoldPolicy.SKIP
    strict_duplicates: bool = False
    complete: bool = False
