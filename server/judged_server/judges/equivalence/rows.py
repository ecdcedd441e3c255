"""Words of many texts in a row, and what is known of items before anything is counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.judges.equivalence.words import Reading
from judged_server.judges.lexical.tokens import ranges


@dataclass(frozen=True, slots=True)
class Items:
    """Items by the numbers of their texts in a Reading.

    `queries` and `answers` are int64[n]. Pair p sets the alternative `pair_text[p]` beside the
    answer of `pair_item[p]`: items ascend, each has at least one pair and no alternative twice.
    """

    queries: IntArray
    answers: IntArray
    pair_item: IntArray
    pair_text: IntArray

    def __len__(self) -> int:
        return len(self.queries)


class Rows:
    """Words, each with the row (an item or a pair) that it is in and its place in the text.

    All columns are int64 of one length, rows ascending. `counts` is how many words each row has,
    those that were left out later included.
    """

    def __init__(self, reading: Reading, texts: IntArray) -> None:
        """Take all words of the text of each row."""
        starts = reading.first[texts]
        self.counts = reading.first[texts + 1] - starts
        self.row = np.repeat(np.arange(len(texts)), self.counts)
        self.place = ranges(np.zeros_like(starts), self.counts)
        self.word = reading.words[ranges(starts, self.counts)]
        self.stem = reading.stems[self.word] if len(self.word) else self.word

    def keep(self, which: BoolArray | IntArray) -> None:
        """Leave out the other words."""
        self.row, self.place = self.row[which], self.place[which]
        self.word, self.stem = self.word[which], self.stem[which]

    def keep_distinct(self, n_stems: int) -> IntArray:
        """Keep the first word of each stem of a row; return the keys (row, stem), ascending."""
        keys: IntArray
        keys, first = np.unique(self.row * n_stems + self.stem, return_index=True)
        self.keep(first)
        return keys


def find(keys: IntArray, among: IntArray) -> tuple[BoolArray, IntArray]:
    """Return which keys are in an ascending array, and the places of those that are."""
    if not len(among):
        return np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.int64)
    places = np.minimum(np.searchsorted(among, keys), len(among) - 1)
    return among[places] == keys, places


def share(part: FloatArray, whole: FloatArray, otherwise: float | FloatArray) -> FloatArray:
    """Return part / whole, and `otherwise` where the whole is 0."""
    return np.where(whole > 0, part / np.maximum(whole, 1e-12), otherwise)


def crossed(left_row: IntArray, right_row: IntArray, n_rows: int) -> tuple[IntArray, IntArray]:
    """Return the places of every left entry with every right entry of its row, left-major.

    `right_row` ascends.
    """
    counts = np.bincount(right_row, minlength=n_rows)
    starts = np.cumsum(counts) - counts
    n_each = counts[left_row]
    return np.repeat(np.arange(len(left_row)), n_each), ranges(starts[left_row], n_each)
