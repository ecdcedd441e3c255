"""Topics whose documents came in columns: all ids as one text, all values as one array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Self, cast, overload

import numpy as np

from judged_server.domain import FloatArray, IntArray
from judged_server.errors import InvalidField
from judged_server.metrics.input.columnar_ids import SEPARATOR, Lines
from judged_server.metrics.input.rankings import positions_in_groups, take_groups
from judged_server.metrics.input.trec_topics import AnyTopic, Topic


@dataclass(frozen=True, slots=True)
class JoinedTopics(Sequence[Topic]):
    """The topics of qrels or of a run.

    `query_ids` is parallel to the topics of `lines`, `values` to its lines: float64, grades or
    scores. As a sequence it has the topics one by one, each made when it is asked for.
    """

    query_ids: list[str]
    lines: Lines
    values: FloatArray

    @classmethod
    def of(
        cls,
        query_ids: list[str],
        counts: IntArray,
        document_ids: str,
        values: FloatArray | None,
        field: str,
    ) -> Self:
        """Return the topics of columns.

        `counts` is int64[topics], the documents of each; `document_ids` has a line feed between two
        ids, and `values` is float64, one each, or None: then they are the places in the given
        order, descending from 0. Raises InvalidField below `field` for columns that do not fit
        together.
        """
        if len(counts) != len(query_ids):
            rule = f"has {len(counts)} entries for {len(query_ids)} topics"
            raise InvalidField(f"{field}.n_documents", rule)
        n = int(counts.sum())
        lines = Lines.of(document_ids.encode(), counts)
        if lines is None:
            rule = f"must have the {n} ids that n_documents add up to, a line feed between two"
            raise InvalidField(f"{field}.document_ids", rule)
        if values is None:
            values = np.subtract(0.0, positions_in_groups(counts))
        if len(values) != n:
            raise InvalidField(f"{field}.values", f"has {len(values)} entries for {n} documents")
        return cls(query_ids, lines, values)

    def __len__(self) -> int:
        """Return the number of topics."""
        return len(self.query_ids)

    @overload
    def __getitem__(self, at: int) -> Topic: ...
    @overload
    def __getitem__(self, at: slice) -> JoinedTopics: ...
    def __getitem__(self, at: int | slice) -> Topic | JoinedTopics:
        """Return one topic, or those of a slice without steps."""
        offsets = self.lines.offsets
        if isinstance(at, slice):
            begin, end, _ = at.indices(len(self))
            values = self.values[offsets[begin] : offsets[end]]
            return JoinedTopics(self.query_ids[at], self.lines.topics(begin, end), values)
        query_id, values = self.query_ids[at], self.values[offsets[at] : offsets[at + 1]].tolist()
        ids = self.lines.text_of(at).decode().split(SEPARATOR) if values else []
        return Topic(query_id, ids, values)

    def chosen(self, places: Sequence[int | None]) -> JoinedTopics:
        """Return the topics at places in their order; None stands for one without documents."""
        if places == list(range(len(self))):
            return self
        lines, all_counts = self.lines, self.lines.counts.tolist()
        counts = np.array([0 if at is None else all_counts[at] for at in places], np.int64)
        text = b"\n".join([lines.text_of(at) for at in places if at is not None and all_counts[at]])
        rows = np.array([at for at in places if at is not None], np.int64)
        _, flat = take_groups(lines.offsets, rows)
        of_these = cast("Lines", Lines.of(text, counts))  # counts are those of the text's pieces
        ids = ["" if at is None else self.query_ids[at] for at in places]
        return JoinedTopics(ids, of_these, self.values[flat])


def query_ids(topics: Sequence[AnyTopic]) -> list[str]:
    """Return the query ids of topics."""
    if isinstance(topics, JoinedTopics):
        return topics.query_ids
    return list(map(_QUERY_ID, topics))


_QUERY_ID = attrgetter("query_id")
