"""Features of an item for the model, computed from the query, the alternatives and the answer.

Features of alternatives are combined in ways that do not depend on their order: the largest, the
smallest, the mean, or those of the alternative that fits best.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from judged_server.judges.equivalence.words import Text, Word, read_text

VERSION = 1
"""Part of the signature; a model is for the features of one version."""

_NOWHERE = 60
"""The place of words that are absent; places beyond it are reduced to it."""
_ALIKE = 0.5
"""Words that share less than this of their letter pairs (Dice) count as not alike."""
_SHORTEST_ALIKE = 3
_STEPS = 4096
"""Likenesses and means are multiples of 1 / _STEPS, so that sums are exact in any order."""
_SHORTEST_RUN = 4

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
_ASKING = """
    who whom whose, when year date, where, which, what name, why how, how_many how_much how_long
    how_old
"""
_KINDS = {
    words.replace("_", " "): kind
    for kind, line in enumerate(_ASKING.split(","))
    for words in line.split()
}
_NO_KIND = 7
_MOST_OF = """
    equal contained reverse_contained compact_contained acronym recall fresh_recall letter_recall
    soft_recall best_alike precision harmonic last_hit first_hit
"""
_MOST = _MOST_OF.split()
_BEST_OF = """
    recall fresh_recall soft_recall precision last_hit words fresh missed capital_missed begins
    begins_share spread distance num num_missing year month negations num_conflict year_conflict
    month_conflict contained
"""
_BEST = _BEST_OF.split()
_LEAST = ("num_conflict", "distance", "begins")
_MEAN = ("recall", "contained", "words")


class _Answer:
    """An answer compared with its query: the words that the query lacks."""

    def __init__(self, query: Text, answer: Text) -> None:
        self.text, self.words = answer, answer.words
        self.n_asked = len(query.words)
        self.asked = {word.stem for word in query.words}
        self.places: dict[str, int] = {}
        for place, word in enumerate(self.words):
            self.places.setdefault(word.stem, place)
        self.new = [word for word in self.words if word.stem not in self.asked]
        first = (self.words[place] for place in self.places.values())
        self.n_novel = sum(not word.stop and word.stem not in self.asked for word in first)
        self.numbers = [word.number for word in self.new if word.number is not None]
        content = (word for word in self.words if not word.stop)
        self.letters = {word.letters for word in content if word.length >= _SHORTEST_ALIKE}

    def features(self) -> dict[str, float]:
        """Return the features of the answer and the query that need no alternative."""
        words, new = self.words, self.new
        n_content = sum(not word.stop for word in words)
        n_echoed = sum(not word.stop and word.stem in self.asked for word in words)
        refuses = any(word.refusing for word in words)
        lowered = self.text.written.lower().replace("\u2019", "'") if refuses else ""
        return {
            "n_answer": min(len(words), 120),
            "n_answer_short": min(len(words), 10),
            "n_novel": min(self.n_novel, 60),
            "n_novel_short": min(self.n_novel, 8),
            "n_asked": min(self.n_asked, 20),
            "echo": _share(n_echoed, n_content),
            "n_capitals": min(sum(word.capital and not word.stop for word in new), 15),
            "n_numbers": min(len(self.numbers), 8),
            "n_years": min(sum(word.year for word in new), 4),
            "n_negations": min(sum(word.negation for word in words), 4),
            "hedges": min(sum(word.hedge for word in words), 4),
            "contrast": any(word.contrast for word in words),
            "refusal": refuses and _REFUSAL.search(lowered) is not None,
        }


class _Pair:
    """An alternative compared with an answer; `fresh` are content words that the query lacks."""

    def __init__(self, alternative: Text, answer: _Answer) -> None:
        self.text, self.answer = alternative, answer
        self.words, self.content = alternative.distinct, alternative.content
        self.fresh = [word for _, word in self.content if word.stem not in answer.asked]
        self.n_hit = self._hits(word for _, word in self.content)
        self.n_fresh_hit = self._hits(self.fresh)
        self.columns = {**self._shares(), **self._places(), **self._numbers(), **self._whole()}
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
        # Ties are broken by length, then by other features, never by the order of alternatives.
        self.order = (fit, len(self.words), c["soft_recall"], c["distance"], c["missed"])

    def _hits(self, words: Iterable[Word]) -> int:
        return sum(word.stem in self.answer.places for word in words)

    def _shares(self) -> dict[str, float]:
        places, content = self.answer.places, [word for _, word in self.content]
        recall = _share(self.n_hit, len(content))
        fresh_recall = _share(self.n_fresh_hit, len(self.fresh), recall)
        precision = _share(self.n_fresh_hit, self.answer.n_novel)
        alike = [1.0 if word.stem in places else self._likeness(word) for word in content]
        letters = sum(word.length for word in content if word.stem in places)
        missed_names = sum(word.capital and word.stem not in places for word in self.fresh)
        return {
            "recall": recall,
            "fresh_recall": fresh_recall,
            "letter_recall": _share(letters, sum(word.length for word in content)),
            "soft_recall": _share(sum(each for each in alike if each >= _ALIKE), len(content)),
            "best_alike": max(alike, default=0.0),
            "precision": precision,
            "harmonic": _share(2 * precision * fresh_recall, precision + fresh_recall),
            "words": min(len(self.words), 12),
            "fresh": min(len(self.fresh), 12),
            "missed": min(len(content) - self.n_hit, 8),
            "capital_missed": min(missed_names, 6),
            "negations": min(sum(word.negation for _, word in self.words), 2),
        }

    def _likeness(self, word: Word) -> float:
        """Return the largest Dice of a word with any word of the answer; 0 for a number."""
        if word.number is not None:
            return 0.0
        bits, n = word.letters, word.letters.bit_count()
        best = 0.0
        for other in self.answer.letters:
            best = max(best, 2.0 * (bits & other).bit_count() / (n + other.bit_count()))
        return math.floor(best * _STEPS) / _STEPS

    def _places(self) -> dict[str, float]:
        found = self.answer.places
        hits = [place for place, word in self.content if word.stem in found]
        content = [place for place, _ in self.content]
        wanted = self.fresh or [word for _, word in self.content]
        wheres = [min(found[word.stem], _NOWHERE) for word in wanted if word.stem in found]
        begins = min(wheres, default=_NOWHERE)
        of_hits = (found[word.stem] for _, word in self.content if word.stem in found)
        reaches = min(max(of_hits, default=0), _NOWHERE)
        spread = min(reaches - min(begins, reaches), 40)
        return {
            "last_hit": bool(hits) and content[-1] in hits,
            "first_hit": bool(hits) and content[0] in hits,
            "begins": begins,
            "begins_share": min(begins / max(len(self.answer.words), 1), 1),
            "spread": spread if self.n_hit > 1 else 0,
        }

    def _numbers(self) -> dict[str, float]:
        answer = self.answer
        numbers = [word for word in self.fresh if word.number is not None]
        years = [word for word in self.fresh if word.year]
        months = [word for _, word in self.words if word.month]
        n_hit, n_month_hit = self._hits(numbers), self._hits(months)
        unmet = bool(numbers) and not n_hit
        mine = [word.number for _, word in self.words if word.number is not None]
        # The distance of the closest pair of numbers, as a share of the larger one; 1 if a side
        # has none.
        distances = (abs(a - b) / max(a, b, 1e-12) for a in mine for b in answer.numbers)
        return {
            "num": min(len(numbers), 4),
            "num_missed": len(numbers) - n_hit,
            "num_missing": unmet and not answer.numbers,
            "num_conflict": unmet and bool(answer.numbers),
            "year": min(len(years), 2),
            "year_conflict": bool(years)
            and not self._hits(years)
            and any(word.year for word in answer.new),
            "month": min(len(months), 2),
            "month_hit": n_month_hit > 0,
            "month_conflict": bool(months)
            and not n_month_hit
            and any(word.month for word in answer.new),
            "distance": min(distances, default=1.0),
        }

    def _whole(self) -> dict[str, float]:
        """Return whether one text contains the other, as words, letters or initials."""
        mine, theirs = self.text, self.answer.text
        contained = bool(mine.joined) and mine.joined in theirs.joined
        reverse = bool(theirs.joined) and theirs.joined in mine.joined
        letters = mine.squeezed
        stems = {word.stem for _, word in self.words}
        return {
            "contained": contained,
            "reverse_contained": reverse,
            "equal": contained and reverse,
            "compact_contained": len(letters) >= _SHORTEST_RUN and letters in theirs.squeezed,
            "acronym": mine.initials in self.answer.places or theirs.initials in stems,
        }

    def features(self) -> dict[str, float]:
        """Return features of matched words' positions in the answer, and of the words beside them.

        "Luke Skywalker" matches half of "Anakin Skywalker", with another name in place of the rest.
        """
        answer, c = self.answer, self.columns
        wanted = {word.stem for _, word in self.content}
        matched = [word.stem in wanted for word in answer.words]
        beside = [
            word
            for place, word in enumerate(answer.words)
            if not matched[place]
            and not word.stop
            and word.stem not in answer.asked
            and any(matched[max(place - 1, 0) : place + 2])
        ]
        n_beside = min(len(beside), 6)
        n_capital = min(sum(word.capital for word in beside), 6)
        n_other = sum(w.number is not None and w.stem not in wanted for w in answer.new)
        # The longest run of matched words.
        longest = run = 0
        for is_matched in matched:
            run = run + 1 if is_matched else 0
            longest = max(longest, run)
        partial, missed = c["missed"] > 0, c["num_missed"]
        return {
            "beside": n_beside,
            "beside_capital": n_capital,
            "beside_partial": n_beside if partial else 0,
            "beside_capital_partial": n_capital if partial else 0,
            "longest_run": min(longest, 8),
            "run_share": min(longest / max(len(self.words), 1), 1),
            "num_replaced": min(missed, n_other, 3),
            "date_replaced": c["month_hit"] > 0 and missed > 0 and n_other > 0,
            "n_num_other": min(n_other, 6),
        }


def _share(part: float, whole: float, otherwise: float = 0.0) -> float:
    """Return part / whole, or `otherwise` if the whole is 0."""
    return part / whole if whole > 0 else otherwise


def features(query: str, answer: str, alternatives: Sequence[str]) -> dict[str, float]:
    """Return the features of an item by name, always in the same order."""
    beside = _Answer(read_text(query), read_text(answer))
    pairs = [_Pair(read_text(text), beside) for text in alternatives]
    best = max(reversed(pairs), key=lambda pair: pair.order)
    columns, n = [pair.columns for pair in pairs], len(pairs)
    unmatched = beside.n_novel - best.n_fresh_hit
    return {
        **{f"most_{name}": max(column[name] for column in columns) for name in _MOST},
        **{f"best_{name}": best.columns[name] for name in _BEST},
        **{f"least_{name}": min(column[name] for column in columns) for name in _LEAST},
        **{
            f"mean_{name}": sum(round(column[name] * _STEPS) for column in columns) / _STEPS / n
            for name in _MEAN
        },
        "n_alternatives": min(n, 30),
        "n_unmatched": min(unmatched, 30),
        "n_unmatched_short": min(unmatched, 6),
        **beside.features(),
        **best.features(),
        **_surface(query, answer),
    }


def _surface(query: str, answer: str) -> dict[str, float]:
    """Return features of what the query asks for, and of the form of the answer."""
    asks = _QUESTION.search(query.lower())
    kind = _NO_KIND if asks is None else _KINDS[asks[1]]
    lowered = answer.lower()
    return {
        **{f"asks_{number}": number == kind for number in range(_NO_KIND + 1)},
        "capitalised": answer[:1].isupper(),
        "sentence": answer.rstrip()[-1:] in (".", "!"),
        "commas": min(lowered.count(","), 6),
        "or": " or " in lowered,
        "lines": "\n" in answer.strip(),
    }
