"""Commands as dataclasses: a field is an option, a base class the options that several share.

Click reads options from the command line, else from JUDGED_* variables, else from the file of
`--config`, and runs what they make.
"""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, cast, dataclass_transform, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource

from judged._files import FileWarning
from judged.cli.output import Output, Places, Problem, check_files

PREFIX = "JUDGED"
FILE_VARIABLE = "JUDGED_CLI_CONFIG"
"""Names the file where no `--config` does; JUDGED_CONFIG names that of a server's settings."""
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
    """Return a field that is an option; `reads` and `writes` say what it does to the file it names.

    Its flag is its name; its type says what it takes.
    """
    told = {"metavar": metavar, "help": text, "low": low, "high": high, **how}
    return field(default=default, metadata=told)


def flag(text: str) -> Any:  # noqa: ANN401 - a bool
    """Return a field that is an option without a value."""
    return opt(None, text, False)


def many(metavar: str, text: str, **how: bool) -> Any:  # noqa: ANN401 - a list of any type
    """Return a field that is an option which may be repeated."""
    return opt(metavar, text, (), **how)


def arg(metavar: str, text: str, *, reads: bool = True) -> Any:  # noqa: ANN401 - a text, or some
    """Return a field that is an argument, which must be given: a file that is read, by default."""
    return field(metadata={"metavar": metavar, "help": text, "reads": reads})


@dataclass_transform(kw_only_default=True)
class Dataclass:
    """What inherits from this is a dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(kw_only=True)(cls)


class Command(Dataclass):
    """One run of a command.

    `typed` has the options that were on the command line, with what the environment or the file say
    of them.
    """

    json: str | None = opt(
        "FILE|-",
        "Write the result as one JSON document; - prints it instead of the usual output.",
        writes=True,
    )
    typed: Mapping[str, object] = field(default_factory=dict, init=False)

    def settle(self) -> None:
        """Refuse options that exclude each other. Raises Problem."""

    def run(self, out: Output) -> Document | None:
        """Do it; return the JSON document."""
        raise NotImplementedError

    def leave_out(self, names: str, why: str = "") -> None:
        """Raise Problem for the first of these options that was typed, if there is a `why`.

        A flag that is typed beside one that it excludes is a mistake. A variable that is set for
        other runs is none: it is left out.
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
        """Whether a trace is read in place of a judge."""
        return False

    def places(self) -> Places:
        """Return what the fields of a request are known as: by what was typed."""
        return {}

    def options(self, kind: Callable[..., Value], **others: object) -> Value:
        """Return options of a call: the fields that this command has too, then `others`.

        What is None has its default.
        """
        own = {each.name: getattr(self, each.name, None) for each in fields(cast(Any, kind))}
        return kind(**{name: each for name, each in (own | others).items() if each is not None})

    def check_files(self) -> None:
        """Raise Problem where a file can't be written, or is to be that of another option too."""
        reads: dict[str, str] = {}
        writes: list[tuple[str, str]] = []
        for each in fields(self):
            how, value = each.metadata, getattr(self, each.name)
            name = flag_of(each.name) if "low" in how else how.get("metavar", "")
            for path in filter(None, value if isinstance(value, tuple) else [value]):
                if how.get("reads") or (each.name == "trace" and self.replays):
                    reads[path] = name
                elif how.get("writes"):
                    writes.append((name, path))
        check_files(reads, writes)


class Strict(Command):
    """A command whose result may come with warnings."""

    strict: bool = flag("Exit with 1 when there is a warning.")


def flag_of(name: str) -> str:
    """Return the flag of a field."""
    return f"--{name.rstrip('_').replace('_', '-')}"


def click_command(name: str, kind: type[Command]) -> click.Command:
    """Return a command of click that makes and runs one of ours."""
    text, _, examples = (kind.__doc__ or "").partition(_EXAMPLES)
    lines = [f"  {line.strip()}" for line in examples.strip().splitlines()]

    @click.pass_context
    def run(context: click.Context, /, **given: Any) -> None:  # noqa: ANN401 - of any option
        try:
            _run(context, kind, given)
        except KeyboardInterrupt:  # click's own way writes an empty line
            raise click.Abort from None

    return _Click(
        name,
        callback=run,
        params=[*_parameters(kind), config_option(of_command=True)],
        help="\n\n".join(" ".join(part.split()) for part in text.split("\n\n")),
        epilog="\n".join(["\b", "Examples:", *lines]),
    )


class _Click(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options; refuse one of one value that is there twice."""
        *_, order = self.make_parser(ctx).parse_args(args=list(args))
        for each in order:
            if isinstance(each, click.Option) and not each.multiple and order.count(each) > 1:
                name = max(each.opts, key=len)
                ctx.fail(f"{name} is there twice, and takes one value; leave one of them out")
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as wrong:
            named = wrong.param or click.Option(["--config"])
            source = ctx.get_parameter_source(named.name or "")
            if source is ParameterSource.ENVIRONMENT:
                raise Problem(f"{named.envvar}: {wrong.format_message()}") from None
            if source is ParameterSource.DEFAULT_MAP:
                raise Problem(f"{ctx.meta[FILE_VARIABLE]}: {wrong.format_message()}") from None
            raise


def made(context: click.Context, kind: type[Command], given: dict[str, Any]) -> Command:
    """Return a command with the options that click found, those left out that do not go together.

    Raises Problem.
    """
    command = kind(**given)
    of_file = context.default_map or {}
    command.typed = {
        name: each.resolve_envvar_value(context) or of_file.get(name)
        for each in context.command.params
        if (name := each.name or "")
        and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    command.settle()
    return command


def _run(context: click.Context, kind: type[Command], given: dict[str, Any]) -> None:
    command = made(context, kind, given)
    command.check_files()
    out = Output(command.json, strict=isinstance(command, Strict) and command.strict)
    with _telling(out):
        document = command.run(out)
    if document is not None:
        gates = {"gates": [each.to_dict() for each in out.gates]} if out.gates else {}
        told = {"warnings": out.warnings} if isinstance(command, Strict) else {}
        out.write_json({**document, **gates, **told})
    out.finish()


@contextmanager
def _telling(out: Output) -> Iterator[None]:
    """Tell warnings about files as those of the command, each once: a file may be read twice."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def tell(message: Warning | str, category: type[Warning], *place: Any) -> None:  # noqa: ANN401
            if not issubclass(category, FileWarning):
                show(message, category, *place)
            elif str(message) not in out.warnings:
                out.warn(str(message))

        warnings.simplefilter("always", FileWarning)
        warnings.showwarning = tell  # type: ignore[assignment]  # it takes the rest as it comes
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
    """Return all commands by the words that are typed, as in "canary check"."""
    if not isinstance(command, click.Group):
        return {words: command}
    found: dict[str, click.Command] = {}
    for name, inner in command.commands.items():
        found |= commands_of(inner, f"{words} {name}".lstrip())
    return found


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by their names."""
    options = (each for each in command.params if isinstance(each, click.Option))
    return {(each.name or "").rstrip("_"): each for each in options if each.expose_value}


def variables_of(group: click.Group) -> set[str]:
    """Return the variables that the command reads."""
    options = {name for command in commands_of(group).values() for name in options_of(command)}
    return {f"{PREFIX}_{name.upper()}" for name in options} | {FILE_VARIABLE}


def config_option(*, of_command: bool) -> click.Option:
    """Return `--config`, which may stand before the command or behind it."""
    return click.Option(
        ["--config"],
        metavar="FILE",
        help="TOML file with options of the commands; what is typed counts before JUDGED_* "
        f"variables, these before the file. Without it {FILE_VARIABLE} names one.",
        hidden=of_command,
        expose_value=not of_command,
        is_eager=True,
        envvar=FILE_VARIABLE if of_command else None,
        callback=_read_config if of_command else None,
    )


def _read_config(context: click.Context, _: click.Parameter, path: str | None) -> None:
    """Make the file's options the defaults of a command. Raises Problem."""
    before = context.find_root().params.get("config")
    typed = context.get_parameter_source("config") is ParameterSource.COMMANDLINE
    if before and typed:
        raise Problem("--config is there twice, and takes one file; leave one of them out")
    if path := before or path:
        context.meta[FILE_VARIABLE] = path
        context.default_map = dict(_of_file(path, context))


def _of_file(path: str, context: click.Context) -> Iterator[tuple[str, object]]:
    """Yield what a file says for one command; its table comes last, and so counts."""
    try:
        content = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise Problem(f"--config {path}: can't be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise Problem(f"--config {path}: is not TOML: {error}") from None
    commands = commands_of(context.find_root().command)
    known = {name: options_of(each) for name, each in commands.items()}
    everywhere = {name: each for options in known.values() for name, each in options.items()}
    mine = context.command_path.partition(" ")[2]
    for table, values in _tables(content):
        if table and table not in known:
            raise Problem(f"{path}: [{table}] is no command; {_near(table, known)}")
        options, place = known.get(table, everywhere), f"{path}: [{table}]" if table else path
        for key, value in values.items():
            name = key.replace("-", "_")
            if name not in options:
                raise Problem(f"{place}: {key} is no option; {_near(name, options)}")
            read = _of_toml(options[name], value, f"{place}: {key}")
            if table in ("", mine) and name in known[mine]:
                yield options[name].name or "", read


def _tables(content: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tables of a file by command, what is outside first, [canary.check] by two words."""
    values = {key: each for key, each in content.items() if not isinstance(each, dict)}
    if values or not content:
        yield name, values
    for key, each in content.items():
        if key not in values:
            yield from _tables(each, f"{name} {key}".lstrip())


def _of_toml(option: click.Option, value: object, source: str) -> object:
    """Return a value as click takes it. Raises Problem for one of another type."""
    listed = value if isinstance(value, list) else [value]
    kinds = {bool} if option.is_flag else {str, int, float}
    if not kinds.issuperset(map(type, listed)):
        wanted = "true or false" if option.is_flag else "a text or a number"
        raise Problem(f"{source}: must be {wanted}")
    if isinstance(value, list) and not option.multiple:
        raise Problem(f"{source}: must be one value, not a list")
    return [str(each) for each in listed] if option.multiple else str(value)


def _near(name: str, known: Iterable[str]) -> str:
    typed = sorted(each.replace("_", "-") for each in known)
    near = get_close_matches(name.replace("_", "-"), typed, n=1, cutoff=0.75)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(typed)}"
