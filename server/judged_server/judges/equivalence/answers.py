"""The answers of items: their words, those that the query has too, and how they are put."""

from __future__ import annotations

import re

import numpy as np

from judged_server.domain import BoolArray, FloatArray
from judged_server.judges.equivalence.rows import Items, Rows, find, share
from judged_server.judges.equivalence.words import Reading

_REFUSAL = re.compile(
    r"\b(?:sorry|apologi|i (?:do not|don't|cannot|can't|am unable|couldn't|could not)|as an ai|"
    r"no (?:information|record|specific|single|definitive|one)|not (?:enough|clear|specified|"
    r"available|possible|provide|known|mention|sure|a (?:valid|real))|unable to|unknown|unclear|"
    r"unsure|uncertain|there (?:is|are|was|were) no|does(?: not|n't) (?:exist|have|provide|say)|"
    r"did(?: not|n't)|has(?: not|n't)|have not|haven't)"
)
_QUESTION = re.compile(
    r"\b(who|whom|whose|when|where|which|what|why|how many|how much|how long|how old|how|"
    r"year|date|name)\b"
)
_KINDS = {
    **dict.fromkeys(("who", "whom", "whose"), 0),
    **dict.fromkeys(("when", "year", "date"), 1),
    "where": 2,
    "which": 3,
    **dict.fromkeys(("what", "name"), 4),
    **dict.fromkeys(("why", "how"), 5),
    **dict.fromkeys(("how many", "how much", "how long", "how old"), 6),
}
_NO_KIND = 7
_SURFACE = ("capitalised", "sentence", "commas", "or", "lines")


class Answers:
    """The words of each item's answer.

    `words` are all of them, in order, with bool columns of the same length: `in_query`, and `novel`
    for content that the query does not have. `distinct` has the first word of each stem, with
    `keys` (item, stem); `asked` are the keys of the query's stems.
    """

    def __init__(self, reading: Reading, items: Items) -> None:
        """Count nothing yet."""
        self._reading = reading
        self._n = len(items)
        self._answers = items.answers
        self.n_stems = max(len(reading.stem_numbers), 1)
        query = Rows(reading, items.queries)
        self.n_asked = query.counts.astype(np.float64)
        self.asked = query.keep_distinct(self.n_stems)
        self.words = Rows(reading, items.answers)
        self.n_words = self.words.counts.astype(np.float64)
        self.in_query = find(self.words.row * self.n_stems + self.words.stem, self.asked)[0]
        self._content = ~reading.stop[self.words.word]
        self.novel = self._content & ~self.in_query
        self.is_number = ~np.isnan(reading.numbers[self.words.word])
        self.distinct = Rows(reading, items.answers)
        self.keys = self.distinct.keep_distinct(self.n_stems)
        novel = ~reading.stop[self.distinct.word] & ~find(self.keys, self.asked)[0]
        self.n_novel = np.bincount(self.distinct.row[novel], minlength=self._n).astype(np.float64)

    def count(self, which: BoolArray) -> FloatArray:
        """Return, by item, how many of its words are true in a column of them."""
        return np.bincount(self.words.row[which], minlength=self._n).astype(np.float64)

    def features(self) -> dict[str, FloatArray]:
        """Return what the words of answer and query say without any alternative."""
        reading, words = self._reading, self.words.word
        new = ~self.in_query
        return {
            "n_answer": np.minimum(self.n_words, 120),
            "n_answer_short": np.minimum(self.n_words, 10),
            "n_novel": np.minimum(self.n_novel, 60),
            "n_novel_short": np.minimum(self.n_novel, 8),
            "n_asked": np.minimum(self.n_asked, 20),
            "echo": share(
                self.count(self.in_query & self._content), self.count(self._content), 0.0
            ),
            "n_capitals": np.minimum(self.count(self.novel & reading.capital[words]), 15),
            "n_numbers": np.minimum(self.count(new & self.is_number), 8),
            "n_years": np.minimum(self.count(new & reading.year[words]), 4),
            "n_negations": np.minimum(self.count(reading.negation[words]), 4),
            "hedges": np.minimum(self.count(reading.hedge[words]), 4),
            "contrast": np.minimum(self.count(reading.contrast[words]), 1),
            "refusal": self._refusals(),
        }

    def _refusals(self) -> FloatArray:
        """Return 1 for answers that refuse, or say that they do not know."""
        refusals = (self.count(self._reading.refusing[self.words.word]) > 0).astype(np.float64)
        for item in np.flatnonzero(refusals).tolist():
            answer = self._reading.texts[self._answers[item]]
            refusals[item] = _REFUSAL.search(answer.lower().replace("\u2019", "'")) is not None
        return refusals


def surface(reading: Reading, items: Items) -> dict[str, FloatArray]:
    """Return what the query asks for, and how the answer is put: hedges, refusals, punctuation."""
    kinds = {text: _kind(reading.texts[text]) for text in set(items.queries.tolist())}
    kind = np.array([kinds[text] for text in items.queries.tolist()], np.int64)
    columns = {f"asks_{k}": (kind == k).astype(np.float64) for k in range(_NO_KIND + 1)}
    shown = {text: _shown(reading.texts[text]) for text in set(items.answers.tolist())}
    table = np.array([shown[text] for text in items.answers.tolist()], np.float64)
    table = table.reshape(len(items), len(_SURFACE))
    for place, name in enumerate(_SURFACE):
        columns[name] = np.ascontiguousarray(table[:, place])
    return columns


def _kind(query: str) -> int:
    found = _QUESTION.search(query.lower())
    return _NO_KIND if found is None else _KINDS[found[1]]


def _shown(answer: str) -> tuple[float, ...]:
    lowered = answer.lower()
    return (
        float(answer[:1].isupper()),
        float(answer.rstrip()[-1:] in (".", "!")),
        float(min(lowered.count(","), 6)),
        float(" or " in lowered),
        float("\n" in answer.strip()),
    )
