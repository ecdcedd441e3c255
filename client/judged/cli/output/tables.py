"""Metrics for people and for programs: one table, one JSON document, the warnings both deserve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from rich.table import Table

from judged import MetricTable, Verdicts
from judged.cli.output.writer import new_table
from judged.types import MetricCounts, MetricResult, NegativeReport, VerdictCounts

_SHOWN_REASONS = 3


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


def count_warnings(counts: MetricCounts) -> Iterator[str]:
    """Yield what the reader of a table should know about the queries in it."""
    if counts.skipped_no_gold:
        queries = plural(counts.skipped_no_gold, "query", "queries")
        yield f"{queries} left out: nothing to be found"
    if counts.skipped_unsettled:
        queries = plural(counts.skipped_unsettled, "query", "queries")
        yield (
            f"{queries} left out of the means: missing verdicts could change their values; the "
            "bounds cover them"
        )
    if counts.duplicates:
        what = plural(counts.duplicates, "repeated result", "repeated results")
        yield f"{what} dropped; the first of each is kept"


def verdict_warnings(counts: VerdictCounts) -> Iterator[str]:
    """Yield what the reader of verdicts should know about them."""
    missing = counts.total - counts.ok
    if missing:
        kinds = {
            "failed": counts.error,
            "abstained": counts.abstained,
            "not assessable": counts.not_assessable,
        }
        listed = ", ".join(f"{n} {kind}" for kind, n in kinds.items() if n)
        yield f"{of_verdicts(missing, counts.total)} missing: {listed}"
    if counts.flagged_no_tokens:
        yield (
            f"{of_verdicts(counts.flagged_no_tokens, counts.total)} about a text whose letters "
            "this profile can't read; token_overlap with --profile unicode can"
        )
    if counts.flagged_truncated:
        yield (
            f"{of_verdicts(counts.flagged_truncated, counts.total)} about a text longer than "
            "the model's window; only its beginning was judged"
        )
    if counts.flagged_reserved_tokens:
        verdicts = plural(counts.flagged_reserved_tokens, "verdict is", "verdicts are")
        yield (
            f"{verdicts} flagged RESERVED_TOKENS: a text holds tokens of chat templates, or "
            "characters that only a model reads; read those texts before you trust the verdicts"
        )
    if counts.flagged_fallback:
        verdicts = plural(counts.flagged_fallback, "verdict is", "verdicts are")
        yield (
            f"{verdicts} by a fallback: the provider of the model that was asked failed; --details "
            "names the models"
        )


def reason_warnings(verdicts: Verdicts) -> Iterator[str]:
    """Yield the commonest reasons why verdicts are missing."""
    return reason_lines(said_reasons(verdicts))


def said_reasons(verdicts: Verdicts) -> Counter[str]:
    """Return the reasons why verdicts are missing, with how often each was given."""
    return Counter(f"{error.reason}: {error.message}" for error in verdicts.errors.values())


def reason_lines(said: Counter[str]) -> Iterator[str]:
    """Yield the commonest of some reasons as warnings."""
    for reason, n in said.most_common(_SHOWN_REASONS):
        yield f"{plural(n, 'verdict', 'verdicts')} missing: {reason}"


def plural(n: int, one: str, many: str) -> str:
    """Return a number with its noun."""
    return f"{n} {word(n, one, many)}"


def of_all(n: int, total: int, one: str, many: str) -> str:
    """Return how many of all there are, with their noun."""
    return f"{n} of {plural(total, one, many)}"


def of_verdicts(n: int, total: int) -> str:
    """Return how many of all verdicts, with the verb that they are something."""
    return f"{of_all(n, total, 'verdict', 'verdicts')} {word(n, 'is', 'are')}"


def word(n: int, one: str, many: str) -> str:
    """Return the form of a word that goes with a number."""
    return one if n == 1 else many


def mean_of(metric: MetricResult) -> str:
    """Return a mean as tables show it, with its interval if it has one."""
    mean, interval = number(metric.mean), metric.interval
    return mean if interval is None else f"{mean} [{interval.lower:.4f}, {interval.upper:.4f}]"


def number(value: float | None) -> str:
    """Return a number with four decimals, "-" for None."""
    return "-" if value is None else f"{value:.4f}"


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
