"""Tables that fit a terminal: what is too wide goes on beneath, below the same names.

Nothing is left out. The names of the rows are the leading columns that may fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Column, Table

from judged.report.texts import visible

_GAP = 3
"""Characters between two columns."""


class VisibleTable(Table):
    """A table whose texts move no cursor and colour nothing, whatever ids and names hold."""

    def add_column(self, header: RenderableType = "", *more: Any, **options: Any) -> None:  # noqa: ANN401 - as rich has them
        """Add a column."""
        super().add_column(visible(str(header)), *more, **options)

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:  # noqa: ANN401 - the same
        """Add a row."""
        super().add_row(*(visible(c) if isinstance(c, str) else c for c in cells), **options)


def fitting(view: Table, width: int) -> list[Table]:
    """Return the table as it is where it fits `width` characters, else as several that do.

    Each begins with the names of the rows, which fold where they take more than half of the width,
    as does a column that is too wide alone.
    """
    natural = [_natural(column) for column in view.columns]
    if _taken(natural) <= width:
        return [view]
    n = sum(not column.no_wrap for column in view.columns)
    names = natural[:n]
    if n and _taken(names) > width // 2:
        names = [min(each, max(1, (width // 2 - _GAP * (n - 1)) // n)) for each in names]
    blocks: list[list[int]] = [[]]
    for place in range(n, len(natural)):
        if blocks[-1] and _taken([*names, *(natural[i] for i in (*blocks[-1], place))]) > width:
            blocks.append([])
        blocks[-1].append(place)
    parts = []
    for block in blocks:
        folds = len(block) == 1 and _taken([*names, natural[block[0]]]) > width
        part = copy(view)
        part.columns = [
            replace(column, _index=i, max_width=names[i] if folds else None)
            for i, column in enumerate(view.columns[:n])
        ]
        part.columns += [
            replace(view.columns[place], _index=i, no_wrap=not folds)
            for i, place in enumerate(block, start=n)
        ]
        parts.append(part)
    return parts


def _natural(column: Column) -> int:
    return max(cell_len(str(cell)) for cell in (column.header, *column.cells))


def _taken(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * max(0, len(widths) - 1)
