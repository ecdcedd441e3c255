"""The topics of qrels and of runs: what they hold, and what is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from judged_server.domain import BoolArray, Float32Array, FloatArray, IntArray, UnsignedArray
from judged_server.errors import InvalidField
from judged_server.metrics.input.rankings import distinct_results, take_groups

Documents = Mapping[str, float]
"""The documents of one topic: id to grade, or id to score."""


class AnyTopic(Protocol):
    """One topic of the qrels, or of a run; its columns may be made each time they are asked for.

    `values` is parallel to `document_ids`: the grades, or the scores. A run's topic may leave it
    empty: the given order is then the ranking.
    """

    @property
    def query_id(self) -> str: ...  # noqa: D102 - see above, as for the others
    @property
    def document_ids(self) -> Collection[str]: ...  # noqa: D102
    @property
    def values(self) -> Collection[float]: ...  # noqa: D102


class Topic(NamedTuple):
    """A topic whose columns are at hand; a tuple, since large runs have thousands of them."""

    query_id: str
    document_ids: Collection[str]
    values: Collection[float] = ()


LARGEST_SINGLE = float(np.finfo(np.float32).max)
MAX_UNSCORED = 1 << 24
"""Places up to here are distinct numbers in single precision."""


def places_of(ids: Sequence[str], field: str) -> dict[str, int]:
    """Return the place of each topic by its query id, which must not repeat."""
    places = dict(zip(ids, range(len(ids)), strict=True))
    if len(places) < len(ids):
        first: dict[str, int] = {}
        for i, query_id in enumerate(ids):
            j = first.setdefault(query_id, i)
            if j != i:
                raise InvalidField(f"{field}[{i}].query_id", f"is that of {field}[{j}] again")
    return places


def check_judgements(topic: AnyTopic, path: str) -> None:
    """Refuse a topic of the qrels with a wrong number of grades or a document judged twice."""
    ids, n_grades = topic.document_ids, len(topic.values)
    n = len(ids)
    if n_grades != n:
        raise InvalidField(f"{path}.grades", f"has {n_grades} entries for {n} document ids")
    if len(set(ids)) != n:
        distinct_results(list(ids), None, field=f"{path}.document_ids", strict=True)


def scores_of(topic: AnyTopic, path: str, *, strict: bool) -> tuple[Documents, int]:
    """Return the scores of a topic of the run by document, and how many repeats were dropped.

    Without scores they are the places in the given order, descending from 0.
    """
    ids, values = topic.document_ids, topic.values
    n = len(ids)
    if not len(values):
        check_unscored(n, path)
        values = range(0, -n, -1)
    elif len(values) != n:
        raise InvalidField(f"{path}.scores", f"has {len(values)} entries for {n} documents")
    scores = dict(zip(ids, values, strict=True))
    if len(scores) < n:
        field = f"{path}.document_ids"
        names, numbers = list(ids), list(values)
        kept = distinct_results(names, None, field=field, strict=strict) or ()
        scores = {names[place]: numbers[place] for place in kept}
    return scores, n - len(scores)


def check_unscored(n: int, path: str) -> None:
    """Refuse a topic of n documents without scores, if that is more than can be told apart."""
    if n > MAX_UNSCORED:
        rule = f"holds {n} documents without scores; give scores, or {MAX_UNSCORED} at most"
        raise InvalidField(f"{path}.document_ids", rule)


def check_numbers(numbers: FloatArray, topics: Sequence[AnyTopic], side: str, column: str) -> None:
    """Raise InvalidField at the topics' first number that is not finite in single precision.

    `numbers` are some or all of those of the topics. `side` is the path of the topics, `column`
    the name of their values.
    """
    low, high = numbers.min(initial=0.0), numbers.max(initial=0.0)
    if low >= -LARGEST_SINGLE and high <= LARGEST_SINGLE:  # NaN fails both comparisons
        return
    for i, topic in enumerate(topics):
        for j, value in enumerate(topic.values):
            if not abs(value) <= LARGEST_SINGLE:
                rule = "must be a finite number within single precision, +-3.4e38"
                raise InvalidField(f"{side}[{i}].{column}[{j}]", rule)


def packed(numbers: Collection[float]) -> bytes:
    """Return numbers as doubles of this machine, which takes a third less than for any other."""
    return _packer(len(numbers))(*numbers)


@lru_cache(1024)
def _packer(n: int) -> Callable[..., bytes]:
    # The method takes its arguments from any iterable at once; struct.pack goes by a list.
    return struct.Struct(f"{n}d").pack


_Array = TypeVar("_Array", FloatArray, BoolArray)


@dataclass(frozen=True, slots=True)
class RaggedScores:
    """The scores in the run of topics' documents, end to end; NaN where the run lacks one.

    `ids_of` gives the ids of a topic by its place, in the order of the scores.
    """

    ids_of: Callable[[int], list[str]]
    offsets: IntArray
    scores: Float32Array

    @property
    def topic_of(self) -> IntArray:
        """int64[documents]: the place of each document's topic."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


@dataclass(frozen=True, slots=True)
class RankedGrades:
    """What judgements say of the documents of topics, end to end, the best rank of each first.

    `gains` is float64, 0 where the grade is not above 0 or there is none; `judged` and `unsampled`
    are bool: graded from 0 on, and below.
    """

    gains: FloatArray
    judged: BoolArray
    unsampled: BoolArray


def rank(retrieved: RaggedScores, judged: RaggedScores, grades: FloatArray) -> RankedGrades:
    """Return the grades of what was retrieved by rank: `grades` is parallel to `judged`."""
    n_documents = int(retrieved.offsets[-1])
    found = np.flatnonzero(~np.isnan(judged.scores))
    found_grades = grades[found]
    at = _ranked_places(retrieved, judged, judged.topic_of, found)
    return RankedGrades(
        gains=_scattered(np.maximum(found_grades, 0.0), at, n_documents),
        judged=_scattered(found_grades >= 0, at, n_documents),
        unsampled=_scattered(found_grades < 0, at, n_documents),
    )


def _scattered(values: _Array, places: IntArray, n: int) -> _Array:
    """Return an array of length n that has `values` at `places` and 0 elsewhere."""
    scattered = np.zeros(n, values.dtype)
    scattered[places] = values
    return scattered


def _ranked_places(
    retrieved: RaggedScores, judged: RaggedScores, topic_of: IntArray, found: IntArray
) -> IntArray:
    """Return where the judged documents `found` are among all retrieved ones by topic, then rank.

    `topic_of` is the topic of each judged document.
    """
    unsorted = _sort_keys(retrieved.topic_of, retrieved.scores)
    in_order = bool(np.all(unsorted[1:] >= unsorted[:-1]))
    keys = unsorted if in_order else np.sort(unsorted)
    wanted = _sort_keys(topic_of[found], judged.scores[found])
    at = np.searchsorted(keys, wanted)
    after = np.minimum(at + 1, len(keys) - 1)
    tied = np.flatnonzero((keys[after] == wanted) & (after > at))
    if len(tied):
        ends = np.searchsorted(keys, wanted[tied], side="right")
        at[tied] = _by_id(retrieved, judged, found[tied], _Ties(unsorted, at[tied], ends))
    return at


@dataclass(frozen=True, slots=True)
class _Ties:
    """Judged documents whose scores tie: the places, sorted by score, that they share with others.

    `unsorted` holds the sort keys of all documents in the order of the run.
    """

    unsorted: UnsignedArray
    begins: IntArray
    ends: IntArray


def _by_id(
    retrieved: RaggedScores, judged: RaggedScores, found: IntArray, ties: _Ties
) -> list[int]:
    """Return the places of judged documents once ties are broken by id, the larger first."""
    topic_of = np.searchsorted(judged.offsets, found, side="right") - 1
    _, places = take_groups(retrieved.offsets, np.unique(topic_of))
    order = np.arange(len(ties.unsorted))
    order[places] = places[np.argsort(ties.unsorted[places])]  # each topic keeps its places
    answer: list[int] = []
    columns = (topic_of.tolist(), found.tolist(), ties.begins.tolist(), ties.ends.tolist())
    for topic, of_topic in groupby(zip(*columns, strict=True), key=itemgetter(0)):
        ids, names = retrieved.ids_of(topic), judged.ids_of(topic)
        first, first_judged = int(retrieved.offsets[topic]), int(judged.offsets[topic])
        ranked: dict[int, dict[str, int]] = {}
        for _, document, begin, end in of_topic:
            if begin not in ranked:
                tied = [ids[place - first] for place in order[begin:end].tolist()]
                # Code points order strings as their UTF-8 bytes do: str compares like strcmp.
                tied.sort(reverse=True)
                ranked[begin] = dict(zip(tied, range(begin, end), strict=True))
            answer.append(ranked[begin][names[document - first_judged]])
    return answer


def _sort_keys(topic_of: IntArray, scores: Float32Array) -> UnsignedArray:
    """Return integers that sort documents by topic, then by score descending."""
    # The bits of a float grow with its value, once those of negative ones are turned over;
    # 0 - score makes one of -0 and +0.
    bits = (np.float32(0) - scores).view(np.int32)
    ascending = bits ^ (bits >> 31 | np.int32(-(1 << 31)))
    keys: UnsignedArray = (topic_of << 32).view(np.uint64)
    keys |= ascending.view(np.uint32)
    return keys
