"""Each alternative beside the answer: which of its words, names and numbers the answer has."""

from __future__ import annotations

import numpy as np

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.judges.equivalence.answers import Answers
from judged_server.judges.equivalence.rows import Items, Rows, crossed, find, share
from judged_server.judges.equivalence.strings import containment, initials
from judged_server.judges.equivalence.words import Reading

_NOWHERE = 60
"""Stands for the place of words that are not there, and for all places beyond it."""

_ALIKE = 0.5
"""Words that share less than this of their letter pairs (Dice) are not alike at all."""

_STEPS = 4096.0
"""Likenesses are multiples of one part in so many: their sums are exact in any order, and so do not
hang on what else is in the batch."""

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
