"""Finds judged documents among retrieved ones where the ids of a topic came as one text.

Owns the comparing of ids that no string was ever made of. Ids become 64-bit hashes of topic and
bytes, all at once, and one sort brings equal ones together. Whatever the hashes make equal is then
compared byte by byte, so that no answer hangs on them; where they can't decide there is none, and
`trec` looks at the ids one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from judged_server.domain import BoolArray, IntArray, UnsignedArray

SEPARATOR = "\n"
MAX_ID_BYTES = 256
"""Longer ids are compared one by one: hashing takes a step for every 8 bytes of the longest."""

_LINE_FEED = ord(SEPARATOR)
_WORD = 8
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], np.uint64)
_GOLDEN, _ODD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)


def split_ids(joined: str) -> list[str]:
    """Return the ids in a text; an empty text has none."""
    return joined.split(SEPARATOR) if joined else []


@dataclass(frozen=True, slots=True)
class Matches:
    """Where the judged documents of topics are among those that were retrieved.

    `n_retrieved` and `n_judged` are int64[topics]. `judged` and `retrieved` are parallel int64
    arrays of places, counted over all topics: the judged documents that were retrieved, ascending,
    and where.
    """

    n_retrieved: IntArray
    n_judged: IntArray
    judged: IntArray
    retrieved: IntArray


def match_joined(retrieved: Sequence[str], judged: Sequence[str]) -> Matches | None:
    """Return the matches of topics, given their joined ids; the two are parallel.

    None where that takes a look at single ids: an id repeats in a topic, is longer than
    MAX_ID_BYTES, or shares its hash with another.
    """
    runs, qrels = _Lines.of(retrieved), _Lines.of(judged)
    longest = max(runs.lengths.max(initial=0), qrels.lengths.max(initial=0))
    if longest > MAX_ID_BYTES:
        return None
    hashes = np.concatenate([runs.hashes(), qrels.hashes()])
    # The place of an id takes the low bits of its hash, so that sorting numbers is enough.
    bits = np.uint64(len(hashes).bit_length())
    low = (np.uint64(1) << bits) - np.uint64(1)
    keys = hashes & ~low | np.arange(len(hashes), dtype=np.uint64)
    keys.sort()
    equal = (keys[1:] ^ keys[:-1]) <= low
    pairs = np.flatnonzero(equal)
    first, second = ((keys[at] & low).astype(np.int64) for at in (pairs, pairs + 1))
    n = len(runs.lengths)
    second -= n
    three_alike = bool(np.any(equal[1:] & equal[:-1]))
    if three_alike or not (np.all(first < n) and np.all(second >= 0)):
        return None
    if not _same(runs, first, qrels, second):
        return None
    order = np.argsort(second)
    return Matches(runs.counts, qrels.counts, second[order], first[order])


@dataclass(frozen=True, slots=True)
class _Lines:
    """The ids of topics as lines of one text.

    `words` is uint64[bytes]: the 8 bytes from each byte of the text on, zeros behind its end.
    `starts` and `lengths` are int64[lines], in bytes; `counts` is int64[topics], in lines.
    """

    words: UnsignedArray
    starts: IntArray
    lengths: IntArray
    counts: IntArray

    @classmethod
    def of(cls, joined: Sequence[str]) -> _Lines:
        texts = [text.encode() for text in joined]
        text = b"\n".join(filter(None, texts))
        if text:
            text += b"\n"
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _LINE_FEED)
        starts = np.empty_like(ends)
        starts[:1] = 0
        starts[1:] = ends[:-1] + 1
        counts = np.fromiter(map(bytes.count, texts, repeat(b"\n")), np.int64, len(texts))
        counts += np.fromiter(map(bool, texts), np.bool_, len(texts))
        words: UnsignedArray = np.ndarray(
            len(text) + 1, "<u8", buffer=text + bytes(_WORD), strides=(1,)
        )
        return cls(words, starts, ends - starts, counts)

    def word(self, lines: IntArray | slice, at: int) -> UnsignedArray:
        """Return the bytes from `at` on of each line, up to 8 and 0 beyond its end.

        No line may end before `at`.
        """
        word = self.words[self.starts[lines] + at]
        word &= _MASKS[np.minimum(self.lengths[lines] - at, _WORD)]
        return word

    def hashes(self) -> UnsignedArray:
        """Return uint64[lines]: hashes of topic, length and bytes."""
        topics = np.arange(1, len(self.counts) + 1, dtype=np.uint64)
        hashes = np.repeat(topics * _GOLDEN, self.counts)
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
        return np.repeat(np.arange(len(self.counts)), self.counts)[lines]


def _mix(hashes: UnsignedArray, words: UnsignedArray) -> None:
    hashes ^= words
    hashes *= _ODD
    hashes ^= hashes >> _HALF


def _same(a: _Lines, of_a: IntArray, b: _Lines, of_b: IntArray) -> bool:
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
