"""The commands put together, and what a run of one ends with."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from judged.cli.commands.calibrate import CalibrateCommand
from judged.cli.commands.canary import CheckCommand, RecordCommand
from judged.cli.commands.ci import CiCommand
from judged.cli.commands.compare import CompareCommand, ReportCommand
from judged.cli.commands.data import ConvertCommand, ValidateCommand
from judged.cli.commands.frontier import FrontierCommand
from judged.cli.commands.judge import EvaluateCommand, JudgeCommand
from judged.cli.commands.labels import AgreeCommand, LabelCommand
from judged.cli.commands.metrics import MetricsCommand, TextsCommand
from judged.cli.commands.score import RankCommand, ScoreCommand
from judged.cli.commands.servers import DemoCommand, DoctorCommand, JudgesCommand, UsageCommand
from judged.cli.frame import Command, click_command, config_option, misspelt_variables
from judged.cli.output import Exit, Problem, explain, say
from judged.errors import JudgedError
from judged.evaluation import FileError, MissingText

INTERRUPTED = 128 + 2
"""The exit status after Ctrl-C."""
HUNG_UP = 128 + 13
"""The exit status where who reads the output has gone, as in `| head`: that of SIGPIPE."""
_CANARIES = (RecordCommand, CheckCommand)
_COMMANDS = (
    JudgeCommand,
    EvaluateCommand,
    ScoreCommand,
    MetricsCommand,
    TextsCommand,
    CompareCommand,
    ReportCommand,
    CiCommand,
    RankCommand,
    AgreeCommand,
    CalibrateCommand,
    LabelCommand,
    FrontierCommand,
    JudgesCommand,
    UsageCommand,
    DoctorCommand,
    DemoCommand,
    ConvertCommand,
    ValidateCommand,
)


class _InOrder(click.Group):
    def list_commands(self, _: click.Context) -> list[str]:
        """Return the commands in the order in which they were added."""
        return list(self.commands)


def _add(group: click.Group, commands: Sequence[type[Command]]) -> click.Group:
    for kind in commands:
        group.add_command(click_command(kind.__name__.removesuffix("Command").lower(), kind))
    return group


GROUP = _InOrder(
    "judged",
    help="Judge retrieval results and measure them.",
    params=[config_option(of_command=False)],
)
click.version_option(metadata.version("judged"), message="judged %(version)s")(GROUP)
_add(GROUP, _COMMANDS)
GROUP.add_command(
    _add(_InOrder("canary", help="Tell when a judge is no longer the one it was."), _CANARIES)
)


def run(arguments: Sequence[str]) -> int:
    """Run a command; return the exit status."""
    if sys.stderr is None:  # closed by the caller: nobody reads remarks
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process
    # A private server must not outlive the command, so these signals unwind instead of killing.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    logging.basicConfig(format="judged: %(message)s", level=logging.WARNING)
    for warning in misspelt_variables(GROUP, os.environ):
        say(f"warning: {warning}")
    try:
        GROUP.main(list(arguments), prog_name="judged", standalone_mode=False)
    except (click.ClickException, Exit) as left:
        if isinstance(left, click.ClickException):
            left.show()
        return left.exit_code
    except click.Abort:
        _say(
            "interrupted; if it asked language models, what they replied is in the server's cache, "
            "if that has one, so that the same command asks for the rest only"
        )
        return INTERRUPTED
    # Of a signal, 0 of a completion, or click's plain 1 where nobody reads any more.
    except SystemExit as left:
        return left.code if isinstance(left.code, int) and left.code != 1 else HUNG_UP
    except (JudgedError, Problem, FileError, MissingText) as error:
        _say(explain(error, {}) if isinstance(error, JudgedError) else str(error))
        return 2
    return 0


def _say(message: str) -> None:
    with suppress(BrokenPipeError):  # nobody reads it; the status says enough
        say(" ".join(message.split()))


def _leave(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
