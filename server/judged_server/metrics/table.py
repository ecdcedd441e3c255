"""What a request for metrics asks for, and the table that it gets.

Which queries count and how they are averaged is up to `compute`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from judged.values.choices import Matching, NoGold, Unjudged
from judged.values.intervals import CorrectedEstimate, Interval, IntervalOptions
from judged.values.metrics import MetricCounts
from judged.values.rankings import IdFit

from judged_server.domain import FloatArray, IntArray, check_unique, need
from judged_server.scheduling.checkpoint import checkpoint
from judged_server.statistics.intervals import check_work, mean, mean_intervals


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

    matching: Matching = Matching.GREEDY_FIRST
    no_gold: NoGold = NoGold.SKIP
    strict_duplicates: bool = False
    complete: bool = False
    unjudged: Unjudged = Unjudged.NON_RELEVANT
    interval: IntervalOptions | None = None
    slice_by: tuple[str, ...] = ()
    relevance_level: int = 1
    max_documents: int | None = None


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """One metric over all rows of a table.

    `values` is float64[rows], finite and in [0, 1]. `bounds`, float64[2, open rows], are the lowest
    and the highest that the values of the table's `open_rows` could be, None when nothing was left
    open. `interval` is that of the mean, None unless asked for. `corrected`, and the bounds of
    single queries `query_lower` and `query_upper` (float64[rows]), come from human labels.
    """

    name: str
    values: FloatArray
    signature: str
    bounds: FloatArray | None = None
    interval: Interval | None = None
    corrected: CorrectedEstimate | None = None
    query_lower: FloatArray | None = None
    query_upper: FloatArray | None = None

    @property
    def n(self) -> int:
        """The number of queries in the mean."""
        return len(self.values)

    @property
    def mean(self) -> float | None:
        """The mean, None when there are no rows."""
        return mean(self.values)

    @property
    def lower(self) -> float | None:
        """What the mean over all queries with gold is at least, those with missing verdicts too."""
        return None if self.bounds is None else mean(self.bounds[0])

    @property
    def upper(self) -> float | None:
        """What that mean is at most."""
        return None if self.bounds is None else mean(self.bounds[1])

    @property
    def range(self) -> FloatArray:
        """The bounds; where nothing was left open the values are their own."""
        return np.tile(self.values, (2, 1)) if self.bounds is None else self.bounds

    def over(self, places: IntArray, open_places: IntArray) -> MetricColumn:
        """Return the column over some of its rows, as it is without labels."""
        bounds = None if self.bounds is None else self.bounds[:, open_places]
        return MetricColumn(self.name, self.values[places], self.signature, bounds)


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
    of the columns' `values` belongs to, ascending. `open_rows` are those of their bounds: the rows,
    and the queries that missing verdicts left out; None where nothing was left open. `id_fit` is
    None where no documents are matched by id.
    """

    columns: tuple[MetricColumn, ...]
    rows: IntArray
    counts: MetricCounts
    slices: tuple[MetricSlice, ...] = ()
    id_fit: IdFit | None = None
    open_rows: IntArray | None = None

    @property
    def all_rows(self) -> IntArray:
        """The queries with a value or bounds."""
        return self.rows if self.open_rows is None else self.open_rows


MAX_KEYS = 16
"""The most keys that a request may slice by,"""
MAX_SLICES = 1000
"""and the most slices they may make."""


def check_keys(keys: Sequence[str], field: str = "options.slice_by") -> None:
    """Raise InvalidField at `field[i]` for a key that is empty, repeats, or is one too many."""
    for i, key in enumerate(keys):
        need(i < MAX_KEYS, f"{field}[{i}]", f"is one key above {MAX_KEYS}; use several calls")
        need(key != "", f"{field}[{i}]", "must name a key of the metadata")
    check_unique(keys, f"{field}[{{}}]")


def with_intervals_and_slices(
    table: MetricTable,
    options: MetricOptions,
    metadata: Sequence[Mapping[str, str]] = (),
    field: str = "options",
) -> MetricTable:
    """Return the table with the intervals and the slices that the options ask for.

    `metadata` has an entry for each query that was given, in the order that `table.rows` speaks
    of; none at all if nothing is known of any. Raises InvalidField at `field.slice_by[i]` when the
    keys up to that one make more than MAX_SLICES slices, and at `field.interval.resamples` when
    the intervals are too much work.
    """
    keys = options.slice_by
    if options.interval is not None:
        n_queries = len(table.rows) * (1 + len(keys))
        check_work(n_queries, len(table.columns), options.interval, f"{field}.interval")
    slices: list[MetricSlice] = []
    for i, key in enumerate(keys):
        rows_of: dict[str, list[int]] = {}
        for row in table.all_rows.tolist():  # so that no slice is empty
            rows_of.setdefault(metadata[row].get(key, "") if metadata else "", []).append(row)
        rule = f"makes more than {MAX_SLICES} slices; slice by keys with fewer values"
        need(len(slices) + len(rows_of) <= MAX_SLICES, f"{field}.slice_by[{i}]", rule)
        for value, rows in sorted(rows_of.items()):
            checkpoint()
            places, open_places = (
                np.flatnonzero(np.isin(among, rows, assume_unique=True))
                for among in (table.rows, table.all_rows)
            )
            parts = [column.over(places, open_places) for column in table.columns]
            slices.append(MetricSlice(key, value, _with_intervals(parts, options.interval)))
    columns = _with_intervals(table.columns, options.interval)
    return replace(table, columns=columns, slices=tuple(slices))


def _with_intervals(
    columns: Sequence[MetricColumn], options: IntervalOptions | None
) -> tuple[MetricColumn, ...]:
    if options is None or not columns:
        return tuple(columns)
    intervals = mean_intervals(np.stack([column.values for column in columns]), options)
    return tuple(
        replace(column, interval=interval)
        for column, interval in zip(columns, intervals, strict=True)
    )
