"""Why a command can't go on, in words of the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

from judged import errors
from judged.cli.field_path import Key, Place, Steps, read_path, replace_paths, write_path

_SEVERAL = re.compile(r"@\d+[ ,;]")
_CHOICE = re.compile(r"\b(?:IntervalMethod|Matching|NoGold|RatingLevel|Unjudged)\.([A-Z_]+)")
"""A choice as Python calls it. Options take the last part, in small letters."""
_COMMANDS = (("use Evaluate", "use judged evaluate"), ("call ScoreAnswers", "use judged score"))
"""What a rule calls a call, and the command that makes it."""


_FLAGS = {
    "judge.kind": "--judge",
    "judge.profile": "--profile",
    "judge.min_score": "--min-score",
    "asking.max_cost": "--max-cost",
    "options.matching": "--matching",
    "options.verdicts.matching": "--matching",
}


class Problem(Exception):
    """A command can't go on. The message is one line and says what to do."""


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return what ends a problem with a name: the known one that is nearest, else `otherwise`."""
    near = get_close_matches(name[:80], list(known), n=1)
    return f"; did you mean {near[0]}?" if near else otherwise


@contextmanager
def explained(metrics: Sequence[str] = (), place: Place | None = None) -> Iterator[None]:
    """Turn the errors of calls into problems that speak of flags, and of places in files."""
    try:
        yield
    except errors.JudgedError as error:
        raise Problem(explain(error, metrics, place)) from error


def explain(
    error: errors.JudgedError, metrics: Sequence[str] = (), place: Place | None = None
) -> str:
    """Return what went wrong as one line. `metrics` are those that were asked for."""
    message = error.message
    if isinstance(error, errors.InvalidArgument) and error.field:

        def known_as(path: Steps) -> str | None:
            return _flag(path, metrics) or (place(path) if place is not None else None)

        known = known_as(read_path(error.field))
        if known is not None:
            rule = message.removeprefix(f"{error.field}: ")
            rule = replace_paths(rule, known_as)
            rule = _CHOICE.sub(lambda found: found[1].lower(), rule)
            for call, command in _COMMANDS:
                rule = rule.replace(call, command)
            several = known.startswith("--metric") and _SEVERAL.search(known)
            return f"{known}: {rule}{'; repeat --metric for each metric' if several else ''}"
    if isinstance(error, errors.NotFound) and error.reason:
        return f"--judge: {message}"
    if isinstance(error, errors.DeadlineExceeded):
        return f"{message}; allow more time with --timeout, or judge less at once"
    if isinstance(error, errors.InternalError) and error.request_id:
        return f"{message} (request id {error.request_id}, for the log of the server)"
    return message


def _flag(path: Steps, metrics: Sequence[str]) -> str | None:
    """Return the flag that sets a field; None for one that no flag sets."""
    match path:
        case ("metrics", int(place)) if place < len(metrics):
            return f"--metric {metrics[place]}"
        case ("judge", "parameters", Key(name)):
            return f"--param {name}"
        case ("judge", "guarantee", *_):
            return "--cascade"
        case ("judge", "members", *rest):
            return f"--member{write_path(tuple(rest))}"
    return _FLAGS.get(write_path(path))
