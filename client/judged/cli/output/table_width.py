"""Tables that fit a terminal: what is too wide goes on beneath, below the same names.

Nothing is left out. The names of the rows are the leading columns that may fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Column, Table

from judged.report.texts import visible

_GAP = 3
"""Characters between two columns."""
_NARROWEST = 16
"""Characters that a column of text keeps where it folds."""


class _Visible(Table):
    """A table whose texts move no cursor and colour nothing, whatever ids and names hold."""

    def add_column(self, header: RenderableType = "", *more: Any, **options: Any) -> None:  # noqa: ANN401 - as rich has them
        """Add a column."""
        super().add_column(visible(str(header)), *more, **options)

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:  # noqa: ANN401 - the same
        """Add a row."""
        super().add_row(*(visible(c) if isinstance(c, str) else c for c in cells), **options)


def result_table() -> Table:
    """Return a table without columns, in the style of all results."""
    return _Visible(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)


def fitting(view: Table, width: int) -> list[Table]:
    """Return the table as it is where it fits `width` characters, else as several that do.

    Each begins with the names of the rows, which fold where they take more than half of the width.
    """
    names = list(takewhile(_folds, view.columns))
    others = view.columns[len(names) :]
    if _taken([_natural(column) for column in view.columns]) <= width:
        return [view]
    held = _held_by_names(names, width)
    blocks: list[list[Column]] = [[]]
    for column in others:
        needed = [*held, *(_needed(one) for one in (*blocks[-1], column))]
        if blocks[-1] and _taken(needed) > width:
            blocks.append([])
        blocks[-1].append(column)
    return [_part(names, held, block, width) for block in blocks]


def _held_by_names(names: Sequence[Column], width: int) -> list[int]:
    natural = [_natural(column) for column in names]
    if not names or _taken(natural) <= width // 2:
        return natural
    most = max(1, (width // 2 - _GAP * (len(names) - 1)) // len(names))
    return [min(each, most) for each in natural]


def _part(
    names: Sequence[Column], held: Sequence[int], block: Sequence[Column], width: int
) -> Table:
    """Return the table of some columns; names fold as far as they have to.

    A lone column that has no room beside the least that names hold folds too.
    """
    view = result_table()
    too_wide = len(block) == 1 and _taken([*held, _natural(block[0])]) > width
    for column, least in zip(names, held, strict=True):
        view.add_column(
            column.header,
            justify=column.justify,
            overflow="fold",
            max_width=least if too_wide else None,
        )
    for column in block:
        view.add_column(
            column.header,
            justify=column.justify,
            overflow="fold",
            no_wrap=column.no_wrap and not too_wide,
        )
    for row in zip(*(column.cells for column in (*names, *block)), strict=True):
        view.add_row(*row)
    return view


def _folds(column: Column) -> bool:
    return not column.no_wrap


def _needed(column: Column) -> int:
    natural = _natural(column)
    return min(natural, _NARROWEST) if _folds(column) else natural


def _natural(column: Column) -> int:
    return max(cell_len(str(cell)) for cell in (column.header, *column.cells))


def _taken(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * max(0, len(widths) - 1)
