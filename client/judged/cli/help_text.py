"""Help of commands whose lines end at blanks alone, so that flags, files and metrics stay whole."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap
from typing import Any

import typer
from typer.core import TyperGroup

_Formatter: Any = typer.Context.formatter_class  # click's, wherever typer keeps it
_AS_IT_IS = "\b"
"""The first line of a paragraph that click does not wrap."""


class HelpText(_Formatter):  # type: ignore[misc]  # typer does not say where the class is
    """Wraps lines before click does, which would break `answer_equivalence` and `--min-score`."""

    def write_text(self, text: str) -> None:
        """Write paragraphs."""
        super().write_text(_wrapped(text, self.width - self.current_indent))

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        """Write options or commands, each beside its help."""
        listed = list(rows)
        column = min(max(len(name) for name, _ in listed), col_max) + col_spacing
        width = max(self.width - column - 2, 10)
        whole = [(name, _wrapped(text, width)) for name, text in listed]
        super().write_dl(whole, col_max, col_spacing)


class _Context(typer.Context):
    formatter_class = HelpText


def keep_words_whole(group: Any) -> None:  # noqa: ANN401 - click's type is not typer's to give
    """Let a group, its commands and the groups in it write their help by HelpText."""
    group.context_class = _Context
    for command in group.commands.values():
        if isinstance(command, TyperGroup):
            keep_words_whole(command)
        command.context_class = _Context


def _wrapped(text: str, width: int) -> str:
    return "\n\n".join(
        part
        if part.startswith(_AS_IT_IS)
        else "\n".join(
            [_AS_IT_IS, *wrap(part, width, break_on_hyphens=False, break_long_words=False)]
        )
        for part in text.split("\n\n")
    )
