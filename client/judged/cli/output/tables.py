"""Metrics for people and for programs: one table, one JSON document, the warnings both deserve."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from judged import MetricTable
from judged._views import of_all, plural, word
from judged.cli.output.writer import new_table
from judged.report.summary import number
from judged.values import Interval, MetricCounts, MetricResult, NegativeReport, VerdictCounts


def document(table: MetricTable, signature: str | None, warnings: list[str]) -> dict[str, Any]:
    """Return the JSON document of a table. The table must have per-query values."""
    return {**table.to_dict(), "signature": signature, "warnings": warnings}


def means_table(table: MetricTable) -> Table:
    """Return the means, with bounds where verdicts are missing and intervals if there are any."""
    bounded = any(metric.lower_bound is not None for metric in table.metrics)
    view = new_table("metric", "mean", "n", *(("lower", "upper") if bounded else ()))
    for metric in table.metrics:
        row = [metric.name, mean_of(metric), str(metric.n)]
        if bounded:
            row += [number(metric.lower_bound), number(metric.upper_bound)]
        view.add_row(*row)
    return view


def per_query_table(table: MetricTable) -> Table:
    """Return the value of every query for every metric."""
    view = new_table("query", *(metric.name for metric in table.metrics))
    for row, query_id in enumerate(table.query_ids):
        view.add_row(query_id, *(number(metric.per_query[row]) for metric in table.metrics))
    return view


def describe_counts(counts: MetricCounts) -> str:
    """Return what went into the means, as a line."""
    results = plural(counts.retrieved, "result", "results")
    return f"{of_all(counts.evaluated, counts.queries, 'query', 'queries')}, {results}"


def describe_verdicts(counts: VerdictCounts) -> str:
    """Return how many verdicts there are, as a line."""
    coverage = f"{counts.ok / counts.total:.4g}" if counts.total else "none"
    verdicts = plural(counts.total, "verdict", "verdicts")
    return f"{verdicts}, {counts.relevant} relevant, coverage {coverage}"


def mean_of(metric: MetricResult) -> str:
    """Return a mean as tables show it, with its interval if it has one."""
    return with_interval(metric.mean, metric.interval)


def with_interval(value: float | None, interval: Interval | None) -> str:
    """Return a number as tables show it, with its interval if it has one."""
    if interval is None:
        return number(value)
    return f"{number(value)} [{interval.lower:.4f}, {interval.upper:.4f}]"


def negative_warnings(report: NegativeReport | None) -> Iterator[str]:
    """Yield what the reader of a table should know about negative answers."""
    if report is None:
        return
    if report.matches:
        first = report.matches[0]
        found = plural(len(report.matches), "match", "matches")
        yield (
            f"{of_all(report.queries_hit, report.queries, 'query', 'queries')} with negative "
            f"answers retrieved one ({found}), for example {first.query_id!r} with result "
            f"{first.retrieved + 1} ({first.document_id!r})"
        )
    missing = report.counts.total - report.counts.ok
    if missing:
        verdicts = of_all(missing, report.counts.total, "verdict", "verdicts")
        yield f"{verdicts} on negative answers {word(missing, 'is', 'are')} missing"


def negatives_document(report: NegativeReport | None) -> dict[str, object]:
    """Return what the JSON document says of negatives: nothing when no query has any."""
    return {} if report is None else {"negatives": report.to_dict()}
