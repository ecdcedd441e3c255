"""What a golden set may hold beside texts: spans of files, and what was found of negatives.

Groups, which carry them, are in `types`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judged._inputs import need_each


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a file: from the character `start`, counted from 0, up to, not including, `end`."""

    file: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Spans:
    """The spans that stand for the texts of a group, the retrieved ones best rank first."""

    expected: Sequence[Span] = ()
    retrieved: Sequence[Span] = ()

    def __post_init__(self) -> None:
        for name in ("expected", "retrieved"):
            object.__setattr__(self, name, need_each(getattr(self, name), name, (Span,), "Span"))


@dataclass(frozen=True, slots=True)
class NegativeMatch:
    """A retrieved text that matches a negative reference.

    `retrieved` is its rank, from 0, and `negative` the reference's index in the group's negatives.
    """

    query_id: str
    retrieved: int
    negative: int
    document_id: str
    score: float
