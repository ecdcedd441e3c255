"""The options of commands that talk to a server: which server, and what is written how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from judged.cli.connection import Access
from judged.cli.options import common
from judged.cli.output.writer import Output


@dataclass(frozen=True, slots=True)
class ServerFlags(Access):
    """Those of every command that talks to a server."""

    json_to: common.Json = None

    def output(self) -> Output:
        """Return where the command writes."""
        return Output(self.json_to)


@dataclass(frozen=True, slots=True)
class ResultFlags(ServerFlags):
    """Those of a command whose result may come with warnings."""

    strict: common.Strict = False

    def output(self) -> Output:
        """Return where the command writes, and whether warnings count."""
        return Output(self.json_to, strict=self.strict)


@dataclass(frozen=True, slots=True)
class JudgingFlags(ResultFlags):
    """Those of a command that judges, which may take long."""

    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Longest that judging may take.", min=1)
    ] = 3600.0
