"""Why a command can't go on, in words of the command line: flags, and places in files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from judged import errors

Places = dict[str, str | Callable[..., str]]
"""What the user knows the fields of a request as, by patterns of their paths.

A text names the groups of its pattern as `re` does, a function takes them.
"""
_FLAGS: Places = {
    r"judge\.(kind|profile)": lambda name: {"kind": "--judge"}.get(name, f"--{name}"),
    r"(?:judge\.)?min_score": "--min-score",
    r'(?:judge|rubrics\[\d+\])\.parameters\["(.*)"\]': r"--param \1",
    r"judge\.guarantee.*": "--cascade",
    r"judge\.members(.*)": r"--member\1",
    r"rubrics\[\d+\]\.min_score": "--min-score",
    r"rubrics\[\d+\]\.weights.*": "--weights",
    r"asking\.max_cost": "--max-cost",
    r"options\.(?:verdicts\.)?matching": "--matching",
    r"(?:options\.)?interval\.(confidence|resamples|seed)": r"--\1",
    r"(?:comparison\.)?(permutations|seed|difference|folds)": r"--\1",
    r"comparison\.max_moved": "--moved",
    r"(max_error|max_share|precision_floor)": lambda name: f"--{name.replace('_', '-')}",
    "max_cost": "--max-item-cost",
    "models": "--member",
    "stages": "--stage",
    "clusters|labels": "LABELS.jsonl",
}
_INDEXED = re.compile(r"\b\w+\[\d+\]")
"""The way into a list that a sentence speaks of."""
_CHOICE = re.compile(r"\b(?:IntervalMethod|Matching|NoGold|RatingLevel|Unjudged)\.([A-Z_]+)")
"""A choice as Python calls it. Options take the last part, in small letters."""
NOT_FOUND = "not found"
"""The key of Places for what is said of a judge, or model, that is not there."""


class Problem(Exception):
    """A command can't go on. The message is one line and says what to do."""


def of_metrics(metrics: Sequence[str]) -> Places:
    """Return what metrics are known as that were asked for."""
    return {r"metrics\[(\d+)\]": lambda place: f"--metric {metrics[int(place)]}"}


@contextmanager
def explained(places: Places | None = None) -> Iterator[None]:
    """Turn the errors of calls into problems that speak of flags, and of places in files."""
    try:
        yield
    except errors.JudgedError as error:
        raise Problem(explain(error, places or {})) from error


def explain(error: errors.JudgedError, places: Places) -> str:
    """Return what went wrong as one line."""
    message = error.message
    if isinstance(error, errors.InvalidArgument) and (known := _known(error.field, places)):
        rule = message.removeprefix(f"{error.field}: ")
        rule = _INDEXED.sub(lambda found: _known(found[0], places) or found[0], rule)
        rule = _CHOICE.sub(lambda found: found[1].lower(), rule)
        return f"{known}: {rule}"
    if isinstance(error, errors.NotFound | errors.FailedPrecondition) and error.reason:
        named = places.get(NOT_FOUND, "")
        flag = named if isinstance(named, str) else named(message)
        if isinstance(error, errors.NotFound):
            flag = "--rubric" if error.reason == "UNKNOWN_RUBRIC" else flag or "--judge"
        return f"{flag}: {message}" if flag else message
    if isinstance(error, errors.DeadlineExceeded):
        return f"{message}; allow more time with --timeout, or judge less at once"
    if isinstance(error, errors.InternalError) and error.request_id:
        return f"{message} (request id {error.request_id}, for the log of the server)"
    return message


def _known(path: str, places: Places) -> str | None:
    """Return what the user knows a field as, None where that is nothing else."""
    path = path.removeprefix("start.")  # callers of a command see no streams
    for pattern, known in (*places.items(), *_FLAGS.items()):
        if found := re.fullmatch(pattern, path):
            return found.expand(known) if isinstance(known, str) else known(*found.groups())
    return None
