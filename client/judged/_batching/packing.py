"""Consecutive items put together, as many as a message holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def packed(
    items: Iterable[tuple[Item, Sequence[int]]], limits: Sequence[int]
) -> Iterator[list[Item]]:
    """Yield lists of items, none of whose sizes sum up to more than its limit; or one item alone.

    Each item comes with its sizes, one for each limit.
    """
    pack: list[Item] = []
    sums = [0] * len(limits)
    for item, sizes in items:
        sums = [total + size for total, size in zip(sums, sizes, strict=True)]
        if pack and any(total > limit for total, limit in zip(sums, limits, strict=True)):
            yield pack
            pack, sums = [], list(sizes)
        pack.append(item)
    if pack:
        yield pack
