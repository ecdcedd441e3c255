"""Which of two texts holds the other, word for word, letter for letter, or by its initials."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np

from judged_server.domain import FloatArray, IntArray
from judged_server.judges.equivalence.rows import Items, find
from judged_server.judges.equivalence.words import Reading

_BETWEEN = bytes(code for code in range(128) if not chr(code).isalnum())
_FIRST_CHARACTER = 0x100
_SHORTEST_RUN = 4
_INITIALS = range(2, 7)
_LONGEST_NAME = 12


def containment(
    reading: Reading, items: Items
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return four columns of 0 and 1, one entry a pair.

    The alternative is in the answer; the answer is in the alternative; they are equal; the letters
    of the alternative, four at least, are in the answer, whatever stands between them. The first
    three compare stems in order, articles left out.
    """
    joined = _joined(reading)

    @cache
    def squeeze(text: int) -> bytes:
        return reading.texts[text].lower().encode("utf-8", "replace").translate(None, _BETWEEN)

    contained: list[int] = []
    reverse: list[int] = []
    compact: list[int] = []
    answers = items.answers[items.pair_item].tolist()
    for pair, (text, answer) in enumerate(zip(items.pair_text.tolist(), answers, strict=True)):
        one, other = joined[text], joined[answer]
        if one and other:
            if one in other:
                contained.append(pair)
            if other in one:
                reverse.append(pair)
        letters = squeeze(text)
        if len(letters) >= _SHORTEST_RUN and letters in squeeze(answer):
            compact.append(pair)
    columns = np.zeros((4, len(items.pair_item)))
    columns[0, contained] = 1
    columns[1, reverse] = 1
    columns[2] = columns[0] * columns[1]
    columns[3, compact] = 1
    return columns[0], columns[1], columns[2], columns[3]


def _joined(reading: Reading) -> list[str]:
    """Return each text with one character a stem, so that a substring is a run of whole words."""
    kept = ~reading.article[reading.words]
    stems = reading.stems[reading.words[kept]] if len(kept) else reading.words
    whole = (stems + _FIRST_CHARACTER).astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
    ends = np.concatenate(([0], np.cumsum(kept)))[reading.first].tolist()
    return [whole[begin:end] for begin, end in pairwise(ends)]


def initials(
    reading: Reading, items: Items, answer_keys: IntArray, pair_row: IntArray, pair_stem: IntArray
) -> FloatArray:
    """Return 1 for each pair of which one side has the initials of the other as a word, else 0.

    `answer_keys` are the keys (item, stem) of answers; the words of pairs stand in two columns.
    """
    n_stems = max(len(reading.stem_numbers), 1)
    first, flat, stop = reading.first.tolist(), reading.words.tolist(), reading.stop.tolist()

    @cache
    def abbreviate(text: int) -> int:
        """Return the number of the stem that is the initials of a text, -1 where none is."""
        begin, end = first[text], first[text + 1]
        if end - begin > _LONGEST_NAME:
            return -1
        letters = [reading.initials[word] for word in flat[begin:end] if not stop[word]]
        return reading.stem_numbers.get("".join(letters), -1) if len(letters) in _INITIALS else -1

    of_pairs = np.array([abbreviate(text) for text in items.pair_text.tolist()], np.int64)
    of_answers = np.array([abbreviate(text) for text in items.answers.tolist()], np.int64)
    result = (of_pairs >= 0) & find(items.pair_item * n_stems + of_pairs, answer_keys)[0]
    wanted = of_answers[items.pair_item[pair_row]]
    result[pair_row[(wanted >= 0) & (wanted == pair_stem)]] = True
    return result.astype(np.float64)
