"""The result of a request for metrics: columns of values, rows of queries, counts.

Which queries count and how they are averaged is up to `compute`.
"""

from __future__ import annotations

from dataclasses import dataclass

from judged_server.domain import FloatArray, IntArray
from judged_server.statistics.intervals import Interval
from judged_server.statistics.prediction_powered import CorrectedMean


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the values of queries could be: float64 `lowest` and `highest`, one each a row.

    `rows` is int64 and names queries as those of a table do, in any order.
    """

    rows: IntArray
    lowest: FloatArray
    highest: FloatArray

    def take(self, places: IntArray) -> Bounds:
        """Return the bounds at these places."""
        return Bounds(self.rows[places], self.lowest[places], self.highest[places])


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """One metric over all rows of a table.

    `values` is float64[rows], finite and in [0, 1]. `mean` is None when there are no rows.
    `lower` and `upper` enclose the mean over all queries with gold, those left out for missing
    verdicts included; they are the means of `bounds`, and None when nothing was left open.
    `interval` is that of the mean, None unless asked for. `corrected`, and the bounds of
    single queries `query_lower` and `query_upper` (float64[rows]), come from human labels.
    """

    name: str
    values: FloatArray
    mean: float | None
    signature: str
    lower: float | None = None
    upper: float | None = None
    bounds: Bounds | None = None
    interval: Interval | None = None
    corrected: CorrectedMean | None = None
    query_lower: FloatArray | None = None
    query_upper: FloatArray | None = None

    @property
    def n(self) -> int:
        """The number of queries in the mean."""
        return len(self.values)


@dataclass(frozen=True, slots=True)
class MetricCounts:
    """What went into the means and what did not: queries, but for the last three.

    `queries` is the sum of `evaluated` and all that was skipped. `skipped_unsettled` counts
    queries whose hits hang on missing verdicts. `duplicates` counts documents that were dropped,
    `retrieved` those ranked in the evaluated queries, `unjudged` those retrieved there that the
    qrels do not judge.
    """

    queries: int
    evaluated: int
    skipped_no_gold: int = 0
    skipped_missing: int = 0
    skipped_unjudged: int = 0
    skipped_unsettled: int = 0
    duplicates: int = 0
    retrieved: int = 0
    unjudged: int = 0


@dataclass(frozen=True, slots=True)
class MetricSlice:
    """All metrics over the queries whose metadata have `value` under `key`, "" if they lack it."""

    key: str
    value: str
    columns: tuple[MetricColumn, ...]


@dataclass(frozen=True, slots=True)
class MetricTable:
    """All metrics of one request, in the order asked for.

    `rows` is int64: which of the queries given (groups, topics of the qrels, rankings) each entry
    of the columns' `values` belongs to, ascending.
    """

    columns: tuple[MetricColumn, ...]
    rows: IntArray
    counts: MetricCounts
    slices: tuple[MetricSlice, ...] = ()
