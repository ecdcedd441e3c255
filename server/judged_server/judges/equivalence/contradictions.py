"""What makes two texts of the same words say different things: signs, units, halves, directions.

The words of a text keep letters and digits alone, so "-40" and "40", "$5" and "5%", "10:30 am" and
"10:30 pm" have the same ones. Here these marks are read, with negations on one side alone and words
of opposite direction ("before 1990", "after 1990").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from judged_server.judges.lexical.tokens import STOPWORDS

_UNITS = {
    name: unit
    for unit, names in {
        "%": "% percent pct",
        "$": "$ dollar dollars usd buck bucks",
        "€": "€ euro euros eur",
        "£": "£ gbp sterling",
        "¥": "¥ yen jpy",
        "₹": "₹ rupee rupees inr",
        "cent": "cent cents",
        "km": "km kilometer kilometers kilometre kilometres",
        "mile": "mile miles mi",
        "m": "meter meters metre metres",
        "cm": "cm centimeter centimeters centimetre centimetres",
        "mm": "mm millimeter millimeters millimetre millimetres",
        "foot": "ft foot feet",
        "inch": "inch inches",
        "yard": "yard yards",
        "kg": "kg kilogram kilograms kilo kilos",
        "g": "gram grams",
        "mg": "mg milligram milligrams",
        "lb": "lb lbs",
        "ounce": "oz ounce ounces",
        "liter": "liter liters litre litres",
        "gallon": "gallon gallons",
        "second": "second seconds sec secs",
        "minute": "minute minutes min mins",
        "hour": "hour hours hr hrs",
        "day": "day days",
        "week": "week weeks",
        "month": "month months",
        "year": "year years yr yrs",
        "°c": "°c celsius",
        "°f": "°f fahrenheit",
        "kb": "kb kilobyte kilobytes",
        "mb": "mb megabyte megabytes",
        "gb": "gb gigabyte gigabytes",
        "tb": "tb terabyte terabytes",
    }.items()
    for name in names.split()
}
_SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_OPPOSITES = {
    word: (pair, side)
    for pair, sides in enumerate(
        (
            ("before until till prior", "after since"),
            ("least minimum over above", "most maximum under below"),
            ("more higher greater", "less lower fewer"),
            (
                "increase increased increases rise rises rose rising grow grows grew growth",
                "decrease decreased decreases fall falls fell falling decline declined dropped",
            ),
            ("north", "south"),
            ("east", "west"),
            ("left", "right"),
            ("true", "false"),
            ("yes", "no"),
            ("always", "never"),
        )
    )
    for side, words in enumerate(sides)
    for word in words.split()
}
_NEGATIONS = frozenset(("no", "not", "never", "none", "without", "cannot", "nor", "neither"))
_FLIPPED = {"no", "not"}
_SIGN = r"(?<![\w.)\-])[-+]"
_CURRENCY = r"[$€£¥₹]"
_NUMBER = re.compile(
    rf"(?P<sign>{_SIGN}(?=\s?{_CURRENCY}?\.?\d))?\s?(?P<currency>{_CURRENCY})?(?P<inner>-(?=\d))?"
    r"(?P<number>\d+(?:\.\d+)?|\.\d+)(?:/(?P<below>[1-9]\d*)(?![/\d]))?(?::(?P<minutes>\d\d))?"
    r"(?:[\s-]?(?P<scale>hundred|thousand|million|billion|trillion)\b)?"
    r"\s?-?(?:(?P<half>[ap])\.?\s?m\b|(?P<unit>%|°[cf]\b|per cent\b|[^\W\d_]+))?"
)
_MINUS = re.compile(r"\b(?:minus|negative)\s+(?=[$€£¥₹]?\.?\d)")
_TOKEN = re.compile(r"[^\W_]+")
_NOT = re.compile(r"n['\u2019]t\b")
_NUMERO = re.compile(r"\bno\.?\s?(?=\d)")
_THROUGH = re.compile(r"[\s-]*(?:to|and|or)?[\s-]*")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_DASHES = str.maketrans({"\u2212": "-", "\u2012": "-", "\u2013": "-", "\ufe63": "-", "\uff0d": "-"})
_SIGNED = re.compile(rf"{_SIGN}\s?{_CURRENCY}?\.?\d|\d/\d")
_MEASURED = re.compile(rf"{_CURRENCY}\s?\d|\d\s?[%°]|\d[ap]m\b|\d\s?[ap]\.\s?m\b")
_SIGNING = frozenset((*_SCALES, "minus", "negative"))
_MEASURING = frozenset((*_UNITS, "am", "pm"))
_NEAR = 2
"""A negation denies the words that follow it within so many."""


@dataclass(frozen=True, slots=True)
class _Number:
    value: float
    """Without its sign and its scale."""
    scale: float
    negative: bool
    unit: str
    half: str

    def denies(self, other: _Number) -> bool:
        """Say whether the same digits mean another amount."""
        return (
            self.negative != other.negative
            or self.scale != other.scale
            or bool(self.unit and other.unit and self.unit != other.unit)
            or bool(self.half and other.half and self.half != other.half)
        )


@dataclass(frozen=True, slots=True)
class _Text:
    """What is read of one text.

    `telling` are its words but for stop words, `digits` those that are numbers. `signed` says that
    a number has a sign, a scale or is a fraction, `measured` that one has a unit. By pair of
    opposites `sides` has the side that the text has alone, and the telling word behind it.
    """

    lowered: str
    tokens: tuple[str, ...]
    telling: frozenset[str]
    digits: frozenset[str]
    signed: bool
    measured: bool
    negated: bool
    sides: dict[int, tuple[int, str]]


@lru_cache(maxsize=1 << 14)
def _read(text: str) -> _Text:
    lowered = text.translate(_DASHES).lower() if not text.isascii() else text.lower()
    if "n't" in lowered or "n\u2019t" in lowered:
        lowered = _NOT.sub(" not", lowered)
    if "," in lowered:
        lowered = _THOUSANDS.sub("", lowered)
    if "no" in lowered:
        lowered = _NUMERO.sub("", lowered)
    tokens = tuple(_TOKEN.findall(lowered))
    telling = frozenset(tokens) - STOPWORDS
    digits = frozenset(filter(str.isdigit, telling))
    return _Text(
        lowered,
        tokens,
        telling,
        digits,
        bool(digits) and bool(not _SIGNING.isdisjoint(tokens) or _SIGNED.search(lowered)),
        bool(digits) and bool(not _MEASURING.isdisjoint(tokens) or _MEASURED.search(lowered)),
        not _NEGATIONS.isdisjoint(tokens),
        {} if _OPPOSITES.keys().isdisjoint(tokens) else _read_sides(tokens),
    )


@lru_cache(maxsize=1 << 12)
def _numbers(
    text: str,
) -> tuple[tuple[_Number, ...], tuple[tuple[float, float], ...]]:
    """Return the numbers of a lowered text, and of each fraction the two that it is made of."""
    lowered = _MINUS.sub("-", text)
    numbers: list[_Number] = []
    fractions: list[tuple[float, float]] = []
    behind = len(lowered)
    # From the end, so that of "5 to 10 million" both are millions.
    for found in reversed(list(_NUMBER.finditer(lowered))):
        value = float(found["number"])
        if found["below"]:
            fractions.append((value, float(found["below"])))
            value /= float(found["below"])
        if found["minutes"]:
            value += float(found["minutes"]) / 60
        written = found["unit"] or found["currency"] or ""
        unit = "%" if written == "per cent" else _UNITS.get(written, "")
        unit = unit or _UNITS.get(found["currency"] or "", "")
        scale, half = _SCALES.get(found["scale"] or "", 1.0), found["half"] or ""
        bare = not (unit or half) and scale == 1.0
        if bare and numbers and _THROUGH.fullmatch(lowered, found.end("number"), behind):
            unit, scale, half = numbers[-1].unit, numbers[-1].scale, numbers[-1].half
        negative = found["sign"] == "-" or bool(found["inner"])
        numbers.append(_Number(value, scale, negative, unit, half))
        behind = found.start("number")
    return tuple(numbers), tuple(fractions)


def _read_sides(tokens: Sequence[str]) -> dict[int, tuple[int, str]]:
    found: dict[int, set[tuple[int, str]]] = {}
    for place, token in enumerate(tokens):
        if (opposite := _OPPOSITES.get(token)) is not None:
            pair, side = opposite
            flips = place > 0 and tokens[place - 1] in _FLIPPED
            following = (word for word in tokens[place + 1 :] if word not in STOPWORDS)
            found.setdefault(pair, set()).add((1 - side if flips else side, next(following, "")))
    return {pair: next(iter(sides)) for pair, sides in found.items() if len(sides) == 1}


def contradicts(expected: str, answer: str) -> bool:
    """Say whether an answer has words of an expected text and turns what they say around.

    By a sign, a unit, a scale, am for pm, a word of opposite direction or a negation, on one side
    alone. What it does not understand contradicts nothing.
    """
    one, other = _read(expected), _read(answer)
    return _numbers_deny(one, other) or _directions_deny(one, other) or _denied(one, other)


def contradicted(alternatives: Sequence[str], answer: str) -> bool:
    """Say whether an answer turns an alternative around, and no other speaks for it."""
    turned = [contradicts(text, answer) for text in alternatives]
    if not any(turned):
        return False
    words = _read(answer).telling
    others = (text for text, is_turned in zip(alternatives, turned, strict=True) if not is_turned)
    return all(words.isdisjoint(_read(text).telling) for text in others)


def _numbers_deny(one: _Text, other: _Text) -> bool:
    marked = one.signed or other.signed or (one.measured and other.measured)
    if not marked or one.digits.isdisjoint(other.digits):
        return False  # as of most texts
    mine, my_fractions = _numbers(one.lowered)
    theirs, their_fractions = _numbers(other.lowered)
    for number in mine:
        amount = number.value * number.scale
        same = [n for n in theirs if n.value == number.value or n.value * n.scale == amount]
        agrees = any(
            n.value * n.scale == amount and not _scaled_alike(number, n).denies(n) for n in same
        )
        if same and not agrees:
            return True
    for fractions, numbers in ((my_fractions, theirs), (their_fractions, mine)):
        values = {number.value for number in numbers}
        if any({a, b} <= values and a / b not in values for a, b in fractions):
            return True
    return False


def _scaled_alike(number: _Number, other: _Number) -> _Number:
    """Return a number of the same amount with the other's scale: 1.5 million is 1,500,000."""
    return _Number(other.value, other.scale, number.negative, number.unit, number.half)


def _directions_deny(one: _Text, other: _Text) -> bool:
    for pair, (side, following) in one.sides.items():
        if pair in other.sides and other.sides[pair][0] != side:
            if following and following == other.sides[pair][1]:
                return True
            if _rest(one, pair) == _rest(other, pair):
                return True
    return False


def _rest(text: _Text, pair: int) -> set[str]:
    """Return the telling words of a text but for those of a pair of opposites."""
    return {word for word in text.telling if _OPPOSITES.get(word, (-1, 0))[0] != pair}


def _denied(one: _Text, other: _Text) -> bool:
    """Say whether one side alone denies the words that both have."""
    if one.negated == other.negated:
        return False
    denying, plain = (one, other) if one.negated else (other, one)
    if not plain.telling or not plain.telling <= denying.telling:
        return False
    last = -_NEAR - 1
    for place, token in enumerate(denying.tokens):
        if token in _NEGATIONS:
            last = place
        elif token in {"but", "only"}:
            last = -_NEAR - 1
        elif token in plain.telling:
            return place - last <= _NEAR
    return False
