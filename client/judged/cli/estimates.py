"""Numbers with their intervals on the command line: how they print, and their warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from judged import Estimate
from judged.cli.certainty import MethodName
from judged.cli.output import new_table

Method = Annotated[
    MethodName | None,
    typer.Option("--interval", case_sensitive=False, help="Method of the intervals; percentile."),
]


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


def number(value: float | None) -> str:
    """Return a number with four decimals, "-" for None."""
    return "-" if value is None else f"{value:.4f}"


def estimate_warnings(estimates: Mapping[str, Estimate | None]) -> Iterator[str]:
    """Yield what to mind about the intervals, once for numbers that share it."""
    names_of: dict[str, list[str]] = {}
    for name, estimate in estimates.items():
        interval = None if estimate is None else estimate.interval
        for warning in () if interval is None else interval.warnings:
            names_of.setdefault(warning, []).append(name)
    for warning, names in names_of.items():
        yield f"interval of {', '.join(names)}: {warning}"


def estimates_document(estimates: Mapping[str, Estimate | None]) -> dict[str, Any]:
    """Return the JSON object of numbers with their intervals; null for what is undefined."""
    return {
        name: None if estimate is None else asdict(estimate) for name, estimate in estimates.items()
    }
