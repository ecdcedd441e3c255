"""How long a phrase of an expected text stands word for word in a retrieved text.

A phrase is two to four neighbours among the content tokens of an expected text, joined by single
spaces, and is found wherever the normal form of a retrieved text has it, even inside words.
"""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.judges.lexical.texts import Batch, Texts
from judged_server.judges.lexical.tokens import KeyArray, ranges

SHORTEST, LONGEST = 2, 4

_MULTIPLIER, _ROW_MULTIPLIER = (np.uint64(secrets.randbits(64) | 1) for _ in range(2))


def longest_phrases(
    texts: Texts, batch: Batch, content: FloatArray, contexts: BoolArray
) -> IntArray:
    """Return how many tokens the longest common phrase of each context has, 0 for none: int64.

    Only the `contexts` that are true are looked at. `content` is 0 for the terms to leave out.
    """
    result = np.zeros(len(contexts), np.int64)
    places = np.flatnonzero(contexts)
    if not places.size:
        return result
    phrases = _ExpectedPhrases(texts, batch, content)
    of_context, pairs, likely = _likely_pairs(texts, batch, phrases, places)
    searched = [texts.normal(text) for text in batch.retrieved[batch.retrieved_of[places]].tolist()]
    found = np.zeros(len(places), np.int64)
    for length in range(LONGEST, SHORTEST - 1, -1):
        # A phrase is likely where all its pairs are, which must be of one context.
        n_pairs = length - 1
        run = likely[: len(likely) - n_pairs + 1].copy()
        for step in range(1, n_pairs):
            run &= likely[step : len(run) + step]
        run &= of_context[: len(run)] == of_context[n_pairs - 1 :]
        run &= found[of_context[: len(run)]] == 0
        starts = np.flatnonzero(run)
        for context, pair in zip(of_context[starts].tolist(), pairs[starts].tolist(), strict=True):
            if not found[context] and phrases.text(pair, length) in searched[context]:
                found[context] = length
    result[places] = found
    return result


class _ExpectedPhrases:
    """The pairs of neighbours among the content tokens of a batch's expected texts.

    Row i of the batch owns the pairs `first[i]:first[i + 1]`. `joints` has the last two letters of
    a pair's left token and the first two of its right one; `short` marks the pairs that have a
    token of one letter, whose joint says nothing.
    """

    def __init__(self, texts: Texts, batch: Batch, content: FloatArray) -> None:
        tokens = texts.tokens
        kept = np.flatnonzero(content[batch.expected_terms])
        rows = batch.expected_rows[kept]
        at = batch.expected_tokens[kept]
        neighbours = np.flatnonzero(rows[1:] == rows[:-1])
        left, right = at[neighbours], at[neighbours + 1]
        self._words = tokens.words(at)
        self._left = neighbours.tolist()
        self.joints = tokens.joints(left, right)
        self.short: BoolArray = np.minimum(tokens.lengths[left], tokens.lengths[right]) < 2
        self.first = np.searchsorted(rows[neighbours], np.arange(len(batch.expected) + 1))

    def text(self, pair: int, length: int) -> str:
        """Return the phrase of `length` tokens that begins with a pair."""
        start = self._left[pair]
        return b" ".join(self._words[start : start + length]).decode()


def _likely_pairs(
    texts: Texts, batch: Batch, phrases: _ExpectedPhrases, places: IntArray
) -> tuple[IntArray, IntArray, BoolArray]:
    """Return all pairs of the contexts: positions in `places`, pair numbers, whether to search.

    Where a pair stands in a text, two neighbouring tokens of the text have the pair's joint. The
    joints of all retrieved texts go into one table of marks, in which a wrong hit is rare.
    """
    tokens = texts.tokens
    rows, row_of = np.unique(batch.retrieved_of[places], return_inverse=True)
    counts, at = tokens.of_texts(batch.retrieved[rows])
    owners = np.repeat(np.arange(len(rows)), counts)
    left = np.flatnonzero(owners[1:] == owners[:-1])
    shift = np.uint64(64 - max(8, len(left).bit_length() + 4))
    marks = np.zeros(1 << (64 - int(shift)), np.bool_)
    marks[_slots(tokens.joints(at[left], at[left + 1]), owners[left], shift)] = True

    expected = batch.expected_of[places]
    starts = phrases.first[expected]
    counts = phrases.first[expected + 1] - starts
    pairs = ranges(starts, counts)
    of_context = np.repeat(np.arange(len(places)), counts)
    likely = marks[_slots(phrases.joints[pairs], row_of[of_context], shift)]
    return of_context, pairs, likely | phrases.short[pairs]


def _slots(joints: KeyArray, rows: IntArray, shift: np.uint64) -> NDArray[np.uint64]:
    return ((joints + rows.astype(np.uint64) * _ROW_MULTIPLIER) * _MULTIPLIER) >> shift
