"""The words of texts as numbers: what each word is, and the words of all texts of a call in a row.

A word is looked at once and remembered; which texts hold it is said in arrays.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from judged_server.domain import IntArray
from judged_server.judges.token_overlap import STOPWORDS
from judged_server.metrics.text.porter_stemmer import stem

MAX_WORDS = 200
"""Texts with more words, as white space parts them, are not what the model was trained on."""

MAX_CHARACTERS = 4096
"""Texts with more characters are not either, however few words they have."""

_REMEMBERED = 1 << 16
_DIGIT = re.compile(r"[0-9]")
_WORD = re.compile(r"[^\W_]+(?:\.\d+)?")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_INITIALS = re.compile(r"\b(?:[A-Za-z]\.){2,}")
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th|s)$")
_GLUED = re.compile(r"([^\W\d_]{2,})(\d{1,4})")
_GLUED_YEAR = re.compile(r"(1[5-9]\d\d|20[0-2]\d)\d{1,2}")
_LEADING_NUMBER = re.compile(r"\d+(?:\.\d+)?")

_NUMBER_WORDS = {
    word: value
    for value, words in enumerate(
        (
            *("zero", "one first once", "two second twice", "three third", "four fourth"),
            *("five fifth", "six sixth", "seven seventh", "eight eighth", "nine ninth"),
            *("ten tenth", "eleven eleventh", "twelve twelfth", "thirteen thirteenth"),
            *("fourteen fourteenth", "fifteen fifteenth", "sixteen sixteenth"),
            *("seventeen seventeenth", "eighteen eighteenth", "nineteen nineteenth"),
            "twenty twentieth",
        )
    )
    for word in words.split()
} | {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
_ROMAN_WORDS = "ii iii iv vi vii viii ix xi xii xiii xiv xv xvi xvii xviii xix xx"
_ROMAN_VALUES = (2, 3, 4, 6, 7, 8, 9, *range(11, 21))
_ROMAN = dict(zip(_ROMAN_WORDS.split(), _ROMAN_VALUES, strict=True))
_MONTHS = {
    word: number
    for number, words in enumerate(
        (
            *("january jan", "february feb", "march", "april apr", "may", "june jun", "july jul"),
            *("august aug", "september sept sep", "october oct", "november nov", "december dec"),
        ),
        start=1,
    )
    for word in words.split()
}
_SPELLINGS = {
    "usa": "us",
    "america": "us",
    "uk": "britain",
    "saint": "st",
    "mount": "mt",
    "doctor": "dr",
    "mister": "mr",
    "centre": "center",
    "theatre": "theater",
    "colour": "color",
    "percent": "%",
    "television": "tv",
}
NEGATIONS = frozenset(("no", "not", "never", "none", "without", "cannot", "nor", "neither"))
_HEDGING = """
    may might could possibly perhaps probably likely approximately about around roughly estimated
    believed thought depends depend varies various some often several typically generally seems
    seem appears appear assume assuming assumed according
"""
_HEDGES = frozenset(_HEDGING.split())
_CONTRASTING = "however but although though instead rather actually while whereas"
_CONTRASTS = frozenset(_CONTRASTING.split())
_REFUSALS = (
    "sorry apologize apologies apologise ai no not cannot unable unknown unclear unsure uncertain"
)
_REFUSING = frozenset(_REFUSALS.split())
"""Without one of these words a text refuses nothing."""
_NEGATED = re.compile(r"n't\b")
_EMPTY = "would could may might must shall also us many much mr mrs ms st called known"
_MORE_STOPWORDS = frozenset(_EMPTY.split())
_CURLY = "\u2019"
_ARTICLES = frozenset(("a", "an", "the"))


class Word(NamedTuple):
    """What a word is, whatever text it stands in.

    `stem` stands for all its forms; numbers, however written, share a form that begins with #.
    `refusing` words may be part of a refusal. `number` is NaN where it is none, `month` 0.
    `letters` has a bit for each pair of neighbouring letters, its number modulo 64.
    """

    stem: str
    stop: bool
    article: bool
    negation: bool
    hedge: bool
    contrast: bool
    refusing: bool
    capital: bool
    number: float
    year: bool
    month: int
    length: int
    letters: int
    initial: str


@lru_cache(maxsize=_REMEMBERED)
def read_word(written: str) -> Word:
    """Return what a word is; differences of case count for `capital` alone."""
    lowered = written.lower()
    number = _number(lowered)
    month = _MONTHS.get(lowered, 0)
    if number is not None:
        form = f"#{number:g}"
    elif month:
        form = f"month{month}"
    else:
        form = stem(_SPELLINGS.get(lowered, lowered))
    letters = 0
    padded = f"^{lowered}$"
    for first, second in pairwise(padded):
        letters |= 1 << ((ord(first) * 31 + ord(second) * 17) % 64)
    return Word(
        stem=form,
        stop=lowered in STOPWORDS or lowered in _MORE_STOPWORDS,
        article=lowered in _ARTICLES,
        negation=lowered in NEGATIONS,
        hedge=lowered in _HEDGES,
        contrast=lowered in _CONTRASTS,
        refusing=lowered in _REFUSING,
        capital=written[0].isupper(),
        number=float("nan") if number is None else number,
        year=number is not None and 1000 <= number <= 2100 and len(lowered) in (4, 5),
        month=month,
        length=len(lowered),
        letters=letters,
        initial=lowered[0],
    )


def _number(word: str) -> float | None:
    if word in _NUMBER_WORDS:
        return float(_NUMBER_WORDS[word])
    if word in _ROMAN:
        return float(_ROMAN[word])
    if not word[0].isdigit():
        return None
    if (ordinal := _ORDINAL.match(word)) is not None:
        word = ordinal[1]
    leading = _LEADING_NUMBER.fullmatch(word)
    return None if leading is None or len(word) > 15 else float(word)


def fold(text: str) -> str:
    """Return the text without accents, with plain apostrophes, commas taken out of numbers."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in text if not unicodedata.combining(c)).replace(_CURLY, "'")
    if "," in text and _DIGIT.search(text) is not None:
        text = _THOUSANDS.sub("", text)
    if "'" in text:
        text = _NEGATED.sub(" not", text).replace("'s ", " ").replace("'", "")
    if "&" in text:
        text = text.replace("&", " and ")
    if "." in text:
        text = _INITIALS.sub(lambda found: found[0].replace(".", "") + " ", text)
    return text


def words_of(text: str) -> list[str]:
    """Return the words of a text as they are written, but for what `fold` takes away.

    Marks of footnotes are often glued to words: "in126" is read as two words, and "19711" as the
    year too.
    """
    words = _WORD.findall(fold(text))
    if _DIGIT.search(text) is None:
        return words
    return [part for word in words for part in _unglue(word)]


@lru_cache(maxsize=_REMEMBERED)
def _unglue(word: str) -> tuple[str, ...]:
    if (glued := _GLUED.fullmatch(word)) is not None:
        return glued[1], glued[2]
    if (year := _GLUED_YEAR.fullmatch(word)) is not None:
        return word, year[1]
    return (word,)


class _Numbers(dict[str, int]):
    """Numbers words in the order in which they are first asked for."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


@dataclass(frozen=True, slots=True)
class Reading:
    """The words of a list of texts in a row: text i owns the entries `first[i]:first[i + 1]`.

    `words` (int64) has the number of each word, and `facts` a column for each field of Word by that
    number, in which `stem` is the number of the stem. `stem_numbers` has that of each stem.
    """

    texts: Sequence[str]
    words: IntArray
    first: IntArray
    facts: dict[str, NDArray[Any]]
    stem_numbers: dict[str, int]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Reading:
        """Read every text once."""
        numbers = _Numbers()
        flat: list[int] = []
        first = [0]
        for text in texts:
            flat.extend(map(numbers.__getitem__, words_of(text)))
            first.append(len(flat))
        stem_numbers = _Numbers()
        known = [read_word(word) for word in numbers]
        rows = [(stem_numbers[word.stem], *word[1:]) for word in known]
        columns = zip(*rows, strict=True) if rows else [()] * len(_KINDS)
        facts: dict[str, NDArray[Any]] = {
            name: np.array(column, kind)
            for (name, kind), column in zip(_KINDS.items(), columns, strict=True)
        }
        whole = np.array(flat, np.int64), np.array(first, np.int64)
        return cls(texts, *whole, facts, stem_numbers)


_KINDS = {
    "stem": np.int64,
    **dict.fromkeys(("stop", "article", "negation", "hedge", "contrast", "refusing"), np.bool_),
    "capital": np.bool_,
    "number": np.float64,
    "year": np.bool_,
    "month": np.int64,
    "length": np.int64,
    "letters": np.uint64,
    "initial": object,
}
"""The types of the columns of Word."""
