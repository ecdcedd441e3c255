"""From qrels and a run to rankings, as trec_eval ranks and joins them.

Most of the time goes into the ids, since each has to be looked at. Where they came as one text,
`columnar_topics` finds the judged ones without making a string of any. Else a mapping for each
topic of the run finds its repeats and the scores of its judged documents. Topics are worked on in
blocks that stay in the memory caches, read as they are needed and not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TypeVar, cast

import numpy as np

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.metrics.input.columnar_topics import ColumnarTopics, match, query_ids
from judged_server.metrics.input.id_fit import IdFit
from judged_server.metrics.input.qrels import Qrels
from judged_server.metrics.input.rankings import Pool, Rankings, flatten, offsets_of
from judged_server.metrics.input.trec_topics import (
    AnyTopic,
    RaggedScores,
    RankedGrades,
    check_judgements,
    check_numbers,
    packed,
    places_of,
    rank,
    scores_of,
)

BLOCK_DOCUMENTS = 40_000
"""Documents of a block, about: fewer pay NumPy's calls more often, more leave the caches."""

_NOWHERE = repeat(float("nan"))

_Array = TypeVar("_Array", FloatArray, IntArray, BoolArray)

_Pair = tuple[int, int | None]
"""The places of a topic in the qrels and, if it is there, in the run."""


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
    qrels: Qrels,
    run: Sequence[AnyTopic],
    *,
    complete: bool = False,
    strict_duplicates: bool = False,
    field: str = "trec.run",
) -> RankedRun:
    """Return the rankings of a run's topics, in the order of the qrels.

    A topic of the qrels that the run lacks is skipped and counted, or retrieved nothing if
    `complete`; a topic without qrels is skipped and counted. Of a document that repeats in a topic
    of the run the first is kept and the others are counted.

    Raises InvalidField for a repeated topic, at `field[i].query_id`; a document retrieved twice if
    `strict_duplicates`, at `field[i].document_ids[j]`; columns of different lengths, at
    `field[i].scores`; more documents than MAX_UNSCORED without scores, at `field[i].document_ids`;
    and a score that is not finite in single precision, at `field[i].scores[j]`. What came in
    columns has the same paths. Raises as Qrels.of does for a document that they judge twice.
    """
    run_ids = query_ids(run)
    # A run mostly has the topics of the qrels in their order.
    at_of = qrels.row_of if list(qrels.row_of) == run_ids else places_of(run_ids, field)
    pairs: list[_Pair] = [
        (row, at)
        for row, at in enumerate(map(at_of.get, qrels.row_of))
        if complete or at is not None
    ]
    if len(pairs) < len(qrels) and isinstance(qrels.topics, ColumnarTopics):
        for query_id, row in qrels.row_of.items():
            if query_id not in at_of:
                check_judgements(qrels.topics[row], f"{qrels.field}[{row}]")
    join = _Join(qrels, run, pairs, field, strict_duplicates)
    rankings = join.rankings()
    duplicates = join.duplicates
    unjudged = [at for query_id, at in at_of.items() if query_id not in qrels.row_of]
    for at in unjudged:
        scores, dropped = scores_of(run[at], f"{field}[{at}]", strict=strict_duplicates)
        check_numbers(flatten([scores.values()])[1], run, field, "scores")
        duplicates += dropped
    return RankedRun(
        rankings=rankings,
        rows=np.array([row for row, _ in pairs], np.int64),
        skipped_missing=len(qrels) - len(pairs),
        skipped_unjudged=len(unjudged),
        duplicates=duplicates,
        id_fit=_id_fit(qrels, run, pairs, rankings),
    )


def _id_fit(
    qrels: Qrels, run: Sequence[AnyTopic], pairs: Sequence[_Pair], rankings: Rankings
) -> IdFit:
    """Return how ids fit, over the topics that retrieved something."""
    some = rankings.n_retrieved > 0
    query = np.repeat(np.arange(len(pairs)), rankings.n_retrieved)
    known = np.bincount(query[rankings.pool.judged | rankings.pool.unsampled], minlength=len(pairs))
    judged = np.diff(qrels.offsets)[np.array([row for row, _ in pairs], np.int64)]
    seen = IdFit(found=int(known.sum()))
    for place in np.flatnonzero(some & (known < judged)).tolist():
        row, at = pairs[place]
        names = list(qrels.topics[row].document_ids)
        if at is not None and seen.wants(names, int(rankings.n_retrieved[place])):
            seen.add(names, list(run[at].document_ids))
    return seen.closed(int(judged[some].sum()), int(known.sum()), len(query))


@dataclass(frozen=True, slots=True)
class _Block:
    """What is read of some topics of a run, end to end.

    `n_retrieved` is int64[topics]; `scores` is float64 of all that was retrieved; `found` has the
    scores of the judged documents, float64 parallel to the grades, NaN where the run lacks one.
    """

    n_retrieved: IntArray
    scores: FloatArray
    found: FloatArray


class _Join:
    """Joins topics block by block; `duplicates` counts the repeats that were dropped so far.

    `pairs` are the topics to join; the judged ones among them are `_qrels`, in the same order.
    """

    def __init__(
        self,
        qrels: Qrels,
        run: Sequence[AnyTopic],
        pairs: Sequence[_Pair],
        field: str,
        strict: bool,
    ) -> None:
        self._qrels = qrels.chosen([row for row, _ in pairs])
        self._run = run
        self._pairs = pairs
        self._field = field
        self._strict = strict
        self._columns: tuple[ColumnarTopics, ColumnarTopics] | None = None
        if isinstance(self._qrels.topics, ColumnarTopics) and isinstance(run, ColumnarTopics):
            self._columns = self._qrels.topics, run.chosen([at for _, at in pairs])
        self.duplicates = 0

    def rankings(self) -> Rankings:
        """Return the rankings of all topics."""
        blocks = list(self._blocks())
        ideal_offsets, ideal_gains = self._qrels.ideal
        return Rankings(
            offsets=offsets_of(_end_to_end([n_retrieved for n_retrieved, _ in blocks], np.int64)),
            gains=_end_to_end([ranked.gains for _, ranked in blocks], np.float64),
            ideal_offsets=ideal_offsets,
            ideal_gains=ideal_gains,
            known_pool=Pool(
                judged=_end_to_end([ranked.judged for _, ranked in blocks], np.bool_),
                unsampled=_end_to_end([ranked.unsampled for _, ranked in blocks], np.bool_),
                n_nonrelevant=self._qrels.n_nonrelevant,
            ),
        )

    def _blocks(self) -> Iterator[tuple[IntArray, RankedGrades]]:
        """Yield how many documents topics retrieved and their grades, in blocks.

        A block has about BLOCK_DOCUMENTS.
        """
        n_documents = len(self._qrels.grades)
        if isinstance(self._run, ColumnarTopics):
            n_documents += len(self._run.values)
        else:
            n_documents += sum(len(topic.document_ids) for topic in self._run)
        size = max(BLOCK_DOCUMENTS * len(self._pairs) // max(n_documents, 1), 1)
        for begin in range(0, len(self._pairs), size):
            end = min(begin + size, len(self._pairs))
            block = self._joined(begin, end) or self._one_by_one(begin, end)
            yield block.n_retrieved, self._ranked(begin, end, block)

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
        return _Block(retrieved.lines.counts, retrieved.values, of_judged)

    def _one_by_one(self, begin: int, end: int) -> _Block:
        """Return the block of any topics."""
        n_retrieved: list[int] = []
        columns: list[bytes] = []
        found: list[float] = []
        joined = isinstance(self._qrels.topics, ColumnarTopics)
        for place, (row, at) in enumerate(self._pairs[begin:end], begin):
            topic = self._qrels.topics[place]
            if joined:
                check_judgements(topic, f"{self._qrels.field}[{row}]")
            judged = topic.document_ids
            if at is None:
                n_retrieved.append(0)
                found += [np.nan] * len(judged)
                continue
            scores, dropped = scores_of(self._run[at], f"{self._field}[{at}]", strict=self._strict)
            self.duplicates += dropped
            n_retrieved.append(len(scores))
            columns.append(packed(scores.values()))
            found += map(scores.get, judged, _NOWHERE)
        return _Block(
            np.array(n_retrieved, np.int64),
            np.frombuffer(b"".join(columns)),
            np.array(found, np.float64),
        )

    def _ranked(self, begin: int, end: int, block: _Block) -> RankedGrades:
        """Return the grades of a block, ranked."""
        check_numbers(block.scores, self._run, self._field, "scores")

        def retrieved_ids(i: int) -> list[str]:
            at = self._pairs[begin + i][1]
            return [] if at is None else list(scores_of(self._run[at], "", strict=False)[0])

        def judged_ids(i: int) -> list[str]:
            return list(self._qrels.topics[begin + i].document_ids)

        offsets = self._qrels.offsets[begin : end + 1]
        grades = self._qrels.grades[offsets[0] : offsets[-1]]
        return rank(
            RaggedScores(
                retrieved_ids, offsets_of(block.n_retrieved), block.scores.astype(np.float32)
            ),
            RaggedScores(judged_ids, offsets - offsets[0], block.found.astype(np.float32)),
            grades,
        )


def _end_to_end(parts: Sequence[_Array], kind: type[np.generic]) -> _Array:
    """Return arrays of one kind, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return cast("_Array", np.concatenate([np.zeros(0, kind), *parts]))
