"""Judgements, read and checked once for all the runs that are ranked under them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.metrics.input.columnar_topics import JoinedTopics, query_ids
from judged_server.metrics.input.rankings import descending, flatten, offsets_of, take_groups
from judged_server.metrics.input.trec_topics import (
    AnyTopic,
    check_judgements,
    check_numbers,
    places_of,
)


@dataclass(frozen=True)
class Qrels:
    """The topics of qrels.

    `row_of` has the place of each topic by its query id, in their order. `grades` is float64 of all
    that was judged, topic by topic between `offsets`, int64[topics + 1]. `field` is the path of the
    topics in what the caller sent.
    """

    topics: Sequence[AnyTopic]
    row_of: Mapping[str, int]
    offsets: IntArray
    grades: FloatArray
    field: str

    @classmethod
    def of(cls, topics: Sequence[AnyTopic], field: str = "trec.qrels") -> Self:
        """Return the qrels of topics.

        Raises InvalidField for a repeated topic, at `field[i].query_id`; a document judged twice,
        at `field[i].document_ids[j]`; columns of different lengths, at `field[i].grades`; and a
        grade that is not finite in single precision, at `field[i].grades[j]`. What came in columns
        has the same paths, but a document judged twice there is found by whoever ranks a run.
        """
        row_of = places_of(query_ids(topics), field)
        if isinstance(topics, JoinedTopics):
            offsets, grades = topics.lines.offsets, topics.values
        else:
            for row, topic in enumerate(topics):
                check_judgements(topic, f"{field}[{row}]")
            offsets, grades = flatten([topic.values for topic in topics])
        check_numbers(grades, topics, field, "grades")
        return cls(topics, row_of, offsets, grades, field)

    def __len__(self) -> int:
        """Return the number of topics."""
        return len(self.row_of)

    def chosen(self, rows: Sequence[int]) -> Qrels:
        """Return the topics at `rows`, ascending."""
        if len(rows) == len(self):
            return self
        topics = self.topics
        of_these: Sequence[AnyTopic]
        if isinstance(topics, JoinedTopics):
            of_these = topics.chosen(rows)
        else:
            of_these = [topics[row] for row in rows]
        ids = list(self.row_of)
        offsets, places = take_groups(self.offsets, np.array(rows, np.int64))
        row_of = {ids[row]: place for place, row in enumerate(rows)}
        return Qrels(of_these, row_of, offsets, self.grades[places], self.field)

    @cached_property
    def ideal(self) -> tuple[IntArray, FloatArray]:
        """int64[topics + 1] offsets, and float64: the grades above 0 of each topic, descending."""
        relevant = self.grades > 0
        offsets = offsets_of(self._count(relevant))
        return offsets, descending(offsets, self.grades[relevant])

    @cached_property
    def n_nonrelevant(self) -> IntArray:
        """int64[topics]: how many documents were judged not relevant."""
        return self._count(self.grades == 0)

    def _count(self, chosen: BoolArray) -> IntArray:
        """Return int64[topics]: how many of each topic's documents are chosen, bool[documents]."""
        topic_of = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        return np.bincount(topic_of[chosen], minlength=len(self))
