"""What the model is told of an item: numbers drawn from the query, all alternatives and the answer.

Features of alternatives are taken together in ways that do not hang on their order: the largest,
the mean, or those of the alternative that fits best. No feature hangs on the other items of a
batch, to the last bit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.judges.equivalence.words import Reading

VERSION = 1
"""Enters the signature; a model is for the features of one version."""

_NOWHERE = 60
"""Stands for the place of words that are not there, and for all places beyond it."""
_ALIKE = 0.5
"""Words that share less than this of their letter pairs (Dice) are not alike at all."""
_SHORTEST_ALIKE = 3
_STEPS = 4096.0
"""Likenesses and means are multiples of one part in so many: their sums are exact in any order, and
so do not hang on what else is in the batch."""

_BETWEEN = bytes(code for code in range(128) if not chr(code).isalnum())
_FIRST_CHARACTER = 0x100
_SHORTEST_RUN = 4
_INITIALS = range(2, 7)
_LONGEST_NAME = 12

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
_MOST = (
    *("equal", "contained", "reverse_contained", "compact_contained", "acronym", "recall"),
    *("fresh_recall", "letter_recall", "soft_recall", "best_alike", "precision", "harmonic"),
    *("last_hit", "first_hit"),
)
_BEST = (
    *("recall", "fresh_recall", "soft_recall", "precision", "last_hit", "words", "fresh", "missed"),
    *("capital_missed", "begins", "begins_share", "spread", "distance", "num", "num_missing"),
    *("year", "month", "negations", "num_conflict", "year_conflict", "month_conflict", "contained"),
)
_LEAST = ("num_conflict", "distance", "begins")
_MEAN = ("recall", "contained", "words")


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
        self._facts = reading.facts
        self.counts = reading.first[texts + 1] - starts
        self.row = np.repeat(np.arange(len(texts)), self.counts)
        self.place = ranges(np.zeros_like(starts), self.counts)
        self.word = reading.words[ranges(starts, self.counts)]

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a fact of each word, by the field of Word."""
        return self._facts[name][self.word]

    def keep(self, which: BoolArray | IntArray) -> None:
        """Leave out the other words."""
        self.row, self.place, self.word = self.row[which], self.place[which], self.word[which]

    def keep_distinct(self, n_stems: int) -> IntArray:
        """Keep the first word of each stem of a row; return the keys (row, stem), ascending."""
        keys: IntArray
        keys, first = np.unique(self.row * n_stems + self["stem"], return_index=True)
        self.keep(first)
        return keys

    def sum(self, values: FloatArray | BoolArray) -> FloatArray:
        """Return the sum of a value of each word, by row."""
        sums = np.bincount(self.row, values.astype(np.float64), len(self.counts))
        return sums.astype(np.float64, copy=False)

    def most(self, values: FloatArray) -> FloatArray:
        """Return the largest value of a word, by row; 0 without any."""
        result = np.zeros(len(self.counts))
        np.maximum.at(result, self.row, values)
        return result

    def least(self, values: FloatArray, otherwise: float) -> FloatArray:
        """Return the smallest value of a word, by row."""
        result = np.full(len(self.counts), otherwise)
        np.minimum.at(result, self.row, values)
        return result


def ranges(starts: IntArray, counts: IntArray) -> IntArray:
    """Return `counts[i]` consecutive numbers from `starts[i]`, for each i, one after another."""
    ends = np.cumsum(counts)
    return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - ends + counts, counts)


def find(keys: IntArray, among: IntArray) -> tuple[BoolArray, IntArray]:
    """Return which keys are in an ascending array, and the places of those that are."""
    if not len(among):
        return np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.int64)
    places = np.minimum(np.searchsorted(among, keys), len(among) - 1)
    return among[places] == keys, places


def share(part: FloatArray, whole: FloatArray, otherwise: float | FloatArray) -> FloatArray:
    """Return part / whole, and `otherwise` where the whole is 0."""
    return np.where(whole > 0, part / np.maximum(whole, 1e-12), otherwise)


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
    facts, words = reading.facts, reading.words
    kept = ~facts["article"][words]
    stems = facts["stem"][words[kept]]
    whole = (stems + _FIRST_CHARACTER).astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
    ends = np.concatenate(([0], np.cumsum(kept)))[reading.first].tolist()
    return [whole[begin:end] for begin, end in pairwise(ends)]


def initials(reading: Reading, items: Items, answer_keys: IntArray, words: Rows) -> FloatArray:
    """Return 1 for each pair of which one side has the initials of the other as a word, else 0.

    `answer_keys` are the keys (item, stem) of answers, and `words` those of pairs.
    """
    n_stems = max(len(reading.stem_numbers), 1)
    first, flat = reading.first.tolist(), reading.words.tolist()
    stop, initial = (reading.facts[name].tolist() for name in ("stop", "initial"))

    @cache
    def abbreviate(text: int) -> int:
        """Return the number of the stem that is the initials of a text, -1 where none is."""
        begin, end = first[text], first[text + 1]
        if end - begin > _LONGEST_NAME:
            return -1
        letters = [initial[word] for word in flat[begin:end] if not stop[word]]
        return reading.stem_numbers.get("".join(letters), -1) if len(letters) in _INITIALS else -1

    of_pairs = np.array([abbreviate(text) for text in items.pair_text.tolist()], np.int64)
    of_answers = np.array([abbreviate(text) for text in items.answers.tolist()], np.int64)
    result = (of_pairs >= 0) & find(items.pair_item * n_stems + of_pairs, answer_keys)[0]
    wanted = of_answers[items.pair_item[words.row]]
    result[words.row[(wanted >= 0) & (wanted == words["stem"])]] = True
    return result.astype(np.float64)


def features(reading: Reading, items: Items) -> dict[str, FloatArray]:
    """Return the features of every item by name, always in the same order: float64[n] each."""
    sides = _Sides(reading, items)
    columns, best = sides.columns, sides.best
    first = np.searchsorted(items.pair_item, np.arange(len(items)))
    n_pairs = np.diff(np.append(first, len(items.pair_item))).astype(np.float64)
    result = {f"most_{name}": np.maximum.reduceat(columns[name], first) for name in _MOST}
    result |= {f"best_{name}": columns[name][best] for name in _BEST}
    result |= {f"least_{name}": np.minimum.reduceat(columns[name], first) for name in _LEAST}
    for name in _MEAN:
        # Whole numbers, whose sums are exact in any order.
        steps = np.round(columns[name] * _STEPS)
        sums = np.bincount(items.pair_item, weights=steps, minlength=len(items))
        result[f"mean_{name}"] = sums / _STEPS / n_pairs
    result["n_alternatives"] = np.minimum(n_pairs, 30)
    unmatched = sides.n_novel - sides.n_fresh_hit[best]
    result["n_unmatched"] = np.minimum(unmatched, 30)
    result["n_unmatched_short"] = np.minimum(unmatched, 6)
    return {**result, **sides.of_answers(), **sides.around_best(), **_surface(reading, items)}


class _Sides:
    """The answers of items, and their alternatives beside them.

    An item has words of its answer: `novel` ones are content that the query does not have. A pair
    has words of its alternative: `hit` ones are in the answer, `fresh` ones are content that the
    query does not have. `columns` has float64 columns with an entry a pair, and `best`, by item,
    the pair whose alternative fits best. Keys are of an item and a stem.
    """

    def __init__(self, reading: Reading, items: Items) -> None:
        """Compare every alternative with its answer."""
        self._reading, self._items = reading, items
        self._n_stems = max(len(reading.stem_numbers), 1)
        query, distinct = Rows(reading, items.queries), Rows(reading, items.answers)
        self._n_asked = query.counts.astype(np.float64)
        asked = query.keep_distinct(self._n_stems)
        answers = self._answers = Rows(reading, items.answers)
        self._answer_keys = answers.row * self._n_stems + answers["stem"]
        self._new = ~find(self._answer_keys, asked)[0]
        self._novel = ~answers["stop"] & self._new
        self._is_number = ~np.isnan(answers["number"])
        keys = distinct.keep_distinct(self._n_stems)
        self.n_novel = distinct.sum(~distinct["stop"] & ~find(keys, asked)[0])

        words = self._words = Rows(reading, items.pair_text)
        words.keep(~words["article"])
        words.keep_distinct(self._n_stems)
        self._keys = items.pair_item[words.row] * self._n_stems + words["stem"]
        self._hit, places = find(self._keys, keys)
        self._where = np.full(len(self._keys), _NOWHERE)
        self._where[self._hit] = np.minimum(distinct.place[places[self._hit]], _NOWHERE)
        stop = words["stop"]
        # An alternative of stop words alone ("The Who", "It") is read in full.
        self._content = ~stop | (words.sum(~stop) == 0)[words.row]
        self._fresh = self._content & ~find(self._keys, asked)[0]
        self._n_words = words.sum(np.ones(len(self._keys)))
        self._n_hit = words.sum(self._content & self._hit)
        self._n_fresh = words.sum(self._fresh)
        self.n_fresh_hit = words.sum(self._fresh & self._hit)
        self.columns = {**self._shares(), **self._places(), **self._numbers()}
        names = ("contained", "reverse_contained", "equal", "compact_contained")
        self.columns.update(zip(names, containment(reading, items), strict=True))
        self.columns["acronym"] = initials(reading, items, keys, words)
        self.best = self._choose()

    def _shares(self) -> dict[str, FloatArray]:
        words, hit, content = self._words, self._hit, self._content
        n_content = words.sum(content)
        recall = share(self._n_hit, n_content, 0.0)
        fresh_recall = share(self.n_fresh_hit, self._n_fresh, recall)
        lengths = words["length"].astype(np.float64)
        alike = self._likeness()
        soft = np.where(hit, 1.0, np.where(alike >= _ALIKE, alike, 0.0))
        precision = share(self.n_fresh_hit, self.n_novel[self._items.pair_item], 0.0)
        capital_missed = words.sum(words["capital"] & self._fresh & ~hit)
        letters = words.sum(lengths * (content & hit)), words.sum(lengths * content)
        return {
            "recall": recall,
            "fresh_recall": fresh_recall,
            "letter_recall": share(*letters, 0.0),
            "soft_recall": share(words.sum(soft * content), n_content, 0.0),
            "best_alike": words.most(np.where(hit, content, alike)),
            "precision": precision,
            "harmonic": share(2 * precision * fresh_recall, precision + fresh_recall, 0.0),
            "words": np.minimum(self._n_words, 12),
            "fresh": np.minimum(self._n_fresh, 12),
            "missed": np.minimum(n_content - self._n_hit, 8),
            "capital_missed": np.minimum(capital_missed, 6),
            "negations": np.minimum(words.sum(words["negation"]), 2),
        }

    def _likeness(self) -> FloatArray:
        """Return, for each content word that the answer lacks, its Dice with the likest there."""
        words, answers, facts = self._words, self._answers, self._reading.facts
        best = np.zeros(len(self._keys))
        missed = np.flatnonzero(self._content & ~self._hit & np.isnan(words["number"]))
        theirs = np.flatnonzero(~answers["stop"] & (answers["length"] >= _SHORTEST_ALIKE))
        left, right = self._crossed(missed, theirs)
        mine, other = words.word[missed[left]], answers.word[theirs[right]]
        letters = facts["letters"]
        counts = np.bitwise_count(letters).astype(np.float64)
        shared = np.bitwise_count(letters[mine] & letters[other])
        dice = np.floor(2.0 * shared / (counts[mine] + counts[other]) * _STEPS) / _STEPS
        np.maximum.at(best, missed[left], dice)
        return best

    def _crossed(self, mine: IntArray, theirs: IntArray) -> tuple[IntArray, IntArray]:
        """Return the places of some words of alternatives with some of their answer's, crossed."""
        item = self._items.pair_item[self._words.row[mine]]
        counts = np.bincount(self._answers.row[theirs], minlength=len(self._items))
        n_each = counts[item]
        starts = np.cumsum(counts) - counts
        return np.repeat(np.arange(len(item)), n_each), ranges(starts[item], n_each)

    def _places(self) -> dict[str, FloatArray]:
        words, content, hit = self._words, self._content, self._content & self._hit
        last = words.most(np.where(content, words.place, 0))[words.row]
        first = words.least(np.where(content, words.place, np.inf), np.inf)[words.row]
        telling = self._fresh | (content & (self._n_fresh == 0)[words.row])
        begins = words.least(np.where(telling, self._where, _NOWHERE), _NOWHERE)
        reaches = words.most(np.where(hit, self._where, 0))
        n_answer = self._answers.counts.astype(np.float64)[self._items.pair_item]
        spread = np.minimum(reaches - np.minimum(begins, reaches), 40)
        return {
            "last_hit": words.sum(hit & (words.place == last)),
            "first_hit": words.sum(hit & (words.place == first)),
            "begins": begins,
            "begins_share": np.minimum(begins / np.maximum(n_answer, 1), 1),
            "spread": np.where(self._n_hit > 1, spread, 0.0),
        }

    def _numbers(self) -> dict[str, FloatArray]:
        words, answers, hit = self._words, self._answers, self._hit
        number = ~np.isnan(words["number"]) & self._fresh
        year, month = words["year"] & self._fresh, words["month"] > 0
        n_num, n_year, n_month = map(words.sum, (number, year, month))
        n_num_hit, n_year_hit, n_month_hit = (words.sum(e & hit) for e in (number, year, month))
        theirs, their_years, their_months = (
            (answers.sum(self._new & kind) > 0)[self._items.pair_item]
            for kind in (self._is_number, answers["year"], answers["month"] > 0)
        )
        unmet = (n_num > 0) & (n_num_hit == 0)
        columns = {
            "num": np.minimum(n_num, 4),
            "num_missed": n_num - n_num_hit,
            "num_missing": unmet & ~theirs,
            "num_conflict": unmet & theirs,
            "year": np.minimum(n_year, 2),
            "year_conflict": (n_year > 0) & (n_year_hit == 0) & their_years,
            "month": np.minimum(n_month, 2),
            "month_hit": n_month_hit > 0,
            "month_conflict": (n_month > 0) & (n_month_hit == 0) & their_months,
            "distance": self._distance(),
        }
        return {name: np.asarray(values, np.float64) for name, values in columns.items()}

    def _distance(self) -> FloatArray:
        """Return how far the closest number of the answer is from one of the alternative.

        That is their difference as a share of the larger one, at most 1; 1 where a side has none.
        """
        words, mine = self._words, np.flatnonzero(~np.isnan(self._words["number"]))
        theirs = np.flatnonzero(self._is_number & self._new)
        left, right = self._crossed(mine, theirs)
        one, other = words["number"][mine[left]], self._answers["number"][theirs[right]]
        result = np.ones(len(words.counts))
        larger = np.maximum(np.maximum(one, other), 1e-12)
        np.minimum.at(result, words.row[mine[left]], np.abs(one - other) / larger)
        return result

    def _choose(self) -> IntArray:
        c = self.columns
        fit = (
            4.0 * c["equal"]
            + 2.0 * c["contained"]
            + c["compact_contained"]
            + c["acronym"]
            + 2.0 * c["fresh_recall"]
            + c["recall"]
            + 0.5 * c["soft_recall"]
            + c["precision"]
            - c["num_conflict"]
            - 0.5 * c["year_conflict"]
            - 0.02 * c["begins"] / _NOWHERE
        )
        # Of equals the longer one, then by what else tells them apart: never by their order.
        item = self._items.pair_item
        keys = (c["missed"], c["distance"], c["soft_recall"], self._n_words, fit, item)
        order = np.lexsort(keys)
        return order[np.searchsorted(item[order], np.arange(len(self._items)), "right") - 1]

    def of_answers(self) -> dict[str, FloatArray]:
        """Return what the words of answer and query say without any alternative."""
        words, new, content = self._answers, self._new, ~self._answers["stop"]
        n_words = words.counts.astype(np.float64)
        refusals = (words.sum(words["refusing"]) > 0).astype(np.float64)
        for item in np.flatnonzero(refusals).tolist():
            answer = self._reading.texts[self._items.answers[item]]
            refusals[item] = _REFUSAL.search(answer.lower().replace("\u2019", "'")) is not None
        return {
            "n_answer": np.minimum(n_words, 120),
            "n_answer_short": np.minimum(n_words, 10),
            "n_novel": np.minimum(self.n_novel, 60),
            "n_novel_short": np.minimum(self.n_novel, 8),
            "n_asked": np.minimum(self._n_asked, 20),
            "echo": share(words.sum(content & ~new), words.sum(content), 0.0),
            "n_capitals": np.minimum(words.sum(self._novel & words["capital"]), 15),
            "n_numbers": np.minimum(words.sum(new & self._is_number), 8),
            "n_years": np.minimum(words.sum(new & words["year"]), 4),
            "n_negations": np.minimum(words.sum(words["negation"]), 4),
            "hedges": np.minimum(words.sum(words["hedge"]), 4),
            "contrast": np.minimum(words.sum(words["contrast"]), 1),
            "refusal": refusals,
        }

    def around_best(self) -> dict[str, FloatArray]:
        """Return where the words of the best alternative stand in the answer, and what beside them.

        "Luke Skywalker" has half of "Anakin Skywalker", with another name where the other half was.
        """
        words, best, columns = self._answers, self.best, self.columns
        is_best = np.zeros(len(self._n_words), np.bool_)
        is_best[best] = True
        wanted = np.sort(self._keys[is_best[self._words.row] & self._content])
        matched = find(self._answer_keys, wanted)[0]
        other = self._novel & ~matched
        together = words.row[1:] == words.row[:-1]
        beside = np.zeros(len(words.row), np.bool_)
        beside[1:] |= together & matched[:-1] & other[1:]
        beside[:-1] |= together & matched[1:] & other[:-1]
        n_beside = np.minimum(words.sum(beside), 6)
        n_capital = np.minimum(words.sum(beside & words["capital"]), 6)
        n_other = words.sum(self._new & ~matched & self._is_number)
        # How many of the matched words stand in one row at most.
        begins = matched.copy()
        begins[1:] &= ~(together & matched[:-1])
        run = np.cumsum(begins)
        lengths = np.bincount(run[matched], minlength=1).astype(np.float64)
        longest = np.zeros(len(self._items))
        np.maximum.at(longest, words.row[matched], lengths[run[matched]])
        partial = columns["missed"][best] > 0
        missed = columns["num_missed"][best]
        dated = columns["month_hit"][best] > 0
        return {
            "beside": n_beside,
            "beside_capital": n_capital,
            "beside_partial": np.where(partial, n_beside, 0.0),
            "beside_capital_partial": np.where(partial, n_capital, 0.0),
            "longest_run": np.minimum(longest, 8),
            "run_share": np.minimum(longest / np.maximum(self._n_words[best], 1), 1),
            "num_replaced": np.minimum(np.minimum(missed, n_other), 3),
            "date_replaced": (dated & (missed > 0) & (n_other > 0)).astype(np.float64),
            "n_num_other": np.minimum(n_other, 6),
        }


def _surface(reading: Reading, items: Items) -> dict[str, FloatArray]:
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
