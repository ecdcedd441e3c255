"""What `judged frontier` shows: the cascades worth having, the one proposed, its guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from judged.cli.output.writer import new_table
from judged.report.summary import number
from judged.values import CascadeFrontier, FrontierPoint


def frontier_table(found: CascadeFrontier, names: Sequence[str], unit: str) -> Table:
    """Return a row a cascade, the cheapest first: `at least` is the bound of the accuracy."""
    view = new_table("", "stages", f"{unit} an item", "settled", "accuracy", "at least", names=2)
    for place, point in enumerate(found.points):
        mark = "proposed" if place == found.proposed else "certified" if point.certified else ""
        view.add_row(
            mark,
            describe_stages(point, names),
            f"{point.cost:.4g}",
            f"{point.settled:.1%}",
            number(point.accuracy),
            number(point.least_accuracy),
        )
    return view


def describe_stages(point: FrontierPoint, names: Sequence[str]) -> str:
    """Return the judges of a cascade in order, with the share of the items that reaches each."""
    parts = [names[stage.stage] for stage in point.stages[:1]]
    parts += [f"{names[stage.stage]} {stage.share:.0%}" for stage in point.stages[1:]]
    return " > ".join(parts)


def frontier_document(
    found: CascadeFrontier, names: Sequence[str], costs: Sequence[float], unit: str
) -> dict[str, Any]:
    """Return the JSON object of a frontier."""
    return {
        "stages": [{"stage": name, "cost": cost} for name, cost in zip(names, costs, strict=True)],
        "cost_unit": unit,
        "frontier": [
            {
                **asdict(point),
                "accuracy": point.accuracy,
                "least_accuracy": point.least_accuracy,
                "judges": describe_stages(point, names),
            }
            for point in found.points
        ],
        "proposed": found.proposed,
        "uncertified": found.uncertified,
        "n_proposing": found.n_proposing,
        "n_certifying": found.n_certifying,
        "n_queries": found.n_clusters,
        "signature": found.signature,
    }
