"""Intervals and slices of a table whose values are known, as Evaluate gives them.

Intervals and means of slices come from the server, out of the per-query values; the bounds of a
slice are those of its queries measured alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from judged._batching.rankings import for_values
from judged.types import (
    MetricOptions,
    MetricResult,
    MetricSlice,
    MetricTable,
    PerQueryValues,
    QueryGroup,
)

Tabulate = Callable[[frozenset[str] | None, MetricOptions], MetricTable]
"""Makes the table of some queries, None for all."""
Merge = Callable[[PerQueryValues, MetricOptions, Mapping[str, Mapping[str, str]]], MetricTable]
"""Asks the server for the table of values, given the metadata of their queries."""


def certain_table(
    tabulate: Tabulate, merge: Merge, groups: Sequence[QueryGroup], options: MetricOptions
) -> MetricTable:
    """Return the table of all groups with the intervals and slices that the options ask for."""
    if options.interval is None and not options.slice_by:
        return tabulate(None, options)
    plain = replace(options, interval=None, slice_by=(), per_query=True)
    table = tabulate(None, plain)
    measured = set(table.query_ids)
    merged = merge(
        PerQueryValues(table.query_ids, [metric.per_query for metric in table.metrics]),
        replace(for_values(options), per_query=False),
        {g.query_id: g.metadata for g in groups if g.metadata and g.query_id in measured},
    )
    slices: Sequence[MetricSlice] = [
        replace(part, metrics=_signed(part.metrics, table.metrics)) for part in merged.slices
    ]
    if any(metric.lower_bound is not None for metric in table.metrics):
        slices = _bounded_slices(tabulate, groups, plain, options.slice_by, table, slices)
    return replace(
        table,
        metrics=[
            replace(
                metric,
                interval=made.interval,
                per_query=metric.per_query if options.per_query else [],
            )
            for metric, made in zip(table.metrics, merged.metrics, strict=True)
        ],
        query_ids=table.query_ids if options.per_query else [],
        slices=slices,
    )


def _signed(
    metrics: Sequence[MetricResult], of_table: Sequence[MetricResult]
) -> list[MetricResult]:
    pairs = zip(metrics, of_table, strict=True)
    return [replace(metric, signature=whole.signature) for metric, whole in pairs]


def _bounded_slices(
    tabulate: Tabulate,
    groups: Sequence[QueryGroup],
    options: MetricOptions,
    keys: Sequence[str],
    table: MetricTable,
    slices: Sequence[MetricSlice],
) -> list[MetricSlice]:
    """Return the slices with bounds, and those in which every query was left out for a gap."""
    known = {(part.key, part.value): part for part in slices}
    bounded = []
    for key in keys:
        queries: dict[str, list[str]] = {}
        for group in groups:
            queries.setdefault(group.metadata.get(key, ""), []).append(group.query_id)
        for value in sorted(queries):
            alone = tabulate(frozenset(queries[value]), options)
            if alone.counts.evaluated + alone.counts.skipped_unsettled == 0:
                continue
            part = known.get((key, value))
            own = _signed(alone.metrics, table.metrics) if part is None else part.metrics
            trios = zip(own, alone.metrics, table.metrics, strict=True)
            bounded.append(MetricSlice(key, value, [_bounded(*trio) for trio in trios]))
    return bounded


def _bounded(own: MetricResult, alone: MetricResult, whole: MetricResult) -> MetricResult:
    """Return a slice's metric; where its queries leave nothing open, the bounds are the mean."""
    lower = upper = None
    if whole.lower_bound is not None:
        lower = alone.mean if alone.lower_bound is None else alone.lower_bound
        upper = alone.mean if alone.upper_bound is None else alone.upper_bound
    return replace(own, lower_bound=lower, upper_bound=upper, per_query=[])
