"""Reads texts into words with their properties, and finds contradictions; results are cached."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from judged_server.domain import plain_form
from judged_server.judges.lexical import STOPWORDS
from judged_server.metrics.text.formulas import stem

MAX_WORDS = 200
"""The model was not trained on texts with more words, separated by white space."""

MAX_CHARACTERS = 4096
"""Nor was it trained on texts with more characters, however few words they have."""

_REMEMBERED = 1 << 16
_DIGIT = re.compile(r"[0-9]")
_WORD = re.compile(r"[^\W_]+(?:\.\d+)?")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_BARE_POINT = re.compile(r"(?<![\w.])\.(?=\d)")
_INITIALS = re.compile(r"\b(?:[A-Za-z]\.){2,}")
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th|s)$")
_GLUED = re.compile(r"([^\W\d_]{2,})(\d{1,4})")
_GLUED_YEAR = re.compile(r"(1[5-9]\d\d|20[0-2]\d)\d{1,2}")
_LEADING_NUMBER = re.compile(r"\d+(?:\.\d+)?")

_NUMBERS = """
    zero, one first once, two second twice, three third, four fourth, five fifth, six sixth,
    seven seventh, eight eighth, nine ninth, ten tenth, eleven eleventh, twelve twelfth,
    thirteen thirteenth, fourteen fourteenth, fifteen fifteenth, sixteen sixteenth, seventeen
    seventeenth, eighteen eighteenth, nineteen nineteenth, twenty twentieth
"""
_TENS = "thirty forty fifty sixty seventy eighty ninety"
_NUMBER_WORDS = {
    word: value for value, words in enumerate(_NUMBERS.split(",")) for word in words.split()
} | dict(zip(_TENS.split(), range(30, 100, 10), strict=True))
_ROMAN_WORDS = "ii iii iv vi vii viii ix xi xii xiii xiv xv xvi xvii xviii xix xx"
_ROMAN_VALUES = (2, 3, 4, 6, 7, 8, 9, *range(11, 21))
_ROMAN = dict(zip(_ROMAN_WORDS.split(), _ROMAN_VALUES, strict=True))
_MONTH_NAMES = """
    january jan, february feb, march, april apr, may, june jun, july jul, august aug, september
    sept sep, october oct, november nov, december dec
"""
_MONTHS = {
    word: number
    for number, words in enumerate(_MONTH_NAMES.split(","), start=1)
    for word in words.split()
}
_SPELLED = """
    usa:us america:us uk:britain saint:st mount:mt doctor:dr mister:mr centre:center
    theatre:theater colour:color percent:% television:tv
"""
_SPELLINGS = dict(pair.split(":") for pair in _SPELLED.split())
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
"""A text without any of these words is not a refusal."""
_NEGATED = re.compile(r"n't\b")
_EMPTY = "would could may might must shall also us many much mr mrs ms st called known"
_MORE_STOPWORDS = frozenset(_EMPTY.split())
_CURLY = "\u2019"
_ARTICLES = frozenset(("a", "an", "the"))
_BETWEEN = bytes(code for code in range(128) if not chr(code).isalnum())
_INITIALS_OF_NAMES = range(2, 7)
_LONGEST_NAME = 12


class Word(NamedTuple):
    """The properties of a word, independent of its text.

    `stem` is common to all its forms; that of a number, however it is written, begins with #.
    `refusing` words may be part of a refusal. `number` is None if it is no number, `month` 0 if it
    is no month. `letters` has a bit for each pair of adjacent letters, hashed modulo 64.
    """

    stem: str
    stop: bool
    article: bool
    negation: bool
    hedge: bool
    contrast: bool
    refusing: bool
    capital: bool
    number: float | None
    year: bool
    month: int
    length: int
    letters: int
    initial: str


@lru_cache(maxsize=_REMEMBERED)
def read_word(written: str) -> Word:
    """Return the properties of a word; its case changes `capital` only."""
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
        number=number,
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
    """Return the text in plain form without accents, apostrophes, or dots in initials.

    Numbers are without commas, and ".5" is "0.5".
    """
    if not text.isascii():
        text = unicodedata.normalize("NFD", plain_form(text))
        text = "".join(c for c in text if not unicodedata.combining(c)).replace(_CURLY, "'")
    if "," in text and _DIGIT.search(text) is not None:
        text = _THOUSANDS.sub("", text)
    if "'" in text:
        text = _NEGATED.sub(" not", text).replace("'s ", " ").replace("'", "")
    if "&" in text:
        text = text.replace("&", " and ")
    if "." in text:
        text = _BARE_POINT.sub("0.", text)
        text = _INITIALS.sub(lambda found: found[0].replace(".", "") + " ", text)
    return text


def words_of(text: str) -> list[str]:
    """Return the words of a text as they are written, after `fold`.

    Footnote marks are often glued to words: "in126" is read as two words, and "19711" also as the
    year 1971.
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


@dataclass(frozen=True, slots=True)
class Text:
    """The words of a text, and forms of it in which one text is searched for in another.

    `distinct` has the first word of each stem with its place, without articles. `content` has those
    that are not stop words, or all if there are only stop words ("The Who", "It"). `joined` has the
    stems between single spaces, without articles, or is "". `squeezed` has only the letters and
    digits. `initials` are those of its words, or "" if it is not a short name.
    """

    written: str
    words: tuple[Word, ...]
    distinct: Sequence[tuple[int, Word]]
    content: Sequence[tuple[int, Word]]
    joined: str
    squeezed: bytes
    initials: str


@lru_cache(maxsize=1 << 12)
def read_text(text: str) -> Text:
    """Return the words and forms of a text."""
    words = tuple(map(read_word, words_of(text)))
    first: dict[str, tuple[int, Word]] = {}
    for place, word in enumerate(words):
        if not word.article:
            first.setdefault(word.stem, (place, word))
    distinct = list(first.values())
    stems = " ".join(word.stem for word in words if not word.article)
    squeezed = text.lower().encode("utf-8", "replace").translate(None, _BETWEEN)
    initials = [word.initial for word in words if not word.stop]
    is_name = len(words) <= _LONGEST_NAME and len(initials) in _INITIALS_OF_NAMES
    return Text(
        text,
        words,
        distinct,
        [each for each in distinct if not each[1].stop] or distinct,
        f" {stems} " if stems else "",
        squeezed,
        "".join(initials) if is_name else "",
    )


_UNIT_NAMES = """
    % percent pct, ‰ permille, $ dollar usd buck, € euro eur, £ gbp sterling, ¥ yen jpy, ₹ rupee
    inr, chf franc, cent, km kilometer kilometre, mile mi, m meter metre, cm centimeter centimetre,
    mm millimeter millimetre, µm μm micrometer micrometre, nm nanometer nanometre, foot feet ft,
    yard, inch inches, kg kilogram kilo, g gram, mg milligram, µg μg mcg microgram, lb, ounce oz, l
    liter litre, ml milliliter millilitre, gallon, s second sec, ms millisecond, minute min, h hour
    hr, day, week, month, year yr, °c celsius, °f fahrenheit, kb kilobyte, mb megabyte, gb
    gigabyte, tb terabyte, w watt, kw kilowatt, mw megawatt, gw gigawatt, v volt, kv kilovolt, hz
    hertz, khz kilohertz, mhz megahertz, ghz gigahertz, am, pm, bc bce, ad ce
"""
_UNITS = {name: names.split()[0] for names in _UNIT_NAMES.split(",") for name in names.split()}
_SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_SIDES = """
    before until till prior | after since, least minimum over above | most maximum under below,
    more higher greater | less lower fewer, increase increased increases rise rises rose rising
    grow grows grew growth | decrease decreased decreases fall falls fell falling decline
    declined dropped, north n | south s, east e | west w, left | right, true | false, yes | no,
    always | never, up | down, inside | outside, win wins won | lose loses lost, legal | illegal,
    likely | unlikely, possible | impossible, positive | negative
"""
_OPPOSITES = {
    word: (pair, side)
    for pair, sides in enumerate(_SIDES.split(","))
    for side, words in enumerate(sides.split("|"))
    for word in words.split()
}
_CURRENCY = r"[$€£¥₹]"
_NUMBER = re.compile(
    rf"(?P<sign>(?<![\w.)\-])[-+](?=\s?{_CURRENCY}?\.?\d))?\s?(?P<currency>{_CURRENCY})?"
    r"(?P<inner>-(?=\d))?"
    r"(?P<number>\d+(?:\.\d+)?|\.\d+)(?:/(?P<below>[1-9]\d*)(?![/\d]))?(?::(?P<minutes>\d\d))?"
    r"(?:[\s-]?(?P<scale>hundred|thousand|million|billion|trillion)\b)?"
    r"\s?-?(?P<unit>[%‰]|°[cf]\b|per cent\b|[ap]\.?\s?m\b|[^\W\d_]+)?"
)
_MINUS = re.compile(r"\b(?:minus|negative)\s+(?=[$€£¥₹]?\.?\d)")
_TOKEN = re.compile(r"[^\W_]+")
_NUMERO = re.compile(r"\bno\.?\s?(?=\d)")
_THROUGH = re.compile(r"[\s-]*(?:to|and|or)?[\s-]*")
_WRITTEN = (
    "\u2012-,\u2013-,⁻-,≠ not ,< less ,≤ less ,> more ,≥ more ,½.5,¼.25,¾.75,"
    "⁰00,¹01,²02,³03,⁴04,⁵05,⁶06,⁷07,⁸08,⁹09"
)
"""Signs, and what each is read as; a power gets a zero, so that 10² is not 10, 102 or 10³."""
_SIGNS = str.maketrans({each[0]: each[1:] for each in _WRITTEN.split(",")})
_NEAR = 2
"""A negation denies words at most this many places after it."""


@dataclass(frozen=True, slots=True)
class _Number:
    """A number: the `value` of its first digits, the `amount` with sign and scale, the unit."""

    value: float
    amount: float
    unit: str

    def nearly(self, other: _Number) -> bool:
        """Return whether the amounts are equal, near if they may be rounded, or 1995 and 95."""
        low, high = sorted((abs(self.amount), abs(other.amount)))
        ends = high > 1000 and high % 100 == low
        tolerance = 0.01 if high >= 10_000 or high % 1 or low % 1 else 0
        return ends or math.isclose(low, high, rel_tol=tolerance)

    def agrees(self, other: _Number) -> bool:
        """Return whether both may be the same amount; either may lack its unit."""
        units = {self.unit, other.unit} - {""}
        return self.amount == other.amount and len(units) <= 1


@dataclass(frozen=True, slots=True)
class _Text:
    """A text as `contradicts` compares it.

    `telling` are its words without stop words. `sides` has, for each pair of opposites of which the
    text has one side only, that side and the next word that is not a stop word.
    """

    tokens: tuple[str, ...]
    telling: frozenset[str]
    numbers: tuple[_Number, ...]
    sides: dict[int, tuple[int, str]]


@lru_cache(maxsize=1 << 14)
def _read(text: str) -> _Text:
    lowered = _NUMERO.sub("", fold(text.translate(_SIGNS)).lower()).replace("non-", "not ")
    tokens = tuple(_TOKEN.findall(lowered))
    telling = frozenset(tokens) - STOPWORDS
    numbers = _read_numbers(lowered) if any(map(str.isdecimal, lowered)) else ()
    return _Text(tokens, telling, numbers, _read_sides(tokens))


def _read_numbers(lowered: str) -> tuple[_Number, ...]:
    lowered = _MINUS.sub("-", lowered)
    numbers: list[_Number] = []
    unit, scale = "", 1.0
    next_start = len(lowered)
    # From the end, so that both numbers of "5 to 10 million" are millions.
    for found in reversed(list(_NUMBER.finditer(lowered))):
        value = float(found["number"]) + float(found["minutes"] or 0) / 60
        own = _unit(found["unit"] or "") or _unit(found["currency"] or "")
        shares = (
            not own
            and not found["scale"]
            and _THROUGH.fullmatch(lowered, found.end("number"), next_start)
        )
        if not shares:
            unit, scale = own, _SCALES.get(found["scale"] or "", 1.0)
        amount = value / float(found["below"] or 1) * scale
        if found["sign"] == "-" or found["inner"]:
            amount = -amount
        numbers.append(_Number(value, amount, unit))
        next_start = found.start("number")
    return tuple(numbers)


def _unit(written: str) -> str:
    name = re.sub(r"[.\s]", "", written.replace("per cent", "%"))
    return _UNITS.get(name) or _UNITS.get(name.removesuffix("s"), "")


def _read_sides(tokens: Sequence[str]) -> dict[int, tuple[int, str]]:
    found: dict[int, set[tuple[int, str]]] = {}
    for place, token in enumerate(tokens):
        if (opposite := _OPPOSITES.get(token)) is not None:
            pair, side = opposite
            flips = place > 0 and tokens[place - 1] in {"no", "not"}
            following = (word for word in tokens[place + 1 :] if word not in STOPWORDS)
            found.setdefault(pair, set()).add((side ^ flips, next(following, "")))
    return {pair: next(iter(sides)) for pair, sides in found.items() if len(sides) == 1}


def contradicts(expected: str, answer: str) -> bool:
    """Return whether an answer has words of an expected text but reverses their meaning.

    It does so by a different sign, unit or scale, am for pm, a word of opposite direction, a
    negation on one side only, or other numbers among the same words. What is not understood is no
    contradiction.
    """
    one, other = _read(expected), _read(answer)
    return (
        _numbers_deny(one.numbers, other.numbers)
        or _numbers_differ(one, other)
        or _directions_deny(one, other)
        or _denied(one, other)
    )


def contradicted(alternatives: Sequence[str], answer: str) -> bool:
    """Return whether an answer contradicts an alternative and shares no word with the others."""
    turned = [contradicts(text, answer) for text in alternatives]
    if not any(turned):
        return False
    words = _read(answer).telling
    others = (text for text, is_turned in zip(alternatives, turned, strict=True) if not is_turned)
    return all(words.isdisjoint(_read(text).telling) for text in others)


def _numbers_deny(mine: Sequence[_Number], theirs: Sequence[_Number]) -> bool:
    for number in mine:
        same = [n for n in theirs if n.value == number.value or abs(n.amount) == abs(number.amount)]
        if same and not any(map(number.agrees, same)):
            return True
    return False


def _numbers_differ(one: _Text, other: _Text) -> bool:
    """Return whether texts of the same words have other numbers of the same unit."""
    mine, theirs = (
        {w for w in text.telling - _SCALES.keys() if w.isalpha() and not _unit(w)}
        for text in (one, other)
    )
    if mine != theirs or len(one.numbers) != len(other.numbers):  # 1 000 and 1000, 1 1/2 and 1.5
        return False
    return any(
        a.unit == b.unit and not any(map(a.nearly, other.numbers))
        for a in one.numbers
        for b in other.numbers
    )


def _directions_deny(one: _Text, other: _Text) -> bool:
    for pair, (side, following) in one.sides.items():
        if pair in other.sides and other.sides[pair][0] != side:
            if following and following == other.sides[pair][1]:
                return True
            if _rest(one, pair) == _rest(other, pair):
                return True
    return False


def _rest(text: _Text, pair: int) -> set[str]:
    """Return the telling words of a text without those of a pair of opposites."""
    return {word for word in text.telling if _OPPOSITES.get(word, (-1, 0))[0] != pair}


def _denied(one: _Text, other: _Text) -> bool:
    """Return whether only one side negates the words that both have."""
    if NEGATIONS.isdisjoint(one.tokens) == NEGATIONS.isdisjoint(other.tokens):
        return False
    denying, plain = (other, one) if NEGATIONS.isdisjoint(one.tokens) else (one, other)
    if not plain.telling or not plain.telling <= denying.telling:
        return False
    last = -_NEAR - 1
    for place, token in enumerate(denying.tokens):
        if token in NEGATIONS:
            last = place
        elif token in {"but", "only"}:
            last = -_NEAR - 1
        elif token in plain.telling:
            return place - last <= _NEAR
    return False
