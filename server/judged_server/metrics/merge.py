"""One table of metrics that rest on the verdicts of several judges.

A table has one set of rows. So a query that is unsettled under one of the judges is left out of
all the means; the bounds, which each metric has from its own judge, cover it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from judged_server.domain import IntArray
from judged_server.metrics.compute import compute_judged
from judged_server.metrics.matching import JudgedResults
from judged_server.metrics.measures.names import Measure
from judged_server.metrics.options import MetricOptions
from judged_server.metrics.table import Bounds, MetricColumn, MetricTable
from judged_server.statistics.intervals import mean


@dataclass(frozen=True, slots=True)
class Judging:
    """Measures, the judged results they are taken from, and how those become rankings.

    The judgings of one table have the same groups.
    """

    measures: Sequence[Measure]
    results: JudgedResults
    options: MetricOptions


def compute_merged(
    judgings: Sequence[Judging],
    measures: Sequence[Measure],
    *,
    field: str = "groups[{}].expected",
) -> MetricTable:
    """Return the table of all judgings, with a column for each of `measures`, in that order.

    Raises InvalidField as `compute_judged` does.
    """
    tables = [compute_judged(j.measures, j.results, j.options, field=field) for j in judgings]
    table = tables[0]
    if len(tables) > 1:
        rows = reduce(np.intersect1d, [table.rows for table in tables])
        if any(len(table.rows) != len(rows) for table in tables):
            tables = [
                _restricted(judging, table, rows)
                for judging, table in zip(judgings, tables, strict=True)
            ]
        table = tables[0]
    columns = {column.name: column for table in tables for column in table.columns}
    return replace(table, columns=tuple(columns[str(measure)] for measure in measures))


def _restricted(judging: Judging, table: MetricTable, rows: IntArray) -> MetricTable:
    """Return a judging's table over some of its rows, its bounds over all queries."""
    places = np.flatnonzero(np.isin(table.rows, rows, assume_unique=True))
    counts = replace(
        table.counts,
        evaluated=len(rows),
        skipped_unsettled=table.counts.skipped_unsettled + len(table.rows) - len(rows),
        retrieved=int(judging.results.n_retrieved[rows].sum()),
    )
    columns = tuple(_over(column, table.rows, places) for column in table.columns)
    return replace(table, columns=columns, rows=rows, counts=counts)


def _over(column: MetricColumn, rows: IntArray, places: IntArray) -> MetricColumn:
    # Where this judge left nothing open, the values themselves are the bounds.
    bounds = column.bounds or Bounds(rows, column.values, column.values)
    values = column.values[places]
    return replace(
        column,
        values=values,
        mean=mean(values),
        lower=mean(bounds.lowest),
        upper=mean(bounds.highest),
        bounds=bounds,
    )
