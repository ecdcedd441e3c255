"""Warnings of commands where a language model would judge its own answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import typer

from judged.cli.output.writer import Output
from judged.evaluation.circular_judging import circular_remarks


def tell_circular(out: Output, systems: Iterable[str], models: Sequence[str]) -> None:
    """Warn where a model of a system is one that judges, or of its family.

    A strict command ends there with 1, before anything is asked.
    """
    for remark in circular_remarks(systems, models):
        out.warn(remark)
        if out.strict:
            out.note("nothing was asked, because of --strict")
            raise typer.Exit(1)
