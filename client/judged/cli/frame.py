"""Commands as dataclasses: fields are options, base classes are options that several share.

Click reads options from the command line, else from JUDGED_* variables, else from the file of
`--config`, and runs the command.
"""

from __future__ import annotations

import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, cast, dataclass_transform, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource

from judged.cli.output import Output, Places, Problem, check_writable

PREFIX = "JUDGED"
FILE_VARIABLE = "JUDGED_CLI_CONFIG"
"""Variable for `--config`; JUDGED_CONFIG names the file of a server's settings."""
Document = dict[str, Any]
Value = TypeVar("Value")
_SHORT = {"metric": ["-m"], "number": ["-n"], "output": ["-o"]}
_EXAMPLES = "Examples:\n"


def opt(
    metavar: str | None,
    text: str,
    default: object = None,
    *,
    low: float | None = None,
    high: float | None = None,
    **how: bool,
) -> Any:  # noqa: ANN401 - a field of any type
    """Return a field that is an option; `reads` and `writes` say how it uses the file it names.

    The flag is the field's name, the type of its value the field's type.
    """
    metadata = {"metavar": metavar, "help": text, "low": low, "high": high, **how}
    return field(default=default, metadata=metadata)


def flag(text: str) -> Any:  # noqa: ANN401 - a bool
    """Return a field that is an option without a value."""
    return opt(None, text, False)


def many(metavar: str, text: str, **how: bool) -> Any:  # noqa: ANN401 - a list of any type
    """Return a field that is a repeatable option."""
    return opt(metavar, text, (), **how)


def arg(metavar: str, text: str, *, reads: bool = True) -> Any:  # noqa: ANN401 - a text, or some
    """Return a field that is a required argument; by default, it names a file to read."""
    return field(metadata={"metavar": metavar, "help": text, "reads": reads})


@dataclass_transform(kw_only_default=True)
@dataclass(kw_only=True)
class Command:
    """One run of a command; each subclass is a dataclass.

    `typed` has the names of the options on the command line.
    """

    json: str | None = opt(
        "FILE|-",
        "Write the result as JSON; - prints it in place of the usual output.",
        writes=True,
    )
    typed: set[str] = field(default_factory=set, init=False)

    def __init_subclass__(cls) -> None:
        dataclass(kw_only=True)(cls)

    def settle(self) -> None:
        """Refuse options that exclude each other. Raises Problem."""

    def run(self, out: Output) -> Document | None:
        """Run the command; return the JSON document."""
        raise NotImplementedError

    def leave_out(self, names: str, why: str = "") -> None:
        """Raise Problem for the first of these options that was typed, if there is a `why`.

        An excluded option on the command line is a mistake. One from a variable is not, since that
        is set for other runs too: it is reset to its default.
        """
        defaults = {each.name: each.default for each in fields(self)}
        for name in names.split():
            if getattr(self, name, None) in (None, False, ()):
                continue
            if name not in self.typed:
                setattr(self, name, defaults[name])
            elif why:
                raise Problem(f"{flag_of(name)}: {why}")

    @property
    def replays(self) -> bool:
        """Whether a trace replaces the judge."""
        return False

    def places(self) -> Places:
        """Return the names of request fields in messages: the options of the same names."""
        return {
            rf"(?:\w+\.|rubrics\[\d+\]\.)*{each.name.rstrip('_')}": flag_of(each.name)
            for each in fields(self)
            if "low" in each.metadata
        }

    def options(self, kind: Callable[..., Value], **others: object) -> Value:
        """Return options of a call: the fields that this command has too, then `others`.

        None means the default.
        """
        own = {each.name: getattr(self, each.name, None) for each in fields(cast(Any, kind))}
        return kind(**{name: each for name, each in (own | others).items() if each is not None})

    def check_files(self) -> None:
        """Raise Problem if an output can't be written, or is also an input."""
        taken = set()
        for each in sorted(fields(self), key=lambda each: bool(each.metadata.get("writes"))):
            value, how = getattr(self, each.name), each.metadata
            for path in filter(None, value if isinstance(value, tuple) else [value]):
                if how.get("reads") and Path(path).is_file():
                    taken.add(Path(path).resolve())
                elif how.get("writes") and not (each.name == "trace" and self.replays):
                    check_writable(flag_of(each.name), path)
                    if Path(path).resolve() in taken:
                        raise Problem(f"{flag_of(each.name)} {path}: is read too; name another one")


class Strict(Command):
    """A command whose result may come with warnings."""

    strict: bool = flag("Exit with 1 when there is a warning.")


def flag_of(name: str) -> str:
    """Return the flag of a field."""
    return f"--{name.rstrip('_').replace('_', '-')}"


class Once(click.Command):
    """A command that refuses a repeated option unless it takes several values."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. Raises UsageError."""
        *_, order = self.make_parser(ctx).parse_args(list(args))
        for option, n in Counter(order).items():
            if isinstance(option, click.Option) and n > 1 and not option.multiple:
                raise click.UsageError(f"{option.opts[0]} is there twice; leave one out", ctx)
        return super().parse_args(ctx, args)


class OnceGroup(Once, click.Group):
    """A group of commands that does the same."""


def click_command(name: str, kind: type[Command]) -> click.Command:
    """Return a click command that makes and runs a Command."""
    text, _, examples = (kind.__doc__ or "").partition(_EXAMPLES)
    lines = [f"  {line.strip()}" for line in examples.strip().splitlines()]

    @click.pass_context
    def run(context: click.Context, /, **given: Any) -> None:  # noqa: ANN401 - of any option
        _run(context, kind, given)

    return Once(
        name,
        callback=run,
        params=list(_parameters(kind)),
        help="\n\n".join(" ".join(part.split()) for part in text.split("\n\n")),
        epilog="\n".join(["\b", "Examples:", *lines]),
    )


def made(context: click.Context, kind: type[Command], given: dict[str, Any]) -> Command:
    """Return a command with the options that click parsed, after `settle`. Raises Problem."""
    command = kind(**given)
    command.typed = {
        name for name in given if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    command.settle()
    return command


def _run(context: click.Context, kind: type[Command], given: dict[str, Any]) -> None:
    command = made(context, kind, given)
    command.check_files()
    out = Output(command.json, strict=isinstance(command, Strict) and command.strict)
    with _warning(out):
        document = command.run(out)
    if document is not None:
        gates = {"gates": [each.to_dict() for each in out.gates]} if out.gates else {}
        warned = {"warnings": out.warnings} if isinstance(command, Strict) else {}
        out.write_json({**document, **gates, **warned})
    out.finish()


@contextmanager
def _warning(out: Output) -> Iterator[None]:
    """Show Python's warnings as the command's, each once: a file may be read twice."""
    with warnings.catch_warnings():

        def show(message: Warning | str, *_: object) -> None:
            if str(message) not in out.warnings:
                out.warn(str(message))

        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show  # type: ignore[assignment]  # other arguments are ignored
        yield


def _parameters(kind: type[Command]) -> Iterator[click.Parameter]:
    """Yield the options of a command: its own, then those of its base classes."""
    types = get_type_hints(kind)
    known = {each.name: each for each in fields(kind) if each.metadata}
    for base in kind.__mro__:
        for name in vars(base).get("__annotations__", {}):
            if (found := known.pop(name, None)) is not None:
                yield _parameter(name, types[name], found.metadata, found.default)


def _parameter(name: str, of: Any, how: Mapping[str, Any], default: object) -> click.Parameter:  # noqa: ANN401 - a type
    inner = [each for each in get_args(of) if each is not NoneType]
    several, taken = get_origin(of) is Sequence, inner[0] if inner else of
    common: dict[str, Any] = {"metavar": how["metavar"], "help": how["help"]}
    if "low" not in how:
        return click.Argument([name], nargs=-1 if several else 1, required=True, **common)
    if issubclass(taken, Enum):
        default = default.name.lower() if isinstance(default, Enum) else default
        taken = click.Choice(taken, case_sensitive=False)
    elif how["low"] is not None or how["high"] is not None:
        ranges = {int: click.IntRange, float: click.FloatRange}
        taken = ranges[taken](how["low"], how["high"])
    if how.get("required"):
        common["required"] = True
    else:
        common |= {"default": default, "show_default": default not in (None, False, ())}
    return click.Option(
        [name, flag_of(name), *_SHORT.get(name, ())],
        type=taken,
        multiple=several,
        is_flag=taken is bool,
        envvar=f"{PREFIX}_{name.rstrip('_').upper()}",
        **common,
    )


def commands_of(command: click.Command, words: str = "") -> dict[str, click.Command]:
    """Return all commands by their words on the command line, as in "canary check"."""
    if not isinstance(command, click.Group):
        return {words: command}
    found: dict[str, click.Command] = {}
    for name, inner in command.commands.items():
        found |= commands_of(inner, f"{words} {name}".lstrip())
    return found


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by their names."""
    options = (each for each in command.params if isinstance(each, click.Option))
    return {(each.name or "").rstrip("_"): each for each in options}


def variables_of(group: click.Group) -> set[str]:
    """Return the names of the variables that the commands read."""
    options = {name for command in commands_of(group).values() for name in options_of(command)}
    return {f"{PREFIX}_{name.upper()}" for name in options} | {FILE_VARIABLE}


def config_option() -> click.Option:
    """Return the option `--config`, which precedes the command."""
    return click.Option(
        ["--config"],
        metavar="FILE",
        help="TOML file with options of the commands, below JUDGED_* variables; "
        f"{FILE_VARIABLE} names one too.",
        envvar=FILE_VARIABLE,
        callback=_read_config,
    )


def _read_config(context: click.Context, _: click.Parameter, path: str | None) -> str | None:
    """Make the file's options the defaults of the commands. Raises Problem."""
    if path is None:
        return None
    try:
        content = tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Problem(f"--config {path}: can't be read as TOML: {error}") from None
    known = {name: options_of(each) for name, each in commands_of(context.command).items()}
    known[""] = {name: each for options in known.values() for name, each in options.items()}
    tables: dict[str, dict[str, Any]] = {name: {} for name in known}
    for table, key, value in _values(content):
        name, place = key.replace("-", "_"), f"{path}: [{table}]" if table else path
        if name not in known.get(table, ()):
            raise Problem(f"{place}: {key} is no option; see --help")
        option = known[table][name]
        given = value if isinstance(value, list) else [value]
        if not option.multiple and isinstance(value, list):
            raise Problem(f"{place}: {key} takes one value, not a list")
        read = [str(each) for each in given]
        tables[table][option.name or ""] = read if option.multiple else read[0]
    context.default_map = {}
    for command, values in tables.items():
        inner = context.default_map
        for name in command.split():
            inner = inner.setdefault(name, {})
        inner |= tables[""] | values if command else {}
    return path


def _values(content: Mapping[str, Any], table: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield the values of a file with their tables, [canary.check] as "canary check"."""
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _values(value, f"{table} {key}".lstrip())
        else:
            yield table, key, value
