"""What is to be judged: contexts, and queries with texts, spans of files or vectors."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from judged._inputs import (
    Given,
    as_id,
    as_ids,
    as_list,
    need_grades,
    need_list,
    refuse_set,
    set_fields,
)
from judged._views import View, short_repr


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
        sides = [_rows(expected, "expected"), _rows(retrieved, "retrieved")]
        dimensions = max((len(row) for rows in sides for row in rows), default=0)
        if any(len(row) != dimensions for rows in sides for row in rows):
            raise ValueError("all vectors must have the same number of dimensions")
        return cls(dimensions, *map(_packed, sides))

    @property
    def row_bytes(self) -> int:
        """The bytes of a vector."""
        return 4 * max(1, self.dimensions)


@dataclass(frozen=True, slots=True)
class EmbeddedRanking(Given):
    """One query's vectors, the retrieved ones best rank first."""

    query_id: str
    embeddings: Embeddings


@dataclass(frozen=True, slots=True, repr=False)
class EmbeddedRankings(Given, View):
    """Rankings judged by the cosine of your vectors; without a threshold the server's 0.8 holds."""

    rankings: Sequence[EmbeddedRanking]
    min_score: float | None = None


def _rows(rows: object, field: str) -> list[Sequence[Any]]:
    listed = need_list(rows, field, "vectors")
    return [need_list(row, f"{field}[{i}]", "numbers") for i, row in enumerate(listed)]


def _packed(rows: Sequence[Sequence[float]]) -> bytes:
    values = array("f", chain(*rows))
    if sys.byteorder != "little":  # pragma: no cover - few machines
        values.byteswap()
    return values.tobytes()


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a file: from the character `start`, counted from 0, up to, not including, `end`."""

    file: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Spans(Given):
    """The spans that stand for the texts of a group, the retrieved ones best rank first."""

    expected: Sequence[Span] = ()
    retrieved: Sequence[Span] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """One thing to judge."""

    query: str
    expected_text: str
    retrieved_text: str


_READ_ONCE = {
    "query_id": as_id,
    **dict.fromkeys(("expected", "retrieved", "negatives"), as_list),
    **dict.fromkeys(("document_ids", "relevant_document_ids"), as_ids),
}


@dataclass(frozen=True, slots=True, repr=False)
class QueryGroup:
    """One query with expected and retrieved texts: every pair of them is a context.

    Verdicts come retrieved-major: all expected texts for retrieved[0], then for retrieved[1].
    `document_ids` names the retrieved documents; `relevant_document_ids` makes `evaluate` match
    by id instead of judging; ids are text or whole numbers, compared as text. Embeddings or spans
    may stand for the texts. Without `expected` a judge whose rubric shows no expected text judges
    each retrieved text by itself. `negatives` are texts that should not be found, on which
    `evaluate` reports. `grades` of documents by their ids, 0 for those judged not relevant, say
    more than `relevant_document_ids`, which are then those above 0.
    """

    query: str = ""
    expected: Sequence[str] = ()
    retrieved: Sequence[str] = ()
    query_id: str = ""
    document_ids: Sequence[str] = ()
    relevant_document_ids: Sequence[str] = ()
    embeddings: Embeddings | None = None
    spans: Spans | None = None
    negatives: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    grades: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("retrieved", "document_ids"):
            refuse_set(getattr(self, name), name)
        for name, read in _READ_ONCE.items():
            given = getattr(self, name)
            if (read_once := read(given)) is not given:
                object.__setattr__(self, name, read_once)
        if self.grades:
            relevant, grades = need_grades(self.relevant_document_ids, self.grades)
            set_fields(self, relevant_document_ids=relevant, grades=grades)

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def by_id(self) -> bool:
        """Whether results are matched by document id, and not judged."""
        return bool(self.relevant_document_ids or self.grades)

    @property
    def n_expected(self) -> int:
        """The number of expected texts, or of what stands for them."""
        return self._count("expected")

    @property
    def open_ended(self) -> bool:
        """Whether texts were retrieved, and no text or one blank text says what was expected."""
        if not self.retrieved or self.by_id or any(self.expected):
            return False
        return len(self.expected) <= 1 and self.embeddings is None and self.spans is None

    @property
    def n_retrieved(self) -> int:
        """The number of retrieved texts, or of what stands for them."""
        return self._count("retrieved")

    def _count(self, side: str) -> int:
        if texts := getattr(self, side):
            return len(texts)
        if self.spans is not None:
            return len(getattr(self.spans, side))
        vectors = self.embeddings
        return 0 if vectors is None else len(getattr(vectors, side)) // vectors.row_bytes
