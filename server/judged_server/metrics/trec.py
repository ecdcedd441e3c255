"""From qrels and a run to rankings, as trec_eval ranks and joins them.

Owns the joining: unjudged documents gain nothing; grades below 0 count as 0, and such documents
as pooled but not judged. Leaves the order of documents to `trec_order`, the rules about a topic to
`trec_topics`, and the numbers made from the rankings to `compute`.

Most of the time goes into the ids, since each has to be looked at. Where they came as one text,
`joined_ids` finds the judged ones without making a string of any. Else a mapping for each topic of
the run finds its repeats and the scores of its judged documents. Topics are worked on in
blocks that stay in the memory caches, read as they are needed and not kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from types import MappingProxyType
from typing import cast

import numpy as np

from judged_server.domain import FloatArray, IntArray
from judged_server.metrics.joined_ids import match
from judged_server.metrics.joined_topics import JoinedTopics, query_ids
from judged_server.metrics.rankings import Pool, Rankings, flatten, offsets_of
from judged_server.metrics.trec_order import RaggedScores, rank
from judged_server.metrics.trec_topics import (
    AnyTopic,
    Documents,
    MappedTopic,
    Topic,
    check_judgements,
    check_numbers,
    packed,
    places_of,
    scores_of,
)

__all__ = ["AnyTopic", "MappedTopic", "RankedRun", "Topic", "rank_run"]

BLOCK_DOCUMENTS = 40_000
"""Documents of a block, about: fewer pay NumPy's calls more often, more leave the caches."""
_FIRST_BLOCK, _MAX_BLOCK = 64, 2_000

_NO_DOCUMENTS: Documents = MappingProxyType({})
_NOWHERE = repeat(float("nan"))

_Pair = tuple[int, int | None]
"""The places of a topic in the qrels and, if it is there, in the run."""


@dataclass(frozen=True, slots=True)
class RankedRun:
    """A run joined with qrels.

    `rankings` has one query for each entry of `rows` (int64, ascending): the topics of the qrels
    that are evaluated, by their place there. The rest are counts of topics and of documents.
    """

    rankings: Rankings
    rows: IntArray
    skipped_missing: int
    skipped_unjudged: int
    duplicates: int


def rank_run(
    qrels: Sequence[AnyTopic],
    run: Sequence[AnyTopic],
    *,
    complete: bool = False,
    strict_duplicates: bool = False,
    field: str = "trec",
) -> RankedRun:
    """Return the rankings of a run's topics, in the order of the qrels.

    A topic of the qrels that the run lacks is skipped and counted, or retrieved nothing if
    `complete`; a topic without qrels is skipped and counted. Of a document that repeats in a topic
    of the run the first is kept and the others are counted.

    Raises InvalidField for a repeated topic, at `field.qrels[i].query_id` or
    `field.run[i].query_id`; a document judged twice, at `field.qrels[i].document_ids[j]`, or
    retrieved twice if `strict_duplicates`; columns of different lengths, at `...[i].grades` or
    `...[i].scores`; more documents than MAX_UNSCORED without scores, at `...[i].document_ids`; and
    a number that is not finite in single precision, at `...[i].grades[j]` or `...[i].scores[j]`.
    What came in columns has the same paths.
    """
    judged_ids, run_ids = query_ids(qrels), query_ids(run)
    row_of = places_of(judged_ids, f"{field}.qrels")
    # A run mostly has the topics of the qrels in their order.
    at_of = row_of if judged_ids == run_ids else places_of(run_ids, f"{field}.run")
    pairs: list[_Pair] = [
        (row, at) for row, at in enumerate(map(at_of.get, row_of)) if complete or at is not None
    ]
    if len(pairs) < len(qrels):
        _check_unused(qrels, judged_ids, at_of, f"{field}.qrels")
    join = _Join(qrels, run, pairs, field, strict_duplicates)
    rankings = _end_to_end(list(join.blocks()))
    duplicates = join.duplicates
    unjudged = [at for query_id, at in at_of.items() if query_id not in row_of]
    for at in unjudged:
        scores, dropped = scores_of(run[at], f"{field}.run[{at}]", strict=strict_duplicates)
        check_numbers(flatten([scores.values()])[1], run, f"{field}.run", "scores")
        duplicates += dropped
    return RankedRun(
        rankings=rankings,
        rows=np.array([row for row, _ in pairs], np.int64),
        skipped_missing=len(qrels) - len(pairs),
        skipped_unjudged=len(unjudged),
        duplicates=duplicates,
    )


def _check_unused(
    qrels: Sequence[AnyTopic], ids: Sequence[str], run: Mapping[str, int], field: str
) -> None:
    """Refuse what is wrong in topics that the run lacks; `ids` is parallel to `qrels`."""
    unused: list[Collection[float]] = []
    for row, query_id in enumerate(ids):
        if query_id not in run:
            topic = qrels[row]
            check_judgements(topic, f"{field}[{row}]")
            unused.append(topic.values)
    check_numbers(flatten(unused)[1], qrels, field, "grades")


@dataclass(frozen=True, slots=True)
class _Block:
    """What is read of some topics, end to end.

    `n_retrieved` is int64[topics]; `scores` is float64 of all that was retrieved. `grades` is
    float64 of all that was judged, topic by topic between `judged_offsets`, int64[topics + 1];
    parallel to it, `found` has the scores of these documents in the run, NaN where it lacks one.
    """

    n_retrieved: IntArray
    scores: FloatArray
    judged_offsets: IntArray
    grades: FloatArray
    found: FloatArray


class _Join:
    """Joins topics block by block; `duplicates` counts the repeats that were dropped so far."""

    def __init__(
        self,
        qrels: Sequence[AnyTopic],
        run: Sequence[AnyTopic],
        pairs: Sequence[_Pair],
        field: str,
        strict: bool,
    ) -> None:
        self._qrels = qrels
        self._run = run
        self._pairs = pairs
        self._field = field
        self._strict = strict
        self._columns: tuple[JoinedTopics, JoinedTopics] | None = None
        if isinstance(qrels, JoinedTopics) and isinstance(run, JoinedTopics):
            judged, retrieved = [row for row, _ in pairs], [at for _, at in pairs]
            self._columns = qrels.chosen(judged), run.chosen(retrieved)
        self.duplicates = 0

    def blocks(self) -> Iterator[Rankings]:
        """Yield the rankings of topics in blocks of about BLOCK_DOCUMENTS."""
        begin, size = 0, self._first_size()
        while begin < len(self._pairs):
            chosen = self._pairs[begin : begin + size]
            end = begin + len(chosen)
            block = self._joined(begin, end) or self._mapped(chosen) or self._one_by_one(chosen)
            yield self._ranked(chosen, block)
            begin = end
            n_documents = len(block.scores) + len(block.found)
            size = min(max(BLOCK_DOCUMENTS * len(chosen) // (n_documents or 1), 1), _MAX_BLOCK)

    def _first_size(self) -> int:
        """Return how many topics the first block takes: of columns it is known what they hold."""
        if self._columns is None:
            return _FIRST_BLOCK
        n_documents = sum(len(topics.values) for topics in self._columns)
        n_blocks = max(round(n_documents / BLOCK_DOCUMENTS), 1)
        return max(-(-len(self._pairs) // n_blocks), 1)

    def _joined(self, begin: int, end: int) -> _Block | None:
        """Return the block of topics that came in columns; None where one takes a closer look."""
        if self._columns is None:
            return None
        judged, retrieved = (topics[begin:end] for topics in self._columns)
        found = match(retrieved.lines, judged.lines)
        if found is None:
            return None
        of_judged = np.full(len(judged.values), np.nan)
        of_judged[found.judged] = retrieved.values[found.retrieved]
        return _Block(
            retrieved.lines.counts, retrieved.values, judged.lines.offsets, judged.values, of_judged
        )

    def _mapped(self, pairs: Sequence[_Pair]) -> _Block | None:
        """Return the block of topics that are mappings; None where one is not."""
        both = [
            [self._qrels[row].documents for row, _ in pairs],
            [_NO_DOCUMENTS if at is None else self._run[at].documents for _, at in pairs],
        ]
        if any(None in side for side in both):
            return None
        judged, retrieved = cast("list[list[Documents]]", both)
        columns: list[bytes] = []
        found: list[float] = []
        for scores, names in zip(retrieved, judged, strict=True):
            # In this order: reading all scores brings the mapping into the caches.
            columns.append(packed(scores.values()))
            found += map(scores.get, names, _NOWHERE)
        return _Block(
            np.fromiter(map(len, retrieved), np.int64, len(retrieved)),
            np.frombuffer(b"".join(columns)),
            *flatten([grades.values() for grades in judged]),
            np.frombuffer(packed(found)),
        )

    def _one_by_one(self, pairs: Sequence[_Pair]) -> _Block:
        """Return the block of any topics."""
        n_retrieved: list[int] = []
        columns: list[bytes] = []
        found: list[float] = []
        for row, at in pairs:
            topic = self._qrels[row]
            check_judgements(topic, f"{self._field}.qrels[{row}]")
            judged = topic.document_ids
            if at is None:
                n_retrieved.append(0)
                found += [np.nan] * len(judged)
                continue
            path = f"{self._field}.run[{at}]"
            scores, dropped = scores_of(self._run[at], path, strict=self._strict)
            self.duplicates += dropped
            n_retrieved.append(len(scores))
            columns.append(packed(scores.values()))
            found += map(scores.get, judged, _NOWHERE)
        return _Block(
            np.array(n_retrieved, np.int64),
            np.frombuffer(b"".join(columns)),
            *flatten([self._qrels[row].values for row, _ in pairs]),
            np.array(found, np.float64),
        )

    def _ranked(self, pairs: Sequence[_Pair], block: _Block) -> Rankings:
        """Return the rankings of a block."""
        check_numbers(block.scores, self._run, f"{self._field}.run", "scores")
        check_numbers(block.grades, self._qrels, f"{self._field}.qrels", "grades")

        def retrieved_ids(i: int) -> list[str]:
            at = pairs[i][1]
            return [] if at is None else list(scores_of(self._run[at], "", strict=False)[0])

        def judged_ids(i: int) -> list[str]:
            return list(self._qrels[pairs[i][0]].document_ids)

        offsets = offsets_of(block.n_retrieved)
        retrieved = RaggedScores(retrieved_ids, offsets, block.scores.astype(np.float32))
        judged = RaggedScores(judged_ids, block.judged_offsets, block.found.astype(np.float32))
        return rank(retrieved, judged, block.grades)


def _end_to_end(parts: Sequence[Rankings]) -> Rankings:
    """Return the rankings of all parts, one after the other."""
    if not parts:
        return rank(_NO_SCORES, _NO_SCORES, np.zeros(0))
    if len(parts) == 1:
        return parts[0]
    pools = [part.pool for part in parts]
    return Rankings(
        offsets=offsets_of(np.concatenate([part.n_retrieved for part in parts])),
        gains=np.concatenate([part.gains for part in parts]),
        ideal_offsets=offsets_of(np.concatenate([part.n_relevant for part in parts])),
        ideal_gains=np.concatenate([part.ideal_gains for part in parts]),
        known_pool=Pool(
            judged=np.concatenate([pool.judged for pool in pools]),
            unsampled=np.concatenate([pool.unsampled for pool in pools]),
            n_nonrelevant=np.concatenate([pool.n_nonrelevant for pool in pools]),
        ),
    )


_NO_SCORES = RaggedScores(lambda _: [], np.zeros(1, np.int64), np.zeros(0, np.float32))
