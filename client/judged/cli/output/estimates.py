"""How sure the numbers are: intervals, slices and corrected means, with their warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from judged import MetricTable
from judged.cli.output.tables import mean_of, with_interval
from judged.cli.output.writer import new_table
from judged.report.summary import number
from judged.values import CorrectedEstimate, Estimate
from judged.values.intervals import names_by_warning, shared_warnings


def estimates_table(title: str, estimates: Mapping[str, Estimate | None]) -> Table:
    """Return a row each: name, value, ends of the interval; "-" for what is undefined."""
    view = new_table(title, "value", "lower", "upper")
    for name, estimate in estimates.items():
        view.add_row(name, *cells(estimate))
    return view


def cells(estimate: Estimate | None) -> tuple[str, str, str]:
    """Return the value and the ends of the interval as tables show them."""
    if estimate is None:
        return "-", "-", "-"
    interval = estimate.interval
    if interval is None:
        return number(estimate.value), "-", "-"
    return number(estimate.value), number(interval.lower), number(interval.upper)


def estimate_warnings(estimates: Mapping[str, Estimate | None]) -> Iterator[str]:
    """Yield what to mind about the intervals, once for numbers that share it."""
    known = {name: one.interval for name, one in estimates.items() if one is not None}
    for warning, names in names_by_warning(known).items():
        yield f"interval of {', '.join(names)}: {warning}"


def estimates_document(estimates: Mapping[str, Estimate | None]) -> dict[str, Any]:
    """Return the JSON object of numbers with their intervals; null for what is undefined."""
    return {
        name: None if estimate is None else asdict(estimate) for name, estimate in estimates.items()
    }


def slice_warnings(table: MetricTable, keys: Sequence[str]) -> Iterator[str]:
    """Yield the keys that made no slice with a value."""
    known = {part.key for part in table.slices if part.value}
    for key in keys:
        if key not in known:
            yield f"--slice-by {key}: no query has this key in its metadata"


def slices_table(table: MetricTable) -> Table:
    """Return the means of the slices, a row each; "-" stands for queries that lack the key."""
    view = new_table("slice", "n", *(metric.name for metric in table.metrics))
    for part in table.slices:
        name = f"{part.key}={part.value or '-'}"
        n = max((metric.n for metric in part.metrics), default=0)
        view.add_row(name, str(n), *(mean_of(metric) for metric in part.metrics))
    return view


def corrected_table(means: Mapping[str, CorrectedEstimate]) -> Table:
    """Return the naive mean, that of the labels and the corrected one, side by side."""
    view = new_table("metric", "naive", "labels only", "corrected", "labelled", "power")
    for name, mean in means.items():
        estimates = (mean.naive, mean.labels_only, mean.corrected)
        numbers = ["-" if e is None else with_interval(e.value, e.interval) for e in estimates]
        view.add_row(name, *numbers, f"{mean.n_labelled} of {mean.n}", f"{mean.power:.3f}")
    return view


def more_labels(means: Mapping[str, CorrectedEstimate]) -> str:
    """Return what 50 labels more would make of the corrected intervals; "" where none can tell."""
    told = []
    for name, mean in means.items():
        interval = None if mean.corrected is None else mean.corrected.interval
        if interval is not None and mean.half_width_with_more is not None:
            half = (interval.upper - interval.lower) / 2
            told.append(f"{name} from +-{half:.4f} to +-{mean.half_width_with_more:.4f}")
    return f"50 labels more would narrow {', '.join(told)}" if told else ""


def corrected_warnings(means: Mapping[str, CorrectedEstimate] | None) -> Iterator[str]:
    """Yield what the reader should know, once for all metrics that share it."""
    yield from shared_warnings("corrected mean", means or {})


def corrected_document(means: Mapping[str, CorrectedEstimate] | None) -> dict[str, Any]:
    """Return the part of the JSON document, empty when there were no labels."""
    if means is None:
        return {}
    return {"corrected": {name: asdict(mean) for name, mean in means.items()}}
