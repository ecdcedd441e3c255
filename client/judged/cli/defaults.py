"""Where an option comes from that nobody typed: the environment, then a file, then its own default.

What an option means is up to its command. A private server reads `JUDGED_*` too: no option has the
name of one of its settings.
"""

from __future__ import annotations

import shlex
import tomllib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from judged.cli.problems import Problem

PREFIX = "JUDGED_"
OTHER_PREFIX = "VERDICT_"
"""What people write for PREFIX."""
FILE_VARIABLE = "JUDGED_CLI_CONFIG"
"""Names the file where no `--config` does; JUDGED_CONFIG names that of a server's settings."""

_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}
_JUDGE, _NO_JUDGE, _NONE, _LLM, _PANEL = "judge", "no_judge", "none", "llm", "panel"
_SCORE, _CALIBRATE, _RUBRIC = "score", "calibrate", "rubric"
_OF_MODELS = ("judge_model", "judge_samples", "judge_temperature", "judge_max_tokens")
_OF_ASKING = ("judge_refresh", "cache_only")
_OF_COSTS = ("estimate", "max_cost")
_OF_JUDGES = ("profile", "param", "member")
_OF_TRACES = ("trace", "trace_texts")

Options = Mapping[str, Any]
"""The options of a command, as click has them, by what is typed: `_` for `-`, none before it."""
Values = dict[str, Any]
Found = tuple[str, Any, str]
"""An option, its value, and where that was said: a variable, or a file with its key."""


def options_of(command: Any) -> Options:  # noqa: ANN401 - click's, or typer's own copy of it
    """Return the options of a command."""
    return {
        max(option.opts, key=len).lstrip("-").replace("-", "_"): option
        for option in command.params
        if option.param_type_name == "option" and option.name != "help"
    }


def commands_of(group: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
    """Return all commands by the words that are typed, as in "canary check"."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            found |= {f"{name} {inner}": each for inner, each in commands_of(command).items()}
        else:
            found[name] = command
    return found


def variable(option: str) -> str:
    """Return the environment variable of an option."""
    return PREFIX + option.upper()


def defaults(
    commands: Mapping[str, Any], arguments: Sequence[str], environ: Mapping[str, str]
) -> dict[str, Values]:
    """Return what the environment and the file say of the command that runs, by its parameters.

    It is click's map of defaults. `arguments` are all that follow the program's name. Raises
    Problem for a file that can't be read, and for a value that its option does not take.
    """
    path, command, rest = _split(arguments)
    if rest and f"{command} {rest[0]}" in commands:
        command, rest = f"{command} {rest[0]}", rest[1:]
    if command not in commands:
        return {}
    known = {name: options_of(each) for name, each in commands.items()}
    options = known[command]
    path = path or environ.get(FILE_VARIABLE) or None
    found = [] if path is None else [*_of_file(path, known, command)]
    found += _of_environment(options, environ)
    given = {name: value for name, value, _ in found}
    sources = {name: source for name, _, source in found}
    typed = _typed(options, rest)
    for name in {*_give_way(command, given, typed)}:
        given.pop(name, None)
    for name in given.keys() - typed.keys():
        _check(options[name], given[name], sources[name])
    mapped: Values = {options[name].name: value for name, value in given.items()}
    for word in reversed(command.split()):
        mapped = {word: mapped}
    return mapped


def config_first(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with `--config`, which may stand behind the command, before it."""
    first: list[str] = []
    others: list[str] = []
    words = deque(arguments)
    while words and words[0] != "--":
        word = words.popleft()
        if word.partition("=")[0] != "--config":
            others.append(word)
            continue
        if first:
            raise Problem("--config is there twice, and takes one file; leave one of them out")
        first.append(word)
        if word == "--config" and words:
            first.append(words.popleft())
    return [*first, *others, *words]


def _split(arguments: Sequence[str]) -> tuple[str | None, str, Sequence[str]]:
    """Return the value of `--config`, which stands before it, the command and what follows it."""
    path, words = None, deque(arguments)
    while words:
        flag, equals, value = words.popleft().partition("=")
        if flag == "--config":
            path = value if equals else words.popleft() if words else None
        elif not flag.startswith("-"):
            return path, flag + equals + value, list(words)
    return path, "", ()


def misspelt_variables(commands: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each JUDGED_* variable that is nearly, but not, that of an option.

    And for each VERDICT_* variable that would be one's under the right prefix. The
    others may be settings of a server, or of programs that have this prefix too.
    """
    known = {name.upper() for each in commands.values() for name in options_of(each)}
    known.add(FILE_VARIABLE.removeprefix(PREFIX))
    for name in sorted(environ):
        own = name.removeprefix(PREFIX)
        if name.startswith(OTHER_PREFIX) and name.removeprefix(OTHER_PREFIX) in known:
            meant = PREFIX + name.removeprefix(OTHER_PREFIX)
            yield f"{name} is not read; did you mean {meant}?"
        if not name.startswith(PREFIX) or own in known:
            continue
        if near := get_close_matches(own, known, n=1, cutoff=0.85):
            yield f"{name} is no option, and is not read; did you mean {PREFIX}{near[0]}?"


def _of_environment(options: Options, environ: Mapping[str, str]) -> Iterator[Found]:
    for name, option in options.items():
        text = environ.get(variable(name), "")
        if text:
            yield name, _from_text(option, text, variable(name)), variable(name)


def _from_text(option: Any, text: str, source: str) -> Any:  # noqa: ANN401 - as click takes it
    if option.multiple:
        try:
            return shlex.split(text)
        except ValueError:
            raise Problem(f"{source}: has a quotation mark without its other half") from None
    if not option.is_flag:
        return text
    if text.lower() not in _TRUE | _FALSE:
        raise Problem(f"{source}: must be true or false, or unset")
    return text.lower() in _TRUE


def _of_file(path: str, known: Mapping[str, Options], command: str) -> Iterator[Found]:
    """Yield what a file says for one command; its table comes last, and so counts."""
    try:
        content = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise Problem(f"--config {path}: can't be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise Problem(f"--config {path}: is not UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Problem(f"--config {path}: is not TOML: {error}") from None
    everywhere = {name: option for options in known.values() for name, option in options.items()}
    tables = dict(_tables(content, known))
    for table in tables:
        if table not in known:
            raise Problem(f"{path}: [{table}] is no command; {_near(table, known)}")
    outside = {name: value for name, value in content.items() if not isinstance(value, dict)}
    for values, options, place in (
        (outside, everywhere, path),
        *((table, known[name], f"{path}: [{name}]") for name, table in tables.items()),
    ):
        mine = place in {path, f"{path}: [{command}]"}
        for key, value in values.items():
            name = key.replace("-", "_")
            if name not in options:
                raise Problem(f"{place}: {key} is no option; {_near(name, options)}")
            read = _from_toml(options[name], value, f"{place}: {key}")
            if mine and name in known[command]:
                yield name, read, f"{place}: {key}"


def _tables(content: Values, known: Mapping[str, Options]) -> Iterator[tuple[str, Values]]:
    """Yield the tables of a file by command; [canary.check] is that of `canary check`."""
    for name, table in content.items():
        if not isinstance(table, dict):
            continue
        inner = {f"{name} {key}": v for key, v in table.items() if isinstance(v, dict)}
        if inner and name not in known:
            yield from inner.items()
        else:
            yield name, table


def _from_toml(option: Any, value: object, source: str) -> Any:  # noqa: ANN401 - as click takes it
    if option.is_flag:
        if isinstance(value, bool):
            return value
        raise Problem(f"{source}: must be true or false")
    listed = value if isinstance(value, list) else [value]
    if any(isinstance(each, bool) or not isinstance(each, str | int | float) for each in listed):
        raise Problem(f"{source}: must be a text or a number")
    texts = [str(each) for each in listed]
    if option.multiple:
        return texts
    if isinstance(value, list):
        raise Problem(f"{source}: must be one value, not a list")
    return texts[0]


def _check(option: Any, value: Any, source: str) -> None:  # noqa: ANN401 - as click takes it
    """Raise Problem, which names the source, for a value that an option does not take.

    Click would name the option, which nobody typed.
    """
    if option.is_flag:
        return
    try:
        option.process_value(None, value)
    except typer.BadParameter as problem:
        rule = problem.message.removeprefix("Value error, ")
        flag = max(option.opts, key=len)
        raise Problem(f"{source}: {flag} does not take {value!r}: {rule}") from None


def _near(name: str, known: Mapping[str, object]) -> str:
    typed = {each.replace("_", "-"): each for each in known}
    near = get_close_matches(name.replace("_", "-"), typed, n=1, cutoff=0.75)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(typed))}"


def _typed(options: Options, arguments: Sequence[str]) -> dict[str, str]:
    """Return the options that were typed; with a value where it was one word of its own or `=`."""
    found: dict[str, str] = {}
    names = {word: name for name, option in options.items() for word in option.opts}
    for place, word in enumerate(arguments):
        flag, equals, value = word.partition("=")
        if flag in names:
            following = arguments[place + 1] if place + 1 < len(arguments) else ""
            found[names[flag]] = value if equals else following
    return found


def _give_way(command: str, given: Values, typed: Mapping[str, str]) -> Iterator[str]:
    """Yield the options whose values from elsewhere do not go with what was typed.

    A flag that is typed beside one that it excludes is a mistake, and its command says so. A
    variable that is set for other runs is none.
    """
    if command == _CALIBRATE and _RUBRIC in typed:  # it takes the place of any judge
        yield from (_JUDGE, _NO_JUDGE, *_OF_JUDGES, *_OF_TRACES)
        return
    judge = typed.get(_JUDGE, given.get(_JUDGE))
    unjudged = _NO_JUDGE in typed or (_JUDGE not in typed and bool(given.get(_NO_JUDGE)))
    if _NO_JUDGE in typed:
        yield _JUDGE
    elif _JUDGE in typed:
        yield _NO_JUDGE
        if judge != given.get(_JUDGE):
            yield from _OF_JUDGES
    elif unjudged or (command == _SCORE and judge != _NONE):
        yield _JUDGE  # answers have one judge, whatever other commands are to ask
    yield from (other for one, other in (_OF_ASKING, _OF_ASKING[::-1]) if one in typed)
    none = unjudged or judge == _NONE
    if command == _CALIBRATE:
        yield from _of_calibrate(judge, none=none)
    if none:
        yield from (*_OF_ASKING, *_OF_COSTS, "profile", "member")
    elif command != _SCORE:
        yield from _of_other_kinds(judge)


def _of_calibrate(judge: str | None, *, none: bool) -> Iterator[str]:
    """Yield what does not go with the judge that is calibrated, or with the scores of the lines."""
    if judge or none:
        yield _RUBRIC
    if none:  # the scores are those of the lines, not those of a trace or a cache
        yield from (*_OF_MODELS, *_OF_TRACES, "param")


def _of_other_kinds(judge: str | None) -> Sequence[str]:
    """Return the options that are of language models, as far as they are not for this judge."""
    if judge == _LLM:
        return ()
    return _OF_MODELS if judge in {_PANEL, "cascade"} else (*_OF_MODELS, *_OF_ASKING)
