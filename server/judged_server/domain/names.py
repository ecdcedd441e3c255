"""Names and ids of a request that must not repeat."""

from __future__ import annotations

from collections.abc import Sequence

from judged_server.errors import InvalidField, LimitExceeded


def check_unique(names: Sequence[str], field: str) -> None:
    """Raise InvalidField at `field.format(i)` when name i was there before."""
    places: dict[str, int] = {}
    for i, name in enumerate(names):
        first = places.setdefault(name, i)
        if first != i:
            raise InvalidField(field.format(i), f"is that of {field.format(first)} again")


def check_names(names: Sequence[str], what: str, most: int, field: str, leaf: str = "") -> None:
    """Raise InvalidField for fewer than two names, and at `field[i]leaf` for one empty or repeated.

    Raises LimitExceeded for more than `most`; `what` says what has the names.
    """
    if len(names) < 2:
        raise InvalidField(field, f"must hold at least two {what}")
    if len(names) > most:
        raise LimitExceeded(field, what, most, len(names))
    if "" in names:
        raise InvalidField(f"{field}[{list(names).index('')}]{leaf}", "must not be empty")
    check_unique(names, f"{field}[{{}}]{leaf}")
