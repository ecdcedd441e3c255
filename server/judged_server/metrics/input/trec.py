"""Qrels and runs: their topics, and a run joined with qrels as trec_eval joins and ranks them.

Topics have all ids as one text, all grades or scores as one array. Most of the time of ranking goes
into the ids, since each has to be looked at. So none becomes a string of its own unless somebody
has to read it: `first_alike` compares them as numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from judged.values.metrics import MetricCounts
from judged.values.rankings import IdFit
from numpy.typing import NDArray

from judged_server.domain import FloatArray, IntArray, UnsignedArray
from judged_server.errors import InvalidField
from judged_server.metrics.input.id_fit import IdSample
from judged_server.metrics.input.rankings import (
    Rankings,
    flatten,
    ideal_of,
    offsets_of,
    positions_in_groups,
    refuse_first,
)

MAX_ID_BYTES = 256
"""Longer ids are compared one by one: hashing takes a step for every 8 bytes of the longest."""
MAX_UNSCORED = 1 << 24
"""Places up to here are distinct numbers in single precision."""
LARGEST_SINGLE = float(np.finfo(np.float32).max)

_LINE_FEED = ord("\n")
_WORD = 8
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], np.uint64)
_GOLDEN, _ODD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Ids:
    """Ids as pieces of one text, which ends with eight zeros.

    `starts` and `lengths` are integers, in bytes.
    """

    text: bytes
    starts: NDArray[np.int32] | IntArray
    lengths: NDArray[np.int32] | IntArray

    @classmethod
    def of_lines(cls, text: bytes) -> Self:
        """Return the lines of a text whose last line ends as the others do."""
        padded = text + bytes(_WORD)
        # A message is far smaller than 2 GiB, and half the memory is saved.
        ends = np.flatnonzero(np.frombuffer(padded, np.uint8) == _LINE_FEED).astype(np.int32)
        starts = np.append(np.int32(0), ends + np.int32(1))[:-1]
        return cls(padded, starts, ends - starts)

    @classmethod
    def of(cls, names: Sequence[Collection[str]]) -> Self:
        """Return all names, end to end; some may have line feeds."""
        text = "".join(["\n".join(some) + "\n" for some in names if some]).encode()
        ids = cls.of_lines(text)
        if len(ids.starts) == sum(map(len, names)):
            return ids
        lengths = np.array([len(name.encode()) for some in names for name in some], np.int64)
        return cls(ids.text, offsets_of(lengths + 1)[:-1], lengths)

    def __add__(self, other: Ids) -> Ids:
        """Return the ids of both, end to end."""
        starts = np.concatenate([self.starts, other.starts + np.int32(len(self.text))])
        return Ids(self.text + other.text, starts, np.concatenate([self.lengths, other.lengths]))

    def names(self, places: IntArray | slice) -> list[bytes]:
        """Return ids as they are written, in UTF-8."""
        starts, lengths = self.starts[places].tolist(), self.lengths[places].tolist()
        return [self.text[i : i + n] for i, n in zip(starts, lengths, strict=True)]

    def word(self, places: IntArray | slice, at: int) -> UnsignedArray:
        """Return the bytes from `at` on of each id, up to 8 and 0 beyond its end.

        No id may end before `at`.
        """
        size = len(self.text) - _WORD + 1
        words: UnsignedArray = np.ndarray(size, "<u8", buffer=self.text, strides=(1,))
        word = words[self.starts[places] + at]
        left = self.lengths[places] - at
        if left.min(initial=_WORD) < _WORD:
            word &= _MASKS[np.minimum(left, _WORD)]
        return word

    def hashes(self, topic_of: IntArray) -> UnsignedArray:
        """Return uint64[ids]: hashes of topic, length and bytes."""
        hashes = (topic_of + 1).astype(np.uint64)
        for begin in range(0, len(hashes), _BLOCK):  # so that little memory is taken beside them
            some = slice(begin, begin + _BLOCK)
            block, lengths = hashes[some], self.lengths[some]
            block *= _GOLDEN
            block ^= lengths.astype(np.uint64) << _HALF
            _mix(block, self.word(some, 0))
            for at in range(_WORD, int(lengths.max(initial=0)), _WORD):
                longer = np.flatnonzero(lengths > at)
                mixed = block[longer]
                _mix(mixed, self.word(begin + longer, at))
                block[longer] = mixed
        return hashes

    def first_alike(self, topic_of: IntArray) -> IntArray:
        """Return int64[ids]: the place of the first equal id of the same topic, int64[ids]."""
        n = len(self.starts)
        # The place of an id takes the low bits of its hash, so that sorting numbers is enough.
        bits = np.uint64(n.bit_length())
        low = (np.uint64(1) << bits) - np.uint64(1)

        def alike(marks: UnsignedArray) -> tuple[IntArray, IntArray]:
            marks |= np.arange(n, dtype=np.uint64)
            marks.sort()
            pairs = np.flatnonzero((marks[1:] ^ marks[:-1]) <= low)
            earlier, later = ((marks[at] & low).astype(np.int64) for at in (pairs, pairs + 1))
            return earlier, later

        pairs = None
        if self.lengths.max(initial=0) <= MAX_ID_BYTES:
            pairs = alike(self.hashes(topic_of) & ~low)
        if pairs is None or not (
            np.array_equal(topic_of[pairs[0]], topic_of[pairs[1]])
            and self.names(pairs[0]) == self.names(pairs[1])
        ):
            numbers: dict[tuple[int, bytes], int] = {}
            named = zip(topic_of.tolist(), self.names(slice(None)), strict=True)
            exact = [numbers.setdefault(each, len(numbers)) for each in named]
            pairs = alike(np.array(exact, np.uint64) << bits)
        first = np.arange(n)
        earlier, later = pairs
        first[later] = earlier
        while not np.array_equal(nearer := first[first], first):
            first = nearer
        return first


def _mix(hashes: UnsignedArray, words: UnsignedArray) -> None:
    hashes ^= words
    hashes *= _ODD
    hashes ^= hashes >> _HALF


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics with their documents: topic i owns the entries offsets[i] to offsets[i + 1].

    `values` is float64: grades or scores. `field` is the path of the topics in the request, and
    `column` the name of the values there.
    """

    query_ids: list[str]
    offsets: IntArray
    ids: Ids
    values: FloatArray
    field: str
    column: str

    @classmethod
    def of_rows(
        cls,
        rows: Sequence[tuple[str, Collection[str], Collection[float]]],
        field: str,
        column: str,
    ) -> Self:
        """Return topics that came one by one: the id of each, its documents, their values.

        Scores may be left out: the given order is then the ranking. Raises InvalidField at
        `field[i].column` for columns of different lengths.
        """
        values: list[Collection[float]] = []
        for i, (_, names, numbers) in enumerate(rows):
            n, ranked = len(names), column == "scores" and not len(numbers)
            if ranked:
                check_unscored(n, f"{field}[{i}]")
            elif len(numbers) != n:
                rule = f"has {len(numbers)} entries for {n} documents"
                raise InvalidField(f"{field}[{i}].{column}", rule)
            values.append(range(0, -n, -1) if ranked else numbers)
        ids = Ids.of([names for _, names, _ in rows])
        offsets, flat = flatten(values)
        return cls([name for name, _, _ in rows], offsets, ids, flat, field, column)

    @classmethod
    def of_columns(
        cls,
        query_ids: list[str],
        counts: IntArray,
        document_ids: str,
        values: FloatArray | None,
        paths: tuple[str, str],
        column: str,
    ) -> Self:
        """Return topics that came in columns.

        `counts` is int64[topics], the documents of each; `document_ids` has a line feed between two
        ids, and `values` is float64, one each, or None: then they are the places in the given
        order, descending from 0. `paths` are those of the topics and of the columns. Raises
        InvalidField below the latter for columns that do not fit together.
        """
        field, path = paths
        if len(counts) != len(query_ids):
            rule = f"has {len(counts)} entries for {len(query_ids)} topics"
            raise InvalidField(f"{path}.n_documents", rule)
        n = int(counts.sum())
        ids = Ids.of_lines(f"{document_ids}\n".encode() if n or document_ids else b"")
        if len(ids.starts) != n:
            rule = f"must have the {n} ids that n_documents add up to, a line feed between two"
            raise InvalidField(f"{path}.document_ids", rule)
        if values is None:
            if n:
                longest = int(counts.argmax())
                check_unscored(int(counts[longest]), f"{field}[{longest}]")
            values = np.subtract(0.0, positions_in_groups(counts))
        if len(values) != n:
            raise InvalidField(f"{path}.values", f"has {len(values)} entries for {n} documents")
        return cls(query_ids, offsets_of(counts), ids, values, field, column)

    def __len__(self) -> int:
        """Return the number of topics."""
        return len(self.query_ids)

    @property
    def counts(self) -> IntArray:
        """int64[topics]: how many documents each has."""
        return np.diff(self.offsets)

    def names(self, topic: int) -> list[str]:
        """Return the ids of a topic's documents."""
        places = slice(self.offsets[topic], self.offsets[topic + 1])
        return [name.decode() for name in self.ids.names(places)]

    def places(self) -> dict[str, int]:
        """Return the place of each topic by its query id, which must not repeat."""
        places: dict[str, int] = {}
        for i, query_id in enumerate(self.query_ids):
            first = places.setdefault(query_id, i)
            if first != i:
                rule = f"is that of {self.field}[{first}] again"
                raise InvalidField(f"{self.field}[{i}].query_id", rule)
        return places

    def check_values(self) -> None:
        """Refuse a value that is not finite in single precision."""
        beyond = ~(np.abs(self.values) <= LARGEST_SINGLE)
        rule = "must be a finite number within single precision, +-3.4e38"
        refuse_first(beyond, self.offsets, self.field, self.column, rule)

    def refuse_repeat(self, first: IntArray) -> None:
        """Raise InvalidField at the first document that its topic has before, if there is one.

        `first` is int64[documents]: the place of the first document that is the same.
        """
        _, places = np.unique(first, return_index=True)
        again = np.ones(len(first), np.bool_)
        again[places] = False
        if again.any():
            place = int(again.argmax())
            earlier = int(places[np.searchsorted(first[places], first[place])])
            topic = int(np.searchsorted(self.offsets, place, side="right")) - 1
            rule = f"has the id of entry {earlier - int(self.offsets[topic])}"
            refuse_first(again, self.offsets, self.field, "document_ids", rule)


def check_unscored(n: int, path: str) -> None:
    """Refuse a topic of n documents without scores, if that is more than can be told apart."""
    if n > MAX_UNSCORED:
        rule = f"holds {n} documents without scores; give scores, or {MAX_UNSCORED} at most"
        raise InvalidField(f"{path}.document_ids", rule)


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
        return ideal_of(self.topic_of[relevant], self.topics.values[relevant], len(self))

    @cached_property
    def n_nonrelevant(self) -> IntArray:
        """int64[topics]: how many documents were judged not relevant."""
        return np.bincount(self.topic_of[self.topics.values == 0], minlength=len(self))


class RankedRun(NamedTuple):
    """A run joined with qrels.

    `rankings` has one query for each entry of `rows` (int64, ascending): the topics of the qrels
    that are evaluated, by their place there. `id_fit` is how the ids of both fit.
    """

    rankings: Rankings
    rows: IntArray
    counts: MetricCounts
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
    n_run = len(topic_of)
    ids = run.ids + qrels.topics.ids
    first = ids.first_alike(np.concatenate([topic_of, qrels.topic_of]))
    del ids  # it holds all that was sent once more
    if np.bincount(first[n_run:]).max(initial=0) > 1:
        qrels.topics.refuse_repeat(first[n_run:])
    kept = np.flatnonzero(first[:n_run] == np.arange(n_run))
    if strict_duplicates and len(kept) < n_run:
        run.refuse_repeat(first[:n_run])

    keys = _sort_keys(topic_of, run.values)
    of_judged = np.flatnonzero(first[n_run:] < n_run)
    places = _ranks(keys, first[n_run:][of_judged], kept, run.ids)
    evaluated = topic_of[kept] < n
    counts = np.bincount(topic_of[kept][evaluated], minlength=n)
    gains = np.full(counts.sum(), np.nan)
    gains[places] = qrels.topics.values[of_judged]
    others = qrels.n_nonrelevant
    rankings = Rankings(offsets_of(counts), gains, *qrels.ideal, judged_others=others)
    rows = np.arange(n) if complete else np.sort(row_of_topic[row_of_topic < n])
    if len(rows) < n:
        rankings = rankings.take(rows)
    skipped = int(np.count_nonzero(row_of_topic >= n))
    counted = MetricCounts(
        queries=n + skipped,
        evaluated=len(rows),
        skipped_missing=n - len(rows),
        skipped_unjudged=skipped,
        duplicates=n_run - len(kept),
    )
    id_fit = _id_fit(qrels, run, at_of, counts, qrels.topic_of[of_judged])
    return RankedRun(rankings, rows, counted, id_fit)


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
    seen = IdSample()
    for row in np.flatnonzero(some & (known < judged)).tolist():
        names = qrels.topics.names(row)
        if seen.wants(names):
            seen.add(names, run.names(at_of[qrels.topics.query_ids[row]]))
    return seen.fit(int(judged[some].sum()), len(known_of), int(counts.sum()))
