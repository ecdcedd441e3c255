"""The commands put together, and what a run of one ends with.

What a command does is in its own module; where its options come from when they are not typed, in
`defaults`.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from judged.cli.commands import data
from judged.cli.commands.judging import canary, evaluate, judge, rank, score
from judged.cli.commands.labels import agree, calibrate, frontier, label
from judged.cli.commands.results import ci, compare, metrics, report, texts
from judged.cli.commands.server import demo, doctor, judges, usage
from judged.cli.defaults import (
    FILE_VARIABLE,
    commands_of,
    config_first,
    defaults,
    misspelt_variables,
)
from judged.cli.examples import epilog
from judged.cli.help_text import keep_words_whole
from judged.cli.options.groups import with_groups
from judged.cli.output.writer import say
from judged.cli.problems import Problem, explain
from judged.errors import JudgedError
from judged.evaluation import FileError, MissingText

INTERRUPTED = 128 + 2
"""The exit status after Ctrl-C."""
HUNG_UP = 128 + 13
"""The exit status where who reads the output has gone, as in `| head`: that of SIGPIPE."""


class _Once(TyperCommand):
    """A command that refuses an option of one value that is there twice."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own click
        """Return what is left of the arguments once the options are read."""
        *_, order = self.make_parser(ctx).parse_args(args=list(args))
        single = [each for each in order if each in self.params and not each.multiple]
        options = (each for each in single if each.param_type_name == "option")
        if twice := [each for each in options if single.count(each) > 1]:
            flag = max(twice[0].opts, key=len)
            ctx.fail(f"{flag} is there twice, and takes one value; leave one of them out")
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="judged",
    help="Judge retrieval results and measure them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"judged {metadata.version('judged')}\n")
        raise typer.Exit


@app.callback()
def _whole(
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="TOML file with options of the commands; what is typed counts before JUDGED_* "
            f"variables, these before the file. Without it {FILE_VARIABLE} names one.",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Print it and end."),
    ] = False,
) -> None:
    """Judge retrieval results and measure them."""
    del config, version  # `defaults` reads the one before any command is chosen


canaries = typer.Typer(
    help="Tell when a judge is no longer the one it was.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _add(command: Callable[..., None], name: str, group: typer.Typer = app) -> None:
    word = name.rpartition(" ")[2]
    group.command(word, cls=_Once, epilog=epilog(name))(with_groups(command))


_add(judge.command, "judge")
_add(evaluate.command, "evaluate")
_add(score.command, "score")
_add(metrics.command, "metrics")
_add(texts.command, "texts")
_add(compare.command, "compare")
_add(report.command, "report")
_add(ci.command, "ci")
_add(rank.command, "rank")
_add(agree.command, "agree")
_add(calibrate.command, "calibrate")
_add(label.command, "label")
app.add_typer(canaries, name="canary")
_add(canary.record, "canary record", canaries)
_add(canary.check, "canary check", canaries)
_add(frontier.command, "frontier")
_add(judges.command, "judges")
_add(usage.command, "usage")
_add(doctor.command, "doctor")
_add(demo.command, "demo")
_add(data.convert, "convert")
_add(data.validate, "validate")


def run(arguments: Sequence[str]) -> int:
    """Run a command; return the exit status."""
    if sys.stderr is None:  # closed by the caller: nobody reads remarks
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process
    # A private server must not outlive the command, so these signals unwind instead of killing.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    logging.basicConfig(format="judged: %(message)s", level=logging.WARNING)
    try:
        group = typer.main.get_command(app)
        keep_words_whole(group)
        arguments = config_first(arguments)
        commands = commands_of(group)
        given = defaults(commands, arguments, os.environ)
        for warning in misspelt_variables(commands, os.environ):
            say(f"warning: {warning}")
        group(args=list(arguments), prog_name="judged", default_map=given)
    except SystemExit as left:
        if isinstance(left.__context__, BrokenPipeError):  # typer's own word for it is a plain 1
            return HUNG_UP
        if left.code == INTERRUPTED:
            _say(
                "interrupted; if it asked language models, what they replied is in the server's "
                "cache, if that has one, so that the same command asks for the rest only"
            )
        return left.code if isinstance(left.code, int) else 0
    except JudgedError as error:
        return _fail(explain(error))
    except (Problem, FileError, MissingText) as error:
        return _fail(str(error))
    return 0


def _fail(message: str) -> int:
    _say(message)
    return 2


def _say(message: str) -> None:
    with suppress(BrokenPipeError):  # nobody reads it; the status says enough
        say(" ".join(message.split()))


def _leave(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
