"""`--estimate` and `--max-cost`: what work would take, and what it may.

Asking for it is `Client.estimate`.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated

import typer

from judged import CostEstimate
from judged.cli.output import Output, new_table
from judged.cli.problems import Problem

EstimateOnly = Annotated[
    bool,
    typer.Option(
        "--estimate", help="Judge nothing: print how many calls, tokens and money it would take."
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        "--max-cost",
        metavar="X",
        help="Most that language models may cost, in the currency of the server; what could exceed "
        "it is not asked.",
    ),
]


def check_costs(max_cost: float | None, *, estimate: bool, replays: bool) -> None:
    """Raise Problem for a limit that is none, and for flags of models that are not asked."""
    if max_cost is not None and not (math.isfinite(max_cost) and max_cost > 0):
        raise Problem(f"--max-cost {max_cost:g}: must be above 0; leave it out for no limit")
    if replays and (estimate or max_cost is not None):
        flag = "--estimate" if estimate else "--max-cost"
        raise Problem(f"{flag}: no model is asked with --judge none; leave one of them out")


def report_estimate(out: Output, found: CostEstimate) -> None:
    """Print what work would take, or write it as the JSON document."""
    view = new_table("would take at most", "")
    rows = {
        "contexts": found.contexts,
        "distinct texts": found.distinct_texts,
        "in the cache": found.cache_hits,
        "calls": found.calls,
        "input tokens": found.input_tokens,
        "output tokens": found.output_tokens,
    }
    for name, number in rows.items():
        view.add_row(name, f"{number:,}")
    cost = "unknown: a price is missing"
    if found.cost is not None:
        cost = f"{found.cost:.6g} {found.currency}".rstrip()
    view.add_row("cost", cost)
    out.show(view)
    out.write_json({"estimate": asdict(found), "warnings": out.warnings})
    out.finish()
