"""Results as people and programs read them: short reprs, dictionaries, rows.

Which rows a result has is up to its class.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum, Flag, StrEnum
from reprlib import Repr
from typing import Any, TypeVar, overload

Item = TypeVar("Item")
Row = dict[str, Any]

_SHOWN_CHARACTERS = 60
_LONGEST = 1000
_SCALAR = str | int | float | bool | None


class View:
    """A result that can be looked at and handed on; results are dataclasses that inherit this."""

    __slots__ = ()

    def __repr__(self) -> str:
        return short_repr(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON has it: texts, numbers, None, lists and dictionaries."""
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
    """Return a row with the attributes of these names, enums by theirs, and `others`."""
    cells = {name: getattr(value, name) for name in names.split()}
    named = {name: cell.name if isinstance(cell, Enum) else cell for name, cell in cells.items()}
    return named | others


class _Short(Repr):
    """Shows a few items of what has many, and says of bytes how many there are."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring, self.maxother = _SHOWN_CHARACTERS, _LONGEST

    def repr_bytes(self, value: bytes, _: int) -> str:
        return f"<{len(value)} bytes>"


_SHORT = _Short()


def short_repr(value: object) -> str:
    """Return a dataclass in a line, with the beginning of what is long in it."""
    shown = ", ".join(
        f"{part.name}={_SHORT.repr(getattr(value, part.name))}"
        for part in fields(value)  # type: ignore[arg-type]  # all results are dataclasses
        if part.repr
    )
    text = f"{type(value).__name__}({shown})"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…)"


def plain(value: object) -> Any:  # noqa: ANN401, PLR0911 - what JSON has, a case each
    """Return a value as JSON has it; enums by their names, numbers that are none as None."""
    if isinstance(value, View):
        return value.to_dict()
    if isinstance(value, Flag):
        return [flag.name for flag in value]
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, _SCALAR):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: plain(getattr(value, part.name)) for part in fields(value) if part.repr}
    if isinstance(value, Sequence | AbstractSet) and not isinstance(value, bytes):
        return [plain(inner) for inner in value]
    return str(value)


def named_mean(name: str, mean: float | None) -> str:
    """Return a mean as reprs show it."""
    return f"{name}={'-' if mean is None else format(mean, '.4f')}"


def plural(n: int, one: str, many: str = "") -> str:
    """Return a number with its noun, whose plural ends in s where `many` does not say it."""
    return f"{n} {word(n, one, many)}"


def of_all(n: int, total: int, one: str, many: str = "") -> str:
    """Return how many of all there are, with their noun."""
    return f"{n} of {plural(total, one, many)}"


def word(n: int, one: str, many: str = "") -> str:
    """Return the form of a word that goes with a number."""
    return one if n == 1 else many or f"{one}s"


def aligned(rows: Sequence[Sequence[str]], left: Collection[int]) -> list[str]:
    """Return rows of cells as lines of text; columns are right-aligned but those at `left`."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            if width
        ).rstrip()
        for row in rows
    ]


class Listed(Sequence[Item]):
    """A sequence that makes its items as they are asked for."""

    __slots__ = ()

    def _item(self, index: int) -> Item:
        """Return the item at a place from 0."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Item]:
        return map(self._item, range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        # A range knows the rules: ends that are too large, steps, and IndexError.
        places = range(len(self))[index]
        if isinstance(places, range):
            return [self._item(place) for place in places]
        return self._item(places)
