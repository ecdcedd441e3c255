"""The lines of a file, or of standard input for "-", as JSON objects."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from judged.cli.output.writer import STDOUT
from judged.evaluation.datasets.files import (
    FileError,
    KnownFields,
    Record,
    number_lines,
    number_records,
    read_lines,
)


def name_of(path: str) -> str:
    """Return what messages call a file."""
    return "standard input" if path == STDOUT else path


def input_records(path: str, *known: str) -> Iterator[tuple[int, Record]]:
    """Yield (line number, object) of every line that is not blank. Raises FileError.

    Fields with nearly a `known` name are warned of, where there are any.
    """
    lines = number_lines(sys.stdin.buffer, name_of(path)) if path == STDOUT else read_lines(path)
    fields = KnownFields(*known)
    for number, record in number_records(lines, name_of(path)):
        fields.check(record)
        yield number, record


def check_labelled(name: str, field: str, labels: Iterable[bool | None]) -> None:
    """Raise FileError where no line of a file has a label."""
    if all(label is None for label in labels):
        raise FileError(
            name,
            None,
            f"has no line with {field!r} true or false; label some lines, or name the field that "
            "holds the labels with --label-field",
        )
