"""`judged usage`: what the caller's tenant has used of language models."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from judged.cli.connection import connect, require_target
from judged.cli.options.server import ServerFlags
from judged.cli.output.writer import new_table
from judged.values import TenantUsage

_NOT_RECORDED = (
    "the server writes no usage down: it does where it has language models, and tenants or a "
    "budget of the day"
)


def command(
    days: Annotated[
        int, typer.Option("--days", metavar="N", min=1, max=366, help="The last N days, in UTC.")
    ] = 31,
    *,
    shared: ServerFlags,
) -> None:
    """Show what your tenant asked of language models, by day.

    Says too what is left of its budgets.
    """
    out = shared.output()
    require_target(shared, "usage is kept by servers that go on")
    with connect(shared) as server:
        usage = server.client.usage(days)
    if not usage.is_recorded:
        out.note(_NOT_RECORDED)
    elif not usage.rows:
        out.note(f"no language model was asked in the last {days} days")
    parts: list[RenderableType] = []
    if usage.rows:
        parts.append(_rows(usage))
    if usage.budgets:
        parts += ["", _budgets(usage)] if parts else [_budgets(usage)]
    out.show(*parts)
    out.write_json(document(usage))


def _rows(usage: TenantUsage) -> RenderableType:
    table = new_table(
        *("day", "judge", "rubric", "model", "questions", "input tokens", "output tokens", "cost")
    )
    for column in table.columns[1:4]:
        column.justify = "left"
    for row in usage.rows:
        table.add_row(
            *(row.day, row.judge or "-", row.rubric, row.model, f"{row.questions:,}"),
            *(f"{row.input_tokens:,}", f"{row.output_tokens:,}", f"{row.cost:.6f} {row.currency}"),
        )
    return table


def _budgets(usage: TenantUsage) -> RenderableType:
    table = new_table("budget", "limit", "left", "renewed at")
    for each in usage.budgets:
        table.add_row(
            each.budget,
            f"{each.limit:g} {each.currency}",
            f"{each.left:.6f} {each.currency}",
            f"{each.renewed_at:%Y-%m-%d %H:%M} UTC",
        )
    return table


def document(usage: TenantUsage) -> dict[str, Any]:
    """Return what was used as a JSON document."""
    return {
        "tenant": usage.tenant or None,
        "is_recorded": usage.is_recorded,
        "rows": [{**asdict(row), "judge": row.judge or None} for row in usage.rows],
        "budgets": [
            {**asdict(each), "renewed_at": each.renewed_at.isoformat()} for each in usage.budgets
        ],
    }
