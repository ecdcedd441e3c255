"""The result of a request for metrics: columns of values, rows of queries, counts.

Owns the shapes. Which queries count and how they are averaged is up to `compute`.
"""

from __future__ import annotations

from dataclasses import dataclass

from judged_server.domain import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """One metric over all rows of a table.

    `values` is float64[rows], finite and in [0, 1]. `mean` is None when there are no rows.
    `lower` and `upper` enclose the mean over all queries with gold, those left out for missing
    verdicts included; they are None when no verdict is missing.
    """

    name: str
    values: FloatArray
    mean: float | None
    signature: str
    lower: float | None = None
    upper: float | None = None

    @property
    def n(self) -> int:
        """The number of queries in the mean."""
        return len(self.values)


@dataclass(frozen=True, slots=True)
class MetricCounts:
    """What went into the means and what did not: queries, but for the last two.

    `queries` is the sum of `evaluated` and all that was skipped. `skipped_unsettled` counts
    queries whose hits hang on missing verdicts. `duplicates` counts documents that were dropped,
    `retrieved` those ranked in the evaluated queries.
    """

    queries: int
    evaluated: int
    skipped_no_gold: int = 0
    skipped_missing: int = 0
    skipped_unjudged: int = 0
    skipped_unsettled: int = 0
    duplicates: int = 0
    retrieved: int = 0


@dataclass(frozen=True, slots=True)
class MetricTable:
    """All metrics of one request, in the order asked for.

    `rows` is int64: which of the queries given (groups, topics of the qrels, rankings) each entry
    of the columns' `values` belongs to, ascending.
    """

    columns: tuple[MetricColumn, ...]
    rows: IntArray
    counts: MetricCounts
