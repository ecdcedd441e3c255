"""Tables of comparisons: what differs, by how much, and what could have been seen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from judged.cli.output.writer import new_table
from judged.report.summary import number, p_value, signed
from judged.values import Estimate, RunComparison


def comparison_table(comparisons: Sequence[RunComparison]) -> Table:
    """Return a row for each metric of each run beside the baseline."""
    view = new_table(
        *("metric", "run", "n", "baseline", "mean", "difference", "interval", "p"),
        *("won/lost/tied", "detectable", "the run is"),
        names=2,
    )
    for made in comparisons:
        view.add_row(
            made.metric,
            made.run,
            str(made.n),
            f"{made.baseline_mean:.4f}",
            f"{made.run_mean:.4f}",
            signed(made.difference.value),
            _interval(made.difference),
            p_value(made.permutation.p_holm),
            f"{made.wins}/{made.losses}/{made.ties}",
            number(made.power.detectable_difference),
            _finding(made),
        )
    return view


def _finding(made: RunComparison) -> str:
    """Return what the corrected test says at the confidence of the interval."""
    interval = made.difference.interval
    alpha = 1 - interval.confidence if interval is not None else 0.05
    if made.permutation.p_holm >= alpha or not made.difference.value:
        return "not clearly different"
    return "better" if made.difference.value > 0 else "worse"


def power_table(comparisons: Sequence[RunComparison], difference: float) -> Table:
    """Return what the queries can show of a true difference, and how many would be enough."""
    view = new_table("metric", "run", f"power to see {difference:g}", "queries needed", names=2)
    for made in comparisons:
        needed = made.power.queries_needed
        view.add_row(
            made.metric,
            made.run,
            number(made.power.power),
            "-" if needed is None else str(needed),
        )
    return view


def moved_table(made: RunComparison, most: int) -> Table:
    """Return the queries whose values differ most."""
    view = new_table("query", made.baseline, made.run, "difference")
    for query in made.moved[:most]:
        view.add_row(
            query.query_id,
            f"{query.baseline:.4f}",
            f"{query.run:.4f}",
            signed(query.run - query.baseline),
        )
    return view


def _interval(estimate: Estimate) -> str:
    interval = estimate.interval
    if interval is None:
        return "-"
    return f"{interval.lower:+.4f} to {interval.upper:+.4f}"
