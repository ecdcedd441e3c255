"""The choices a caller has when rankings become numbers.

What each choice does is in `matching`, `compute`, `trec`, `qrels` and `table`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from judged.values.intervals import IntervalOptions


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


class UnjudgedPolicy(IntEnum):
    """What a document counts as that the qrels do not judge; the numbers are those of the wire."""

    NON_RELEVANT = 1
    CONDENSED = 2
    BOUNDS = 3


@dataclass(frozen=True, slots=True)
class MetricOptions:
    """The options of one request.

    `matching` applies to verdicts only, `no_gold` to verdicts and gains, `complete` (a topic that
    the run lacks counts as 0, trec_eval -c) and `unjudged` to qrels. `strict_duplicates` refuses
    what is otherwise dropped and counted. `interval` asks for intervals of the means, `slice_by`
    names the keys of the queries' metadata by which to slice. For qrels only, `relevance_level` is
    the smallest grade that is relevant (trec_eval -l), and `max_documents` the most of a topic that
    are ranked (trec_eval -M; None: all).
    """

    matching: MatchingMode = MatchingMode.GREEDY_FIRST
    no_gold: NoGoldPolicy = NoGoldPolicy.SKIP
    strict_duplicates: bool = False
    complete: bool = False
    unjudged: UnjudgedPolicy = UnjudgedPolicy.NON_RELEVANT
    interval: IntervalOptions | None = None
    slice_by: tuple[str, ...] = ()
    relevance_level: int = 1
    max_documents: int | None = None
