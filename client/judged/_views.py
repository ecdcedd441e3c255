"""Views of results: short reprs, dictionaries, rows of tables."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum, Flag, StrEnum
from reprlib import Repr
from typing import Any, TypeVar, overload

Item = TypeVar("Item")
Row = dict[str, Any]

_SHOWN_CHARACTERS = 60
_LONGEST = 1000
_SCALAR = str | int | float | bool | None


class View:
    """Base of results, which are dataclasses: adds a short repr, `to_dict` and `to_rows`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return short_repr(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a JSON object: texts, numbers, None, lists and dictionaries."""
        return {
            part.name: plain(getattr(self, part.name))
            for part in fields(self)  # type: ignore[arg-type]  # all results are dataclasses
            if part.repr
        }

    def to_rows(self) -> list[Row]:
        """Return the result as rows of a table: dictionaries with the same keys."""
        cells = self.to_dict().items()
        return [{name: value for name, value in cells if isinstance(value, _SCALAR)}]


def row_of(value: object, names: str, **others: object) -> Row:
    """Return a row with the named attributes, with enums as their names, and `others`."""
    cells = {name: getattr(value, name) for name in names.split()}
    named = {name: cell.name if isinstance(cell, Enum) else cell for name, cell in cells.items()}
    return named | others


class _Short(Repr):
    """Shows a few items of long sequences, and only the size of bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring, self.maxother = _SHOWN_CHARACTERS, _LONGEST

    def repr_bytes(self, value: bytes, _: int) -> str:
        return f"<{len(value)} bytes>"


_SHORT = _Short()


def short_repr(value: object) -> str:
    """Return a dataclass in one line, with long values cut."""
    shown = ", ".join(
        f"{part.name}={_SHORT.repr(getattr(value, part.name))}"
        for part in fields(value)  # type: ignore[arg-type]  # all results are dataclasses
        if part.repr
    )
    text = f"{type(value).__name__}({shown})"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…)"


def plain(value: object) -> Any:  # noqa: ANN401, PLR0911 - one case for each JSON type
    """Return a value as JSON types.

    Enums are their names, times are in ISO 8601, NaN and infinities None.
    """
    if isinstance(value, View):
        return value.to_dict()
    if isinstance(value, Flag):
        return [flag.name for flag in value]
    if isinstance(value, Enum):
        return value.value if isinstance(value, StrEnum) else value.name
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, _SCALAR):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: plain(getattr(value, part.name)) for part in fields(value) if part.repr}
    if isinstance(value, Sequence | AbstractSet) and not isinstance(value, bytes):
        return [plain(inner) for inner in value]
    return str(value)


def named_mean(name: str, mean: float | None) -> str:
    """Return a mean as shown in reprs."""
    return f"{name}={'-' if mean is None else format(mean, '.4f')}"


def plural(n: int, one: str, many: str = "") -> str:
    """Return a number with its noun; the default plural `many` is `one` with an s."""
    return f"{n} {word(n, one, many)}"


def of_all(n: int, total: int, one: str, many: str = "") -> str:
    """Return "n of total" with the noun."""
    return f"{n} of {plural(total, one, many)}"


def word(n: int, one: str, many: str = "") -> str:
    """Return the singular or plural of a word for a number."""
    return one if n == 1 else many or f"{one}s"


def aligned(rows: Sequence[Sequence[str]], left: Collection[int], gap: int = 2) -> list[str]:
    """Return rows of cells as lines of text, right-aligned except for the columns in `left`.

    `gap` is the number of spaces between columns; empty columns are left out.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        (" " * gap)
        .join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            if width
        )
        .rstrip()
        for row in rows
    ]


class Listed(Sequence[Item]):
    """A sequence that makes its items on access."""

    __slots__ = ()

    def _item(self, index: int) -> Item:
        """Return the item at an index, from 0."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Item]:
        return map(self._item, range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        # A range implements the rules: ends out of range, steps, and IndexError.
        places = range(len(self))[index]
        if isinstance(places, range):
            return [self._item(place) for place in places]
        return self._item(places)
