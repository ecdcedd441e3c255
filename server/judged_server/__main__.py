"""The command line of the server: serving, and `models`, `cache` and `tenants`.

Every setting is a flag; see `settings`. The base install has this module without what it needs, and
says what to install.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any


def _not_installed(error: ModuleNotFoundError) -> str:
    """Return what to install. Raises the error where a module of our own is missing."""
    if (error.name or "judged").partition(".")[0] in {"judged", "judged_server"}:
        raise error
    return (
        f"judged-server: the server is not installed ({error.name} is missing); run: pip install "
        "'judged[server]'"
    )


# Ctrl-C ends the process at once while it imports: an interrupted import can crash it.
signal.signal(signal.SIGINT, signal.SIG_DFL)
try:
    import resource

    import uvloop
    from judged._inputs import misspelt_variables

    from judged_server import errors, telemetry
    from judged_server.address import AddressError
    from judged_server.commands import cache, models, tenants
    from judged_server.settings import Limits, Settings, SettingsError, load, variables
except ModuleNotFoundError as missing:
    print(_not_installed(missing), file=sys.stderr)
    sys.exit(2)
signal.signal(signal.SIGINT, signal.default_int_handler)

_INTERRUPTED = 128 + 2
"""The exit status after Ctrl-C."""
_HUNG_UP = 128 + 13
"""The exit status where nobody reads the output to its end, as that of SIGPIPE."""
COMMANDS = {
    "cache": cache.manage_cache,
    "tenants": tenants.manage_tenants,
    "models": models.manage_models,
}


class _Parser(argparse.ArgumentParser):
    """Takes an option by its whole name; so do the parsers of commands."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - as those of argparse
        super().__init__(**options, allow_abbrev=False)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser: one flag for each setting, and the models commands."""
    parser: argparse.ArgumentParser = _Parser(
        prog="judged-server",
        usage="judged-server [--setting X ...] [models ACTION ... | cache ACTION ... | "
        "tenants ACTION ...]",
        description="Judge over gRPC. Settings: flag > JUDGED_* > --config file > "
        "default. Without a command it serves.",
    )
    version = f"judged-server {metadata.version('judged')}"
    parser.add_argument("--version", action="version", version=version)
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file with settings")
    # The limits of requests last, though they are fields of a base class.
    for name in sorted(Settings.model_fields, key=Limits.model_fields.__contains__):
        field = Settings.model_fields[name]
        flag = "--" + name.replace("_", "-")
        default = f" (default {field.default})" if field.default not in {None, False, ""} else ""
        text = f"{field.description}{default}".replace("%", "%%")
        if field.annotation is bool:
            parser.add_argument(flag, action="store_const", const="true", dest=name, help=text)
        else:
            parser.add_argument(flag, metavar="X", dest=name, help=text)
    commands = parser.add_subparsers(
        prog="judged-server",
        dest="command",
        metavar="models ... | cache ... | tenants ...",
    )
    cache.add_parser(commands)
    tenants.add_parser(commands)
    models.add_parser(commands)
    return parser


def read_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Return what the command line says.

    Raises SettingsError for a flag that is there twice, of which argparse would take the last, and
    for one that is no setting: argparse would name the word after it.
    """
    parser = build_parser()
    flags = [flag for action in parser._actions for flag in action.option_strings]  # noqa: SLF001 - no public list
    for word in itertools.takewhile(lambda word: word not in COMMANDS, argv):
        flag = word.partition("=")[0]
        if flag.startswith("--") and flag not in flags:
            hint = errors.did_you_mean(flag, flags, "judged-server --help lists them")
            raise SettingsError(f"{flag} is no setting; {hint}")
    given = [word.partition("=")[0] for word in argv if word.startswith("--")]
    for flag in given:
        if given.count(flag) > 1:
            raise SettingsError(f"{flag} is there twice; leave one of them out")
    return parser.parse_args(argv)


def main() -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:]))


def run(argv: list[str]) -> int:
    """Run the command line; return the exit status."""
    try:
        arguments = read_arguments(argv)
        flags = {
            name: value
            for name in Settings.model_fields
            if (value := getattr(arguments, name)) is not None
        }
        settings = load(flags, arguments.config)
        if arguments.command is not None:
            status = COMMANDS[arguments.command](arguments, settings)
            sys.stdout.flush()
            return status
        serve(settings)
    except (SettingsError, AddressError, errors.JudgedError) as error:
        print(f"judged-server: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(_not_installed(error), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # whoever read the output has enough of it, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _HUNG_UP
    return 0


def serve(settings: Settings) -> None:
    """Serve until a signal comes."""
    # Before NumPy is: its small products would wake a second thread for nothing, and the large
    # ones belong to the embedding workers, which have a thread for each core already.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Before gRPC is: by default it writes a line for each TLS handshake that fails, so that
    # strangers could fill the log.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    _write_no_core_dumps()
    _open_closed_streams()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as for the imports above; App sets its own
    # Imported here, so that managing models does not pay for gRPC.
    from judged_server.app import App  # noqa: PLC0415

    telemetry.configure(settings.log_level)
    for warning in misspelt_variables(os.environ, variables(), "setting"):
        telemetry.Logger("settings").warning("misspelt variable", reason=warning)

    async def whole_life() -> None:
        await App(settings).run()

    uvloop.run(whole_life())


def _write_no_core_dumps() -> None:
    """Let a crash write no memory to a disk: it holds keys, and the texts of callers."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _open_closed_streams() -> None:
    """Open /dev/null for standard streams that are closed: libuv aborts if it closes 0, 1 or 2."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
    sys.stderr = sys.stderr or os.fdopen(2, "w")


if __name__ == "__main__":
    main()
