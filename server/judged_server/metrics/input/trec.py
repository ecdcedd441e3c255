"""Qrels, and a run joined with them, as trec_eval ranks and joins them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from judged_server.domain import BoolArray, FloatArray, IntArray, UnsignedArray
from judged_server.metrics.input.id_fit import IdFit
from judged_server.metrics.input.rankings import (
    Pool,
    Rankings,
    descending,
    offsets_of,
    positions_in_groups,
)
from judged_server.metrics.input.topics import Ids, Topics


@dataclass(frozen=True)
class Qrels:
    """Judgements, read and checked once for all the runs that are ranked under them.

    `row_of` has the place of each topic by its query id, in their order.
    """

    topics: Topics
    row_of: Mapping[str, int]

    @classmethod
    def of(cls, topics: Topics) -> Self:
        """Return the qrels of topics.

        Raises InvalidField for a repeated topic, at `field[i].query_id`, and a grade that is not
        finite in single precision, at `field[i].grades[j]`. A document that is judged twice is
        found by `rank_run`.
        """
        row_of = topics.places()
        topics.check_values()
        return cls(topics, row_of)

    def __len__(self) -> int:
        """Return the number of topics."""
        return len(self.row_of)

    @cached_property
    def topic_of(self) -> IntArray:
        """int64[documents]: the topic that each judged document is of."""
        return np.repeat(np.arange(len(self)), self.topics.counts)

    @cached_property
    def ideal(self) -> tuple[IntArray, FloatArray]:
        """int64[topics + 1] offsets, and float64: the grades above 0 of each topic, descending."""
        relevant = self.topics.values > 0
        offsets = offsets_of(self._count(relevant))
        return offsets, descending(offsets, self.topics.values[relevant])

    @cached_property
    def n_nonrelevant(self) -> IntArray:
        """int64[topics]: how many documents were judged not relevant."""
        return self._count(self.topics.values == 0)

    def _count(self, chosen: BoolArray) -> IntArray:
        """Return int64[topics]: how many of each topic's documents are chosen, bool[documents]."""
        return np.bincount(self.topic_of[chosen], minlength=len(self))


@dataclass(frozen=True, slots=True)
class RankedRun:
    """A run joined with qrels.

    `rankings` has one query for each entry of `rows` (int64, ascending): the topics of the qrels
    that are evaluated, by their place there. The rest are counts of topics and of documents, and
    how the ids of both fit.
    """

    rankings: Rankings
    rows: IntArray
    skipped_missing: int
    skipped_unjudged: int
    duplicates: int
    id_fit: IdFit


def rank_run(
    qrels: Qrels, run: Topics, *, complete: bool = False, strict_duplicates: bool = False
) -> RankedRun:
    """Return the rankings of a run's topics, in the order of the qrels.

    A topic of the qrels that the run lacks is skipped and counted, or retrieved nothing if
    `complete`; a topic without qrels is skipped and counted. Of a document that repeats in a topic
    of the run the first is kept and the others are counted.

    Raises InvalidField for a repeated topic, at `field[i].query_id`; a document retrieved twice if
    `strict_duplicates`, or judged twice, at `field[i].document_ids[j]`; and a score that is not
    finite in single precision, at `field[i].scores[j]`.
    """
    at_of, n = run.places(), len(qrels)
    run.check_values()
    # Topics without qrels are numbered behind all others.
    row_of_topic = np.array(
        [qrels.row_of.get(query_id, n + at) for query_id, at in at_of.items()], np.int64
    )
    topic_of = np.repeat(row_of_topic, run.counts)
    ids, n_run = run.ids + qrels.topics.ids, len(topic_of)
    first = ids.first_alike(np.concatenate([topic_of, qrels.topic_of]))
    if np.bincount(first[n_run:]).max(initial=0) > 1:
        qrels.topics.refuse_repeat(first[n_run:])
    kept = np.flatnonzero(first[:n_run] == np.arange(n_run))
    if strict_duplicates and len(kept) < n_run:
        run.refuse_repeat(first[:n_run])

    keys = _sort_keys(topic_of, run.values)
    of_judged = np.flatnonzero(first[n_run:] < n_run)
    places = _ranks(keys, first[n_run:][of_judged], kept, ids)
    grades = qrels.topics.values[of_judged]
    evaluated = topic_of[kept] < n
    counts = np.bincount(topic_of[kept][evaluated], minlength=n)
    gains, judged, unsampled = np.zeros(counts.sum()), *np.zeros((2, counts.sum()), np.bool_)
    gains[places], judged[places], unsampled[places] = (
        np.maximum(grades, 0),
        grades >= 0,
        grades < 0,
    )
    pool = Pool(judged, unsampled, qrels.n_nonrelevant)
    rankings = Rankings(offsets_of(counts), gains, *qrels.ideal, known_pool=pool)
    rows = np.arange(n) if complete else np.sort(row_of_topic[row_of_topic < n])
    if len(rows) < n:
        rankings = rankings.take(rows)
    return RankedRun(
        rankings=rankings,
        rows=rows,
        skipped_missing=n - len(rows),
        skipped_unjudged=int(np.count_nonzero(row_of_topic >= n)),
        duplicates=n_run - len(kept),
        id_fit=_id_fit(qrels, run, at_of, counts, qrels.topic_of[of_judged]),
    )


def _sort_keys(topic_of: IntArray, scores: FloatArray) -> UnsignedArray:
    """Return integers that sort documents by topic, then by score descending."""
    # The bits of a float grow with its value, once those of negative ones are turned over;
    # 0 - score makes one of -0 and +0.
    bits = (np.float32(0) - scores.astype(np.float32)).view(np.int32)
    ascending = bits ^ (bits >> 31 | np.int32(-(1 << 31)))
    keys: UnsignedArray = (topic_of << 32).view(np.uint64)
    keys |= ascending.view(np.uint32)
    return keys


def _ranks(keys: UnsignedArray, found: IntArray, kept: IntArray, ids: Ids) -> IntArray:
    """Return where the documents `found` are among those `kept`, by topic, then by rank.

    All are places among `keys`, by which documents sort; those that tie go by id, larger first.
    """
    ascending, wanted = keys[kept], keys[found]
    if not np.all(ascending[1:] >= ascending[:-1]):
        ascending.sort()
    ranks = np.searchsorted(ascending, wanted)
    after = np.minimum(ranks + 1, len(ascending) - 1)
    ties = (ascending[after] == wanted) & (after > ranks)
    if ties.any():
        tied = kept[np.isin(keys[kept], wanted[ties])]
        # UTF-8 sorts as code points do: bytes compare like strcmp.
        names = ids.names(tied)
        tied = tied[np.array(sorted(range(len(tied)), key=names.__getitem__, reverse=True))]
        tied = tied[np.argsort(keys[tied], kind="stable")]
        sizes = np.unique(keys[tied], return_counts=True)[1]
        rank_of = np.zeros(len(keys), np.int64)
        rank_of[tied] = np.searchsorted(ascending, keys[tied]) + positions_in_groups(sizes)
        ranks[ties] = rank_of[found[ties]]
    return ranks


def _id_fit(
    qrels: Qrels, run: Topics, at_of: Mapping[str, int], counts: IntArray, known_of: IntArray
) -> IdFit:
    """Return how ids fit, over the topics that retrieved something.

    `counts` are the documents that the topics of the qrels retrieved, and `known_of` the topics of
    the judged ones among these.
    """
    judged, some = qrels.topics.counts, counts > 0
    known = np.bincount(known_of, minlength=len(qrels))
    seen = IdFit(found=len(known_of))
    for row in np.flatnonzero(some & (known < judged)).tolist():
        names = qrels.topics.names(row)
        if seen.wants(names, int(counts[row])):
            seen.add(names, run.names(at_of[qrels.topics.query_ids[row]]))
    return seen.closed(int(judged[some].sum()), len(known_of), int(counts.sum()))
