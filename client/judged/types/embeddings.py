"""Your own vectors, in place of texts."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from judged._inputs import need_each, need_id, need_list, set_fields
from judged._views import View


@dataclass(frozen=True, slots=True, repr=False)
class Embeddings(View):
    """Your own vectors for a group: float32, little endian, row after row."""

    dimensions: int
    expected: bytes
    retrieved: bytes

    @classmethod
    def from_rows(
        cls, expected: Sequence[Sequence[float]], retrieved: Sequence[Sequence[float]]
    ) -> Embeddings:
        """Return the embeddings of lists of vectors, all of one length."""
        expected, retrieved = _rows(expected, "expected"), _rows(retrieved, "retrieved")
        rows = [*expected, *retrieved]
        dimensions = len(rows[0]) if rows else 0
        if any(len(row) != dimensions for row in rows):
            raise ValueError("all vectors must have the same number of dimensions")
        return cls(dimensions, _pack(expected), _pack(retrieved))

    @property
    def n_expected(self) -> int:
        """The number of expected vectors."""
        return len(self.expected) // (4 * max(1, self.dimensions))

    @property
    def n_retrieved(self) -> int:
        """The number of retrieved vectors."""
        return len(self.retrieved) // (4 * max(1, self.dimensions))


@dataclass(frozen=True, slots=True)
class EmbeddedRanking:
    """One query's vectors, the retrieved ones best rank first."""

    query_id: str
    embeddings: Embeddings

    def __post_init__(self) -> None:
        set_fields(self, query_id=need_id(self.query_id, "query_id"))


@dataclass(frozen=True, slots=True, repr=False)
class EmbeddedRankings(View):
    """Rankings judged by the cosine of your vectors; without a threshold the server's 0.8 holds."""

    rankings: Sequence[EmbeddedRanking]
    min_score: float | None = None

    def __post_init__(self) -> None:
        rankings = need_each(self.rankings, "rankings", (EmbeddedRanking,), "EmbeddedRanking")
        set_fields(self, rankings=rankings)


def _rows(rows: Iterable[Sequence[float]], field: str) -> list[Sequence[float]]:
    listed = need_list(rows, field, "vectors")
    return [
        cast("Sequence[float]", need_list(row, f"{field}[{i}]", "numbers"))
        for i, row in enumerate(listed)
    ]


def _pack(rows: Sequence[Sequence[float]]) -> bytes:
    flat = array("f", (value for row in rows for value in row))
    if flat.itemsize != 4:  # pragma: no cover - C float is four bytes wherever gRPC runs
        raise ValueError("this platform has no 32-bit float")
    if array("h", [1]).tobytes() != b"\x01\x00":  # pragma: no cover - big endian machines
        flat.byteswap()
    return flat.tobytes()
