"""Judgements, read and checked once for all the runs that are ranked under them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.metrics.input.columnar_topics import ColumnarTopics, query_ids
from judged_server.metrics.input.rankings import (
    Pool,
    Rankings,
    descending,
    flatten,
    offsets_of,
    take_groups,
)
from judged_server.metrics.input.trec_topics import (
    AnyTopic,
    check_judgements,
    check_numbers,
    places_of,
)
from judged_server.metrics.measures.names import Measure


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
        if isinstance(topics, ColumnarTopics):
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
        if isinstance(topics, ColumnarTopics):
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


def unjudged_mask(rankings: Rankings) -> BoolArray:
    """Return bool[documents]: the retrieved documents that are not in the qrels."""
    mask: BoolArray = ~(rankings.pool.judged | rankings.pool.unsampled)
    return mask


def condensed(rankings: Rankings) -> Rankings:
    """Return the rankings without unjudged documents; what is below them moves up.

    Sakai (2007), "Alternatives to Bpref".
    """
    kept, pool = ~unjudged_mask(rankings), rankings.pool
    query = np.repeat(np.arange(rankings.n_queries), rankings.n_retrieved)
    return replace(
        rankings,
        offsets=offsets_of(np.bincount(query[kept], minlength=rankings.n_queries)),
        gains=rankings.gains[kept],
        known_pool=Pool(pool.judged[kept], pool.unsampled[kept], pool.n_nonrelevant),
    )


@dataclass(frozen=True, slots=True)
class Extremes:
    """Rankings under which a metric is smallest or largest, whatever the unjudged documents are."""

    cases: tuple[Rankings, ...]

    def bounds(self, measure: Measure, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and the highest value of each query; `values` are those as it is."""
        tried = np.stack([values, *(measure.values(case) for case in self.cases)])
        return np.clip(tried.min(axis=0), 0.0, 1.0), np.clip(tried.max(axis=0), 0.0, 1.0)


def extremes(rankings: Rankings) -> Extremes:
    """Return the rankings that bound what judgements of unjudged documents could do.

    Such a document has, where it is relevant, the largest grade of its topic, 1 if it has none.
    """
    unjudged = unjudged_mask(rankings)
    query = np.repeat(np.arange(rankings.n_queries), rankings.n_retrieved)[unjudged]
    added = np.bincount(query, minlength=rankings.n_queries).astype(np.int64)
    gain = np.where(rankings.top_gain > 0, rankings.top_gain, 1.0)
    gains = rankings.gains.copy()
    gains[unjudged] = gain[query]
    more = _with_ideal(rankings, query, gain[query])
    # Where nothing is known to be relevant, one document has to be there for the rest to count.
    one = np.flatnonzero((added > 0) & (rankings.n_relevant == 0))
    found = replace(_with_ideal(rankings, one, gain[one]), gains=gains)
    pool = rankings.pool
    full = Pool(pool.judged | unjudged, pool.unsampled, pool.n_nonrelevant)
    none = replace(full, n_nonrelevant=pool.n_nonrelevant + added)
    return Extremes(
        (
            replace(rankings, known_pool=none),
            replace(more, gains=gains, known_pool=full),
            replace(more, known_pool=none),
            replace(found, known_pool=full),
        )
    )


def _with_ideal(rankings: Rankings, query: IntArray, gains: FloatArray) -> Rankings:
    """Return the rankings with more to find: gains of these queries, whose numbers ascend."""
    n = rankings.n_queries
    owner = np.concatenate([np.repeat(np.arange(n), rankings.n_relevant), query])
    offsets = offsets_of(np.bincount(owner, minlength=n))
    together = np.concatenate([rankings.ideal_gains, gains])[np.argsort(owner, kind="stable")]
    return replace(rankings, ideal_offsets=offsets, ideal_gains=descending(offsets, together))
