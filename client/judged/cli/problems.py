"""Why a command can't go on, in words of the command line.

Owns the translation of a server's field paths into flags and places the user knows.
"""

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
        field = error.field.removeprefix("start.")
        known = _flag(field, metrics) or (place(field) if place is not None else None)
        if known is not None:
            rule = message.removeprefix(f"{error.field}: ")
            return f"{known}: {rule}"
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
