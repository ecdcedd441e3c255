"""What the model is told of an item: numbers drawn from the query, all alternatives and the answer.

What the model is told of an item: numbers drawn from the query, all alternatives and the answer.

Features of alternatives are taken together in ways that do not hang on their order: the largest,
the mean, or those of the alternative that fits best. No feature hangs on the other items of a
batch, to the last bit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

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


_NOWHERE = 60
"""Stands for the place of words that are not there, and for all places beyond it."""

_ALIKE = 0.5
"""Words that share less than this of their letter pairs (Dice) are not alike at all."""

_SHORTEST_ALIKE = 3


class Alternatives:
    """The pairs of items, and float64 columns with an entry a pair.

    `best` is, by item, the pair whose alternative fits best.
    """

    def __init__(self, reading: Reading, items: Items, answers: Answers) -> None:
        """Compare every alternative with its answer."""
        self._reading, self._items, self._answers = reading, items, answers
        self._n_pairs = len(items.pair_item)
        words = self.words = Rows(reading, items.pair_text)
        words.keep(~reading.article[words.word])
        words.keep_distinct(answers.n_stems)
        self.keys = items.pair_item[words.row] * answers.n_stems + words.stem
        self.hit, places = find(self.keys, answers.keys)
        distinct = answers.distinct.place
        self._where = np.full(len(self.keys), _NOWHERE)
        self._where[self.hit] = np.minimum(distinct[places[self.hit]], _NOWHERE)
        stop = reading.stop[words.word]
        # An alternative of stop words alone ("The Who", "It") is read in full.
        only_stop = self._sum(~stop) == 0
        self.content = ~stop | only_stop[words.row]
        self.fresh = self.content & ~find(self.keys, answers.asked)[0]
        self.n_words = self._sum(np.ones(len(self.keys), np.bool_))
        self.n_content = self._sum(self.content)
        self.n_hit = self._sum(self.content & self.hit)
        self.n_fresh = self._sum(self.fresh)
        self.n_fresh_hit = self._sum(self.fresh & self.hit)
        self.columns = {**self._shares(), **self._places(), **self._numbers()}
        names = ("contained", "reverse_contained", "equal", "compact_contained")
        self.columns.update(zip(names, containment(reading, items), strict=True))
        self.columns["acronym"] = initials(reading, items, answers.keys, words.row, words.stem)
        self.best = self._choose()

    def _sum(self, weights: FloatArray | BoolArray) -> FloatArray:
        sums = np.bincount(self.words.row, weights.astype(np.float64), self._n_pairs)
        return sums.astype(np.float64, copy=False)

    def _most(self, values: FloatArray) -> FloatArray:
        result = np.zeros(self._n_pairs)
        np.maximum.at(result, self.words.row, values)
        return result

    def _shares(self) -> dict[str, FloatArray]:
        reading, words, hit, content = self._reading, self.words, self.hit, self.content
        recall = share(self.n_hit, self.n_content, 0.0)
        fresh_recall = share(self.n_fresh_hit, self.n_fresh, recall)
        lengths = reading.length[words.word].astype(np.float64)
        alike = self._likeness()
        soft = np.where(hit, 1.0, np.where(alike >= _ALIKE, alike, 0.0))
        precision = share(self.n_fresh_hit, self._answers.n_novel[self._items.pair_item], 0.0)
        return {
            "recall": recall,
            "fresh_recall": fresh_recall,
            "letter_recall": share(
                self._sum(lengths * (content & hit)), self._sum(lengths * content), 0.0
            ),
            "soft_recall": share(self._sum(soft * content), self.n_content, 0.0),
            "best_alike": self._most(np.where(hit, content, alike)),
            "precision": precision,
            "harmonic": share(2 * precision * fresh_recall, precision + fresh_recall, 0.0),
            "words": np.minimum(self.n_words, 12),
            "fresh": np.minimum(self.n_fresh, 12),
            "missed": np.minimum(self.n_content - self.n_hit, 8),
            "capital_missed": np.minimum(
                self._sum(reading.capital[words.word] & self.fresh & ~hit), 6
            ),
            "negations": np.minimum(self._sum(reading.negation[words.word]), 2),
        }

    def _likeness(self) -> FloatArray:
        """Return, for each content word that the answer lacks, its Dice with the likest there."""
        reading, words, answers = self._reading, self.words, self._answers.words
        best = np.zeros(len(self.keys))
        missed = np.flatnonzero(self.content & ~self.hit & np.isnan(reading.numbers[words.word]))
        theirs = np.flatnonzero(
            ~reading.stop[answers.word] & (reading.length[answers.word] >= _SHORTEST_ALIKE)
        )
        item = self._items.pair_item[words.row[missed]]
        left, right = crossed(item, answers.row[theirs], len(self._items))
        mine, other = words.word[missed[left]], answers.word[theirs[right]]
        counts = np.bitwise_count(reading.letters).astype(np.float64)
        shared = np.bitwise_count(reading.letters[mine] & reading.letters[other])
        dice = np.floor(2.0 * shared / (counts[mine] + counts[other]) * _STEPS) / _STEPS
        np.maximum.at(best, missed[left], dice)
        return best

    def _places(self) -> dict[str, FloatArray]:
        words, content, hit = self.words, self.content, self.hit
        last = self._most(np.where(content, words.place, 0))[words.row]
        first = np.full(self._n_pairs, np.inf)
        np.minimum.at(first, words.row, np.where(content, words.place, np.inf))
        telling = self.fresh | (content & (self.n_fresh == 0)[words.row])
        begins = np.full(self._n_pairs, float(_NOWHERE))
        np.minimum.at(begins, words.row, np.where(telling, self._where, _NOWHERE))
        reaches = self._most(np.where(content & hit, self._where, 0))
        n_answer = self._answers.n_words[self._items.pair_item]
        return {
            "last_hit": self._sum(content & hit & (words.place == last)),
            "first_hit": self._sum(content & hit & (words.place == first[words.row])),
            "begins": begins,
            "begins_share": np.minimum(begins / np.maximum(n_answer, 1), 1),
            "spread": np.where(
                self.n_hit > 1, np.minimum(reaches - np.minimum(begins, reaches), 40), 0.0
            ),
        }

    def _numbers(self) -> dict[str, FloatArray]:
        reading, answers, hit = self._reading, self._answers, self.hit
        items, words = self._items.pair_item, self.words.word
        new = ~answers.in_query
        number = ~np.isnan(reading.numbers[words]) & self.fresh
        year = reading.year[words] & self.fresh
        month = reading.month[words] > 0
        n_num, n_num_hit = self._sum(number), self._sum(number & hit)
        n_year, n_month = self._sum(year), self._sum(month)
        n_month_hit = self._sum(month & hit)
        theirs = answers.count(new & answers.is_number)[items] > 0
        their_years = answers.count(new & reading.year[answers.words.word])[items] > 0
        their_months = answers.count(new & (reading.month[answers.words.word] > 0))[items] > 0
        unmet = (n_num > 0) & (n_num_hit == 0)
        columns = {
            "num": np.minimum(n_num, 4),
            "num_missed": n_num - n_num_hit,
            "num_missing": unmet & ~theirs,
            "num_conflict": unmet & theirs,
            "year": np.minimum(n_year, 2),
            "year_conflict": (n_year > 0) & (self._sum(year & hit) == 0) & their_years,
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
        reading, words, answers = self._reading, self.words, self._answers
        result = np.ones(self._n_pairs)
        mine = np.flatnonzero(~np.isnan(reading.numbers[words.word]))
        theirs = np.flatnonzero(answers.is_number & ~answers.in_query)
        item = self._items.pair_item[words.row[mine]]
        left, right = crossed(item, answers.words.row[theirs], len(self._items))
        one = reading.numbers[words.word[mine[left]]]
        other = reading.numbers[answers.words.word[theirs[right]]]
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
        keys = (c["missed"], c["distance"], c["soft_recall"], self.n_words, fit, item)
        order = np.lexsort(keys)
        return order[np.searchsorted(item[order], np.arange(len(self._items)), "right") - 1]


VERSION = 1
"""Enters the signature; a model is for the features of one version."""

_STEPS = 4096.0
"""Likenesses and means are multiples of one part in so many: their sums are exact in any order, and
so do not hang on what else is in the batch."""
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


def features(reading: Reading, items: Items) -> dict[str, FloatArray]:
    """Return the features of every item by name, always in the same order: float64[n] each."""
    answers = Answers(reading, items)
    alternatives = Alternatives(reading, items, answers)
    columns, best = alternatives.columns, alternatives.best
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
    unmatched = answers.n_novel - alternatives.n_fresh_hit[best]
    result["n_unmatched"] = np.minimum(unmatched, 30)
    result["n_unmatched_short"] = np.minimum(unmatched, 6)
    return {
        **result,
        **answers.features(),
        **_around_best(reading, answers, alternatives, len(items)),
        **surface(reading, items),
    }


def _around_best(
    reading: Reading, answers: Answers, alternatives: Alternatives, n: int
) -> dict[str, FloatArray]:
    """Return where the words of the best alternative stand in the answer, and what beside them.

    "Luke Skywalker" has half of "Anakin Skywalker", with another name where the other half was.
    """
    best = alternatives.best
    is_best = np.zeros(len(alternatives.n_words), np.bool_)
    is_best[best] = True
    chosen = is_best[alternatives.words.row] & alternatives.content
    words = answers.words
    wanted = np.sort(alternatives.keys[chosen])
    matched = find(words.row * answers.n_stems + words.stem, wanted)[0]
    other = answers.novel & ~matched
    together = words.row[1:] == words.row[:-1]
    beside = np.zeros(len(words.row), np.bool_)
    beside[1:] |= together & matched[:-1] & other[1:]
    beside[:-1] |= together & matched[1:] & other[:-1]
    n_beside = np.minimum(answers.count(beside), 6)
    n_capital = np.minimum(answers.count(beside & reading.capital[words.word]), 6)
    longest = _longest_runs(matched, words.row, together, n)
    n_other = answers.count(~answers.in_query & ~matched & answers.is_number)
    columns = alternatives.columns
    partial = columns["missed"][best] > 0
    missed = columns["num_missed"][best]
    dated = columns["month_hit"][best] > 0
    return {
        "beside": n_beside,
        "beside_capital": n_capital,
        "beside_partial": np.where(partial, n_beside, 0.0),
        "beside_capital_partial": np.where(partial, n_capital, 0.0),
        "longest_run": np.minimum(longest, 8),
        "run_share": np.minimum(longest / np.maximum(alternatives.n_words[best], 1), 1),
        "num_replaced": np.minimum(np.minimum(missed, n_other), 3),
        "date_replaced": (dated & (missed > 0) & (n_other > 0)).astype(np.float64),
        "n_num_other": np.minimum(n_other, 6),
    }


def _longest_runs(matched: BoolArray, row: np.ndarray, together: BoolArray, n: int) -> FloatArray:
    """Return, by item, how many of the matched words stand in one row at most."""
    begins = matched.copy()
    begins[1:] &= ~(together & matched[:-1])
    run = np.cumsum(begins)
    lengths = np.bincount(run[matched], minlength=1).astype(np.float64)
    longest = np.zeros(n)
    np.maximum.at(longest, row[matched], lengths[run[matched]])
    return longest
