"""The order of a run's documents, as trec_eval orders them.

Only judged documents ever get a rank, by where their scores fall among all scores of the topic.
Ids are compared only where those tie.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

import numpy as np

from judged_server.domain import BoolArray, Float32Array, FloatArray, IntArray, UnsignedArray
from judged_server.metrics.input.rankings import take_groups

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
