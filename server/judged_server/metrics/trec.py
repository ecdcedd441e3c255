"""From qrels and a run to rankings, as trec_eval ranks and joins them.

Owns trec_eval's rules: scores compare in single precision, the larger first; ties go to the
larger document id, bytewise; unjudged documents gain nothing; grades below 0 count as 0, and such
documents as pooled but not judged. Leaves the numbers made from the rankings to `compute`.

Most of the time goes into the ids, since each has to be hashed: one dict for each topic of the
run finds its repeats and places its judged documents, and everything after that is flat. Ids are
compared only where scores tie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np
from numpy.typing import NDArray

from judged_server.domain import Float32Array, FloatArray, IntArray
from judged_server.errors import InvalidField
from judged_server.metrics.duplicates import distinct_results
from judged_server.metrics.rankings import Pool, Rankings, descending, flatten, offsets_of


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic of the qrels, or of a run.

    `values` is parallel to `document_ids`: the grades, or the scores. A run's topic may leave it
    empty: the given order is then the ranking.
    """

    query_id: str
    document_ids: Sequence[str]
    values: Sequence[float] = ()


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
    qrels: Sequence[Topic],
    run: Sequence[Topic],
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
    `...[i].scores`; and a number that is not finite in single precision, at `...[i].grades[j]`
    or `...[i].scores[j]`.
    """
    judged_at = _places(qrels, f"{field}.qrels")
    retrieved_at = _places(run, f"{field}.run")
    rows: list[int] = []
    topics: list[Topic] = []
    judged_places: list[int] = []  # where the run has each judged document, -1 for nowhere
    for row, topic in enumerate(qrels):
        _check_judgements(topic, f"{field}.qrels[{row}]")
        at = retrieved_at.get(topic.query_id)
        if at is None and not complete:
            continue
        retrieved = _NOTHING if at is None else run[at]
        found, places = _distinct(retrieved, f"{field}.run[{at}]", strict_duplicates)
        rows.append(row)
        topics.append(found)
        judged_places += map(places.get, topic.document_ids, repeat(-1))
    unjudged = [
        _distinct(topic, f"{field}.run[{i}]", strict_duplicates)[0]
        for i, topic in enumerate(run)
        if topic.query_id not in judged_at
    ]
    scores = _single_precision([*topics, *unjudged])
    if not np.isfinite(scores).all():
        _refuse_number(run, f"{field}.run", "scores")
    judged_offsets, grades = flatten([qrels[row].values for row in rows])
    if not np.all(np.abs(grades) <= _LARGEST_SINGLE):
        _refuse_number(qrels, f"{field}.qrels", "grades")
    return RankedRun(
        rankings=_rank(topics, scores, judged_offsets, grades, judged_places),
        rows=np.array(rows, np.int64),
        skipped_missing=len(qrels) - len(rows),
        skipped_unjudged=len(unjudged),
        duplicates=sum(map(_size, run)) - sum(map(_size, topics)) - sum(map(_size, unjudged)),
    )


_NOTHING = Topic("", ())
_LARGEST_SINGLE = float(np.finfo(np.float32).max)


def _size(topic: Topic) -> int:
    return len(topic.document_ids)


def _places(topics: Sequence[Topic], field: str) -> dict[str, int]:
    """Return the place of each topic by its id, which must not repeat."""
    places: dict[str, int] = {}
    for i, topic in enumerate(topics):
        first = places.setdefault(topic.query_id, i)
        if first != i:
            raise InvalidField(f"{field}[{i}].query_id", f"is that of {field}[{first}] again")
    return places


def _check_judgements(topic: Topic, field: str) -> None:
    """Refuse a topic of the qrels with a wrong number of grades or a document judged twice."""
    if len(topic.values) != _size(topic):
        rule = f"has {len(topic.values)} entries for {_size(topic)} document_ids"
        raise InvalidField(f"{field}.grades", rule)
    if len(set(topic.document_ids)) != _size(topic):
        distinct_results(topic.document_ids, None, field=f"{field}.document_ids", strict=True)


def _distinct(topic: Topic, field: str, strict: bool) -> tuple[Topic, dict[str, int]]:
    """Return a topic of the run without repeats, and the place of each document in it."""
    n = _size(topic)
    if len(topic.values) not in {0, n}:
        raise InvalidField(f"{field}.scores", f"has {len(topic.values)} entries for {n} documents")
    places = dict(zip(topic.document_ids, range(n), strict=True))
    if len(places) == n:
        return topic, places
    ids = topic.document_ids
    kept = distinct_results(ids, None, field=f"{field}.document_ids", strict=strict) or ()
    distinct = Topic(
        topic.query_id,
        [ids[place] for place in kept],
        [topic.values[place] for place in kept] if len(topic.values) else (),
    )
    return distinct, dict(zip(distinct.document_ids, range(len(kept)), strict=True))


def _rank(
    topics: Sequence[Topic],
    scores: Float32Array,
    judged_offsets: IntArray,
    grades: FloatArray,
    judged_places: Sequence[int],
) -> Rankings:
    """Return the rankings of topics, given their judgements and where the run has each of them.

    `scores` begins with those of `topics`; `judged_places` is parallel to the ragged `grades`.
    """
    offsets = offsets_of(np.fromiter(map(_size, topics), np.int64, len(topics)))
    topic_of_grade = np.repeat(np.arange(len(topics)), np.diff(judged_offsets))
    places = np.array(judged_places, np.int64)
    relevant = grades > 0
    found = places >= 0
    found_grades = np.full(int(offsets[-1]), np.nan)
    found_grades[offsets[topic_of_grade[found]] + places[found]] = grades[found]
    order = _ranking_order(topics, scores[: len(found_grades)], offsets)
    if order is not None:
        found_grades = found_grades[order]
    ideal_offsets = offsets_of(np.bincount(topic_of_grade[relevant], minlength=len(topics)))
    return Rankings(
        offsets=offsets,
        gains=np.where(found_grades > 0, found_grades, 0.0),
        ideal_offsets=ideal_offsets,
        ideal_gains=descending(ideal_offsets, grades[relevant]),
        known_pool=Pool(
            judged=found_grades >= 0,  # NaN, of documents nobody judged, is neither
            unsampled=found_grades < 0,
            n_nonrelevant=np.bincount(topic_of_grade[grades == 0], minlength=len(topics)),
        ),
    )


def _ranking_order(
    topics: Sequence[Topic], scores: Float32Array, offsets: IntArray
) -> IntArray | None:
    """Return the flat places of all documents by topic, then rank; None if they are so already."""
    topic_of = np.repeat(np.arange(len(topics), dtype=np.uint64), np.diff(offsets))
    if np.all((scores[1:] < scores[:-1]) | (topic_of[1:] != topic_of[:-1])):
        return None
    # One integer a document that sorts by topic, then by score descending: the bits of a float
    # grow with its value, once the sign is taken care of. 0 - score makes one of -0 and +0.
    bits = (np.float32(0) - scores).view(np.uint32)
    below_zero = bits >> np.uint32(31) == 1
    ascending = np.where(below_zero, ~bits, bits | np.uint32(1 << 31))
    keys = topic_of << np.uint64(32) | ascending
    order = np.argsort(keys)
    _break_ties(order, keys[order], topics)
    return order


def _break_ties(order: IntArray, keys: NDArray[np.uint64], topics: Sequence[Topic]) -> None:
    """Order documents of one topic and score by id descending, in place; `keys` are sorted."""
    like_next = np.append(keys[1:] == keys[:-1], False)
    like_last = np.append(False, like_next[:-1])
    if not like_next.any():
        return
    begins = np.flatnonzero(like_next & ~like_last).tolist()
    ends = (np.flatnonzero(~like_next & like_last) + 1).tolist()
    # Code points order strings as their UTF-8 bytes do, so that str compares like strcmp.
    ids = list(chain.from_iterable(topic.document_ids for topic in topics))
    places = order.tolist()
    for begin, end in zip(begins, ends, strict=True):
        places[begin:end] = sorted(places[begin:end], key=ids.__getitem__, reverse=True)
    order[:] = places


def _single_precision(topics: Sequence[Topic]) -> Float32Array:
    """Return the scores of all topics put end to end; falling ones where a topic has none."""
    columns: list[Sequence[float]] = [
        topic.values if len(topic.values) else range(0, -_size(topic), -1) for topic in topics
    ]
    with np.errstate(over="ignore"):  # becomes infinity, which is refused
        return flatten(columns)[1].astype(np.float32)


def _refuse_number(topics: Sequence[Topic], field: str, column: str) -> None:
    """Raise InvalidField at the first number that is not finite in single precision."""
    for i, topic in enumerate(topics):
        for j, value in enumerate(topic.values):
            if not abs(value) <= _LARGEST_SINGLE:
                rule = "must be a finite number within single precision, +-3.4e38"
                raise InvalidField(f"{field}[{i}].{column}[{j}]", rule)
