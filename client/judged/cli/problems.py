"""Why a command can't go on, in words of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from judged import errors

Place = Callable[[str], str | None]
"""Returns what the user knows a field path as; None when it knows no better."""

_FLAGS = (
    (re.compile(r"judge\.kind"), "--judge"),
    (re.compile(r"judge\.profile"), "--profile"),
    (re.compile(r"judge\.min_score"), "--min-score"),
    (re.compile(r"judge\.parameters\[\"(.*)\"\]"), r"--param \1"),
    (re.compile(r"asking\.max_cost"), "--max-cost"),
    (re.compile(r"judge\.members(\[\d+\].*)?"), r"--member\1"),
    (re.compile(r"options\.matching"), "--matching"),
)
_METRIC = re.compile(r"metrics\[(\d+)\]")
_ELEMENT = re.compile(r"\b\w+\[\d+\]")
"""A place in a request that a rule speaks of beside the one that breaks it."""
_SEVERAL = re.compile(r"@\d+[ ,;]")
_CHOICE = re.compile(r"\b(?:IntervalMethod|Matching|NoGold|RatingLevel|Unjudged)\.([A-Z_]+)")
"""A choice as Python calls it. Options take the last part, in small letters."""
_COMMANDS = (("use Evaluate", "use judged evaluate"), ("call ScoreAnswers", "use judged score"))
"""What a rule calls a call, and the command that makes it."""


class Problem(Exception):
    """A command can't go on. The message is one line and says what to do."""


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

        def known_as(field: str) -> str | None:
            return _flag(field, metrics) or (place(field) if place is not None else None)

        known = known_as(error.field.removeprefix("start."))
        if known is not None:
            rule = message.removeprefix(f"{error.field}: ")
            rule = _ELEMENT.sub(lambda found: known_as(found[0]) or found[0], rule)
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


def _flag(field: str, metrics: Sequence[str]) -> str | None:
    metric = _METRIC.fullmatch(field)
    if metric and int(metric[1]) < len(metrics):
        return f"--metric {metrics[int(metric[1])]}"
    for pattern, flag in _FLAGS:
        if match := pattern.fullmatch(field):
            return match.expand(flag)
    return None
