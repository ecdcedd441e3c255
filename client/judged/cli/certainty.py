"""How sure the numbers are, on the command line: options of intervals, and the table of slices.

What they mean is up to the server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table

from judged import IntervalMethod, IntervalOptions, MetricTable, Unjudged
from judged.cli.output import new_table
from judged.cli.tables import mean_of


class MethodName(StrEnum):
    """The methods of an interval as they are typed."""

    PERCENTILE = "percentile"
    BCA = "bca"
    T = "t"


class UnjudgedName(StrEnum):
    """The policies for unjudged documents as they are typed."""

    NON_RELEVANT = "non_relevant"
    CONDENSED = "condensed"
    BOUNDS = "bounds"

    @property
    def policy(self) -> Unjudged:
        """The policy of the contract."""
        return Unjudged[self.name]


LARGEST_SEED = 2**64 - 1
"""What the contract holds."""

IntervalName = Annotated[
    MethodName | None,
    typer.Option(
        "--interval", case_sensitive=False, help="Show a confidence interval of every mean."
    ),
]
Confidence = Annotated[
    float | None,
    typer.Option(metavar="X", min=0.5, max=0.9999, help="Confidence of the intervals; 0.95."),
]
Resamples = Annotated[
    int | None,
    typer.Option(metavar="N", min=100, max=100_000, help="Resamples of the bootstrap; 10,000."),
]
Seed = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, max=LARGEST_SEED, help="Seed of the bootstrap; 0."),
]
SliceBy = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY",
        help="Show the means of the queries that share a value of this key of their metadata; may "
        "be repeated.",
    ),
]
UnjudgedPolicy = Annotated[
    UnjudgedName,
    typer.Option(case_sensitive=False, help="What a document counts as that nobody judged."),
]


def interval_options(
    method: MethodName | None, confidence: float | None, resamples: int | None, seed: int | None
) -> IntervalOptions | None:
    """Return the options of intervals, None when none of them was given."""
    if method is None and confidence is None and resamples is None and seed is None:
        return None
    number = None if method is None else IntervalMethod[method.name]
    return IntervalOptions(number, confidence, resamples, seed)


def interval_warnings(table: MetricTable, asked: IntervalOptions | None) -> Iterator[str]:
    """Yield what the reader of the intervals should know, once for metrics that share it."""
    if asked is not None and any(metric.interval is None for metric in table.metrics):
        yield "interval: there is none where fewer than two queries have a value"
    metrics_of: dict[str, list[str]] = {}
    for metric in table.metrics:
        for warning in metric.interval.warnings if metric.interval is not None else ():
            metrics_of.setdefault(warning, []).append(metric.name)
    for warning, metrics in metrics_of.items():
        whose = "" if len(metrics) == len(table.metrics) else f" of {', '.join(metrics)}"
        yield f"interval{whose}: {warning}"


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
