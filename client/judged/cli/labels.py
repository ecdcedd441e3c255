"""Human labels on the command line: the option, and the table of corrected means.

The format of the file is in `judged.evaluation.labels`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from judged import CorrectedEstimate, Estimate
from judged.cli.output import new_table

LabelsFile = Annotated[
    str | None,
    typer.Option(
        "--labels",
        metavar="LABELS.jsonl",
        help="What people decided on some queries, drawn at random: a line a query, {query_id, "
        "relevant: [[true or false for each expected answer] for each result]}. Shows every mean "
        "corrected for the judge's error.",
    ),
]


def corrected_table(means: Mapping[str, CorrectedEstimate]) -> Table:
    """Return the naive mean, that of the labels and the corrected one, side by side."""
    view = new_table("metric", "naive", "labels only", "corrected", "labelled", "power")
    for name, mean in means.items():
        numbers = [_estimate(e) for e in (mean.naive, mean.labels_only, mean.corrected)]
        view.add_row(name, *numbers, f"{mean.n_labelled} of {mean.n}", f"{mean.power:.3f}")
    return view


def corrected_warnings(means: Mapping[str, CorrectedEstimate] | None) -> Iterator[str]:
    """Yield what the reader should know, once for all metrics that share it."""
    metrics_of: dict[str, list[str]] = {}
    for name, mean in (means or {}).items():
        for warning in mean.warnings:
            metrics_of.setdefault(warning, []).append(name)
    for warning, metrics in metrics_of.items():
        whose = "" if len(metrics) == len(means or ()) else f" of {', '.join(metrics)}"
        yield f"corrected mean{whose}: {warning}"


def corrected_document(means: Mapping[str, CorrectedEstimate] | None) -> dict[str, Any]:
    """Return the part of the JSON document, empty when there were no labels."""
    if means is None:
        return {}
    return {"corrected": {name: asdict(mean) for name, mean in means.items()}}


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None or estimate.value is None:
        return "-"
    interval = estimate.interval
    mean = f"{estimate.value:.4f}"
    return mean if interval is None else f"{mean} [{interval.lower:.4f}, {interval.upper:.4f}]"
