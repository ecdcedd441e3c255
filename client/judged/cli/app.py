"""Assembles the commands, runs one, and returns its exit status."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from types import FrameType, ModuleType
from typing import NoReturn

import click

from judged._inputs import misspelt_variables
from judged.cli.commands import (
    batch,
    calibrate,
    canary,
    ci,
    data,
    judge,
    labels,
    load,
    metrics,
    score,
    servers,
)
from judged.cli.frame import OnceGroup, click_command, config_option, variables_of
from judged.cli.output import Problem, explain, say
from judged.errors import JudgedError
from judged.evaluation import FileError, MissingText

INTERRUPTED = 128 + 2
"""The exit status after Ctrl-C."""
HUNG_UP = 128 + 13
"""The exit status if the reader of the output has gone, as in `| head`: that of SIGPIPE."""
_COMMANDS = (judge, batch, score, metrics, ci, labels, calibrate, servers, load, data)
_END = "Command"
"""Suffix of the class names of commands, after the command's name."""


def _add(group: click.Group, module: ModuleType) -> None:
    """Add the commands of a module, in source order."""
    for name, kind in vars(module).items():
        if name.endswith(_END) and kind.__module__ == module.__name__:
            group.add_command(click_command(name.removesuffix(_END).lower(), kind))


GROUP = OnceGroup(
    "judged",
    help="Judge retrieval results and measure them.",
    params=[config_option()],
)
click.version_option(metadata.version("judged"), message="judged %(version)s")(GROUP)
for _module in _COMMANDS:
    _add(GROUP, _module)
_CANARY = click.Group("canary", help="Detect that a judge has changed.")
_add(_CANARY, canary)
GROUP.add_command(_CANARY)


def run(arguments: Sequence[str]) -> int:
    """Run a command; return the exit status."""
    if sys.stderr is None:  # closed by the caller
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process
    # A private server must not outlive the command, so this signal unwinds instead of killing.
    signal.signal(signal.SIGTERM, _leave)
    logging.basicConfig(format="judged: %(message)s", level=logging.WARNING)
    for warning in misspelt_variables(os.environ, variables_of(GROUP), "option"):
        say(f"warning: {warning}")
    try:
        status = GROUP.main(list(arguments), prog_name="judged", standalone_mode=False)
    except click.ClickException as left:
        left.show()
        return left.exit_code
    except click.Abort:
        say("interrupted; what language models replied is in the server's cache, if it has one")
        return INTERRUPTED
    # A signal's status, 0 after a shell completion, or click's 1 for a closed pipe.
    except SystemExit as left:
        return left.code if isinstance(left.code, int) and left.code != 1 else HUNG_UP
    except (JudgedError, Problem, FileError, MissingText) as error:
        say(explain(error, {}) if isinstance(error, JudgedError) else str(error))
        return 2
    except OSError as error:
        say(f"{error.filename}: {error.strerror}")
        return 2
    return status or 0  # that of click's Exit, if a command raised it


def _leave(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
