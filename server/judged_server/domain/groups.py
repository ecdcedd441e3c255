"""Queries with what was expected and what was retrieved, and what may stand for the texts.

Nobody writes to a value, or to an array in it, after it is made. Groups, which every call makes,
are not frozen: a frozen one takes six times as long to make.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from judged_server.domain.arrays import Float32Array, IntArray, UnsignedArray


@dataclass(frozen=True, slots=True)
class CallerEmbeddings:
    """Vectors the caller sent for one group: float32, shapes (expected, d) and (retrieved, d)."""

    expected: Float32Array
    retrieved: Float32Array


@dataclass(frozen=True, slots=True)
class Spans:
    """Parts of files: int64 `files`, uint64 `starts` and `ends`, all of one length.

    Within a group equal numbers are equal files. An end lies above its start and is not part of
    the span.
    """

    files: IntArray
    starts: UnsignedArray
    ends: UnsignedArray

    def __len__(self) -> int:
        return len(self.files)

    def take(self, places: IntArray) -> Spans:
        """Return the spans at these places, in that order."""
        return Spans(self.files[places], self.starts[places], self.ends[places])


@dataclass(frozen=True, slots=True)
class GroupSpans:
    """The spans that stand for the texts of one group."""

    expected: Spans
    retrieved: Spans


@dataclass(slots=True)
class QueryGroup:
    """One query with expected and retrieved texts: all pairs are contexts, retrieved-major.

    Vectors or spans may stand for the texts. `negatives` are texts that should not have been
    found; their verdicts are no part of the group's. `grades` are those of documents that were
    judged by their ids; `relevant_document_ids` are then those with a grade above 0.
    """

    query_id: str
    query: str
    expected: Sequence[str]
    retrieved: Sequence[str]
    document_ids: Sequence[str] = ()
    relevant_document_ids: Sequence[str] = ()
    embeddings: CallerEmbeddings | None = None
    spans: GroupSpans | None = None
    negatives: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    grades: Mapping[str, int] = field(default_factory=dict)

    @property
    def by_id(self) -> bool:
        """Whether the results are matched by document id, and so not judged."""
        return bool(self.relevant_document_ids or self.grades)

    @property
    def n_expected(self) -> int:
        """The number of expected texts, or of what stands for them."""
        return len((self.embeddings or self.spans or self).expected)

    @property
    def n_retrieved(self) -> int:
        """The number of retrieved texts, or of what stands for them."""
        return len((self.embeddings or self.spans or self).retrieved)

    @property
    def n_contexts(self) -> int:
        """The number of verdicts the group has."""
        if self.embeddings is None and self.spans is None:
            return len(self.expected) * len(self.retrieved)
        return self.n_expected * self.n_retrieved

    @property
    def open_ended(self) -> bool:
        """Whether texts were retrieved, and no text or one blank text says what was expected."""
        if not self.retrieved or self.by_id or any(self.expected):
            return False
        return len(self.expected) <= 1 and self.embeddings is None and self.spans is None

    def at_ranks(self, ranks: Sequence[int]) -> QueryGroup:
        """Return the group with these of its results only, counted from 0, in that order."""
        embeddings, spans = self.embeddings, self.spans
        rows = np.asarray(ranks, np.int64)
        return replace(
            self,
            retrieved=[self.retrieved[rank] for rank in ranks] if self.retrieved else (),
            document_ids=[self.document_ids[rank] for rank in ranks] if self.document_ids else (),
            embeddings=embeddings and replace(embeddings, retrieved=embeddings.retrieved[rows]),
            spans=spans and replace(spans, retrieved=spans.retrieved.take(rows)),
        )
