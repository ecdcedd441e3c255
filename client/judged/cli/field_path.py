"""The place of a value in a request, as errors name it: `groups[3].retrieved[2]`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias


class Key(NamedTuple):
    """The key of a map, as in `parameters["model"]`; list items are plain integers."""

    name: str


Steps: TypeAlias = tuple[str | int | Key, ...]
"""A path as names of fields, places in lists and keys of maps, in order; () is no path."""

Place = Callable[[Steps], str | None]
"""Returns what the user knows a path as; None when it knows no better."""

_STEP = re.compile(r'(?:^|\.)(?P<name>\w+)|\[(?P<item>\d+)\]|\["(?P<key>.*?)"\](?=[.\[]|$)')
_INDEXED = re.compile(r"\b\w+\[\d+\]")
"""The way into a list that a sentence speaks of."""


def read_path(text: str) -> Steps:
    """Return the steps of a path; () for a text that is none.

    The `start.` of a stream's first message is left out: callers of a command see no streams.
    """
    steps: list[str | int | Key] = []
    end = 0
    for found in _STEP.finditer(text):
        if found.start() != end:
            return ()
        end = found.end()
        if found["item"] is not None:
            steps.append(int(found["item"]))
        else:
            steps.append(found["name"] if found["key"] is None else Key(found["key"]))
    if end != len(text):
        return ()
    return tuple(steps[1:] if steps[:1] == ["start"] and len(steps) > 1 else steps)


def write_path(steps: Steps) -> str:
    """Return the text of a path."""
    text = ""
    for step in steps:
        if isinstance(step, Key):
            text += f'["{step.name}"]'
        elif isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def flag_of(flags: Mapping[str, str]) -> Place:
    """Return what finds the flag that a field of a request was set by, by its path as text."""
    return lambda path: flags.get(write_path(path))


def replace_paths(sentence: str, place: Place) -> str:
    """Return a sentence whose paths into lists are named as the user knows them."""
    return _INDEXED.sub(lambda found: place(read_path(found[0])) or found[0], sentence)
