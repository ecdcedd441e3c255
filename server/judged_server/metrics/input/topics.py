"""The topics of qrels or of a run: all ids as one text, all grades or scores as one array.

Most of the time of ranking goes into the ids, since each has to be looked at. So none becomes a
string of its own unless somebody has to read it: `first_alike` compares them as numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from judged_server.domain import FloatArray, IntArray, UnsignedArray
from judged_server.errors import InvalidField
from judged_server.metrics.input.rankings import (
    flatten,
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


@dataclass(frozen=True, slots=True)
class Ids:
    """Ids as pieces of one text, which ends with eight zeros.

    `starts` and `lengths` are int64, in bytes.
    """

    text: bytes
    starts: IntArray
    lengths: IntArray

    @classmethod
    def of_lines(cls, text: bytes) -> Self:
        """Return the lines of a text whose last line ends as the others do."""
        padded = text + bytes(_WORD)
        ends = np.flatnonzero(np.frombuffer(padded, np.uint8) == _LINE_FEED)
        starts = np.append(0, ends + 1)[:-1]
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
        starts = np.concatenate([self.starts, other.starts + len(self.text)])
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
        hashes = (topic_of + 1).astype(np.uint64) * _GOLDEN
        hashes ^= self.lengths.astype(np.uint64) << _HALF
        _mix(hashes, self.word(slice(None), 0))
        for at in range(_WORD, int(self.lengths.max(initial=0)), _WORD):
            longer = np.flatnonzero(self.lengths > at)
            some = hashes[longer]
            _mix(some, self.word(longer, at))
            hashes[longer] = some
        return hashes

    def first_alike(self, topic_of: IntArray) -> IntArray:
        """Return int64[ids]: the place of the first equal id of the same topic, int64[ids]."""
        n = len(self.starts)
        # The place of an id takes the low bits of its hash, so that sorting numbers is enough.
        bits = np.uint64(n.bit_length())
        low = (np.uint64(1) << bits) - np.uint64(1)

        def alike(marks: UnsignedArray) -> tuple[IntArray, IntArray]:
            keys = marks | np.arange(n, dtype=np.uint64)
            keys.sort()
            pairs = np.flatnonzero((keys[1:] ^ keys[:-1]) <= low)
            earlier, later = ((keys[at] & low).astype(np.int64) for at in (pairs, pairs + 1))
            return earlier, later

        short = self.lengths.max(initial=0) <= MAX_ID_BYTES
        pairs = alike(self.hashes(topic_of) & ~low) if short else None
        if pairs is None or not self._same(topic_of, *pairs):
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

    def _same(self, topic_of: IntArray, first: IntArray, second: IntArray) -> bool:
        """Return whether each id of one is that of the other, and of the same topic."""
        lengths = self.lengths[first]
        if not np.array_equal(lengths, self.lengths[second]):
            return False
        if not np.array_equal(topic_of[first], topic_of[second]):
            return False
        for at in range(0, int(lengths.max(initial=0)), _WORD):
            longer = np.flatnonzero(lengths > at)
            if not np.array_equal(self.word(first[longer], at), self.word(second[longer], at)):
                return False
        return True


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
