"""Topics whose documents came in columns: all ids as one text, all values as one array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Self, cast, overload

import numpy as np

from judged_server.domain import BoolArray, FloatArray, IntArray, UnsignedArray
from judged_server.errors import InvalidField
from judged_server.metrics.input.rankings import offsets_of, positions_in_groups, take_groups
from judged_server.metrics.input.trec_topics import AnyTopic, Topic


@dataclass(frozen=True, slots=True)
class ColumnarTopics(Sequence[Topic]):
    """The topics of qrels or of a run.

    `query_ids` is parallel to the topics of `lines`, `values` to its lines: float64, grades or
    scores. As a sequence it has the topics one by one, each made when it is asked for.
    """

    query_ids: list[str]
    lines: Lines
    values: FloatArray

    @classmethod
    def of(
        cls,
        query_ids: list[str],
        counts: IntArray,
        document_ids: str,
        values: FloatArray | None,
        field: str,
    ) -> Self:
        """Return the topics of columns.

        `counts` is int64[topics], the documents of each; `document_ids` has a line feed between two
        ids, and `values` is float64, one each, or None: then they are the places in the given
        order, descending from 0. Raises InvalidField below `field` for columns that do not fit
        together.
        """
        if len(counts) != len(query_ids):
            rule = f"has {len(counts)} entries for {len(query_ids)} topics"
            raise InvalidField(f"{field}.n_documents", rule)
        n = int(counts.sum())
        lines = Lines.of(document_ids.encode(), counts)
        if lines is None:
            rule = f"must have the {n} ids that n_documents add up to, a line feed between two"
            raise InvalidField(f"{field}.document_ids", rule)
        if values is None:
            values = np.subtract(0.0, positions_in_groups(counts))
        if len(values) != n:
            raise InvalidField(f"{field}.values", f"has {len(values)} entries for {n} documents")
        return cls(query_ids, lines, values)

    def __len__(self) -> int:
        """Return the number of topics."""
        return len(self.query_ids)

    @overload
    def __getitem__(self, at: int) -> Topic: ...
    @overload
    def __getitem__(self, at: slice) -> ColumnarTopics: ...
    def __getitem__(self, at: int | slice) -> Topic | ColumnarTopics:
        """Return one topic, or those of a slice without steps."""
        offsets = self.lines.offsets
        if isinstance(at, slice):
            begin, end, _ = at.indices(len(self))
            values = self.values[offsets[begin] : offsets[end]]
            return ColumnarTopics(self.query_ids[at], self.lines.topics(begin, end), values)
        query_id, values = self.query_ids[at], self.values[offsets[at] : offsets[at + 1]].tolist()
        ids = self.lines.text_of(at).decode().split(SEPARATOR) if values else []
        return Topic(query_id, ids, values)

    def chosen(self, places: Sequence[int | None]) -> ColumnarTopics:
        """Return the topics at places in their order; None stands for one without documents."""
        if places == list(range(len(self))):
            return self
        lines, all_counts = self.lines, self.lines.counts.tolist()
        counts = np.array([0 if at is None else all_counts[at] for at in places], np.int64)
        text = b"\n".join([lines.text_of(at) for at in places if at is not None and all_counts[at]])
        rows = np.array([at for at in places if at is not None], np.int64)
        _, flat = take_groups(lines.offsets, rows)
        of_these = cast("Lines", Lines.of(text, counts))  # counts are those of the text's pieces
        ids = ["" if at is None else self.query_ids[at] for at in places]
        return ColumnarTopics(ids, of_these, self.values[flat])


def query_ids(topics: Sequence[AnyTopic]) -> list[str]:
    """Return the query ids of topics."""
    if isinstance(topics, ColumnarTopics):
        return topics.query_ids
    return list(map(_QUERY_ID, topics))


_QUERY_ID = attrgetter("query_id")


SEPARATOR = "\n"
MAX_ID_BYTES = 256
"""Longer ids are compared one by one: hashing takes a step for every 8 bytes of the longest."""

_LINE_FEED = ord(SEPARATOR)
_WORD = 8
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], np.uint64)
_GOLDEN, _ODD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)


@dataclass(frozen=True, slots=True)
class Lines:
    """The ids of topics as lines of one text, topic after topic.

    `text` ends with a line feed and eight zeros. `starts` and `lengths` are int64[lines], in bytes;
    `offsets` is int64[topics + 1]: topic i has the lines from offsets[i] to before offsets[i + 1].
    """

    text: bytes
    starts: IntArray
    lengths: IntArray
    offsets: IntArray

    @classmethod
    def of(cls, text: bytes, counts: IntArray) -> Self | None:
        """Return the lines of a text; `counts`, int64[topics], says how many each topic has.

        None where these do not add up to the number of lines. Without topics or ids there are no
        lines; else there is one more than line feeds.
        """
        offsets = offsets_of(counts)
        padded = b"".join((text, b"\n" if offsets[-1] or text else b"", bytes(_WORD)))
        ends = np.flatnonzero(np.frombuffer(padded, np.uint8) == _LINE_FEED)
        if len(ends) != offsets[-1]:
            return None
        starts = np.empty_like(ends)
        starts[:1] = 0
        starts[1:] = ends[:-1] + 1
        return cls(padded, starts, ends - starts, offsets)

    @property
    def counts(self) -> IntArray:
        """int64[topics]: the lines of each topic."""
        return np.diff(self.offsets)

    def topics(self, begin: int, end: int) -> Self:
        """Return the lines of the topics from `begin` to before `end`."""
        offsets = self.offsets[begin : end + 1]
        of_these = slice(offsets[0], offsets[-1])
        return type(self)(
            self.text, self.starts[of_these], self.lengths[of_these], offsets - offsets[0]
        )

    def text_of(self, topic: int) -> bytes:
        """Return the ids of a topic, which must have one or more, with line feeds between."""
        first, last = self.offsets[topic], self.offsets[topic + 1] - 1
        return self.text[self.starts[first] : self.starts[last] + self.lengths[last]]

    def word(self, lines: IntArray | slice, at: int) -> UnsignedArray:
        """Return the bytes from `at` on of each line, up to 8 and 0 beyond its end.

        No line may end before `at`.
        """
        words: UnsignedArray = np.ndarray(
            len(self.text) - _WORD + 1, "<u8", buffer=self.text, strides=(1,)
        )
        word = words[self.starts[lines] + at]
        left = self.lengths[lines] - at
        if left.min(initial=_WORD) < _WORD:
            word &= _MASKS[np.minimum(left, _WORD)]
        return word

    def hashes(self) -> UnsignedArray:
        """Return uint64[lines]: hashes of topic, length and bytes."""
        counts = self.counts
        hashes = np.repeat(np.arange(1, len(counts) + 1, dtype=np.uint64) * _GOLDEN, counts)
        hashes ^= self.lengths.astype(np.uint64) << _HALF
        _mix(hashes, self.word(slice(None), 0))
        for at in range(_WORD, int(self.lengths.max(initial=0)), _WORD):
            longer = np.flatnonzero(self.lengths > at)
            some = hashes[longer]
            _mix(some, self.word(longer, at))
            hashes[longer] = some
        return hashes

    def topic_of(self, lines: IntArray) -> IntArray:
        """Return the topics of lines."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.counts)[lines]


@dataclass(frozen=True, slots=True)
class Matches:
    """Where the judged documents of topics are among those that were retrieved.

    `judged` and `retrieved` are parallel int64 arrays of places, counted over all topics: the
    judged documents that were retrieved, ascending, and where.
    """

    judged: IntArray
    retrieved: IntArray


def match(retrieved: Lines, judged: Lines) -> Matches | None:
    """Return the matches of topics; the two have the same topics.

    None where that takes a look at single ids: an id repeats in a topic, is longer than
    MAX_ID_BYTES, or shares its hash with another.
    """
    longest = max(retrieved.lengths.max(initial=0), judged.lengths.max(initial=0))
    if longest > MAX_ID_BYTES:
        return None
    hashes = np.concatenate([retrieved.hashes(), judged.hashes()])
    # The place of an id takes the low bits of its hash, so that sorting numbers is enough.
    bits = np.uint64(len(hashes).bit_length())
    low = (np.uint64(1) << bits) - np.uint64(1)
    keys = hashes & ~low | np.arange(len(hashes), dtype=np.uint64)
    keys.sort()
    equal = (keys[1:] ^ keys[:-1]) <= low
    pairs = np.flatnonzero(equal)
    first, second = ((keys[at] & low).astype(np.int64) for at in (pairs, pairs + 1))
    n = len(retrieved.lengths)
    second -= n
    three_alike = bool(np.any(equal[1:] & equal[:-1]))
    if three_alike or not (np.all(first < n) and np.all(second >= 0)):
        return None
    if not _same(retrieved, first, judged, second):
        return None
    order = np.argsort(second)
    return Matches(second[order], first[order])


def _mix(hashes: UnsignedArray, words: UnsignedArray) -> None:
    hashes ^= words
    hashes *= _ODD
    hashes ^= hashes >> _HALF


def _same(a: Lines, of_a: IntArray, b: Lines, of_b: IntArray) -> bool:
    """Return whether each line of one is that of the other, and of the same topic."""
    lengths = a.lengths[of_a]
    same: BoolArray = (lengths == b.lengths[of_b]) & (a.topic_of(of_a) == b.topic_of(of_b))
    if not same.all():
        return False
    for at in range(0, int(lengths.max(initial=0)), _WORD):
        longer = np.flatnonzero(lengths > at)
        if not np.array_equal(a.word(of_a[longer], at), b.word(of_b[longer], at)):
            return False
    return True
