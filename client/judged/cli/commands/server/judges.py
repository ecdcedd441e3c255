"""`judged judges`: what a server offers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.table import Table

from judged.cli.connection import connect
from judged.cli.options.server import ServerFlags
from judged.cli.output.writer import new_table
from judged.values import ChatModelInfo, JudgeInfo, Scalar, ServerInfo


def command(
    shared: ServerFlags,
) -> None:
    """Show what a server offers: judges, models, metrics."""
    out = shared.output()
    with connect(shared) as server:
        info = server.info
    out.show(
        judges_table(info),
        "",
        "Signatures with these defaults:",
        *(f"  {judge.signature}" for judge in info.judges if judge.signature),
        *(
            f"Unavailable: {name_of(judge)}: {judge.unavailable}"
            for judge in info.judges
            if judge.unavailable
        ),
        "",
        f"default judge  {info.default_judge}",
        f"models         {', '.join(model.name for model in info.models) or 'none'}",
        f"chat models    {', '.join(map(_chat_model, info.chat_models)) or 'none'}",
        f"rubrics        {', '.join(f'{r.rubric}@{r.version}' for r in info.rubrics) or 'none'}",
        f"metrics        {', '.join(metric.name for metric in info.metrics)}",
        f"server         {info.version}",
    )
    out.write_json(document(info))


def _chat_model(model: ChatModelInfo) -> str:
    return f"{model.name} (unavailable: {model.unavailable})" if model.unavailable else model.name


def judges_table(info: ServerInfo) -> Table:
    """Return a row for each judge and profile; the first profile of a judge is its default."""
    view = new_table("judge", "min_score", "parameters")
    view.columns[-1].justify = "left"
    view.columns[-1].no_wrap = False
    for judge in info.judges:
        view.add_row(
            name_of(judge),
            f"{judge.default_min_score:g}",
            " ".join(f"{p.name}={show_value(p.default)}" for p in judge.parameters) or "-",
        )
    return view


def name_of(judge: JudgeInfo) -> str:
    """Return kind and profile, as `--judge` and `--profile` take them."""
    return f"{judge.kind} {judge.profile}".rstrip()


def show_value(value: Scalar | None) -> str:
    """Return a parameter's value as `--param` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def document(info: ServerInfo) -> dict[str, Any]:
    """Return what the server offers as a JSON document."""
    return {
        "version": info.version,
        "default_judge": info.default_judge,
        "judges": [_judge(judge) for judge in info.judges],
        "models": [asdict(model) for model in info.models],
        "chat_models": [
            {**asdict(model), "unavailable": model.unavailable or None}
            for model in info.chat_models
        ],
        "rubrics": [asdict(rubric) for rubric in info.rubrics],
        "metrics": [
            {**asdict(metric), "matching": [mode.name.lower() for mode in metric.matching]}
            for metric in info.metrics
        ],
    }


def _judge(judge: JudgeInfo) -> dict[str, Any]:
    fields = asdict(judge)
    return {**fields, "unavailable": judge.unavailable or None}
