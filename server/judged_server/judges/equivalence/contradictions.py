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

from judged_server.judges.equivalence.words import NEGATIONS, fold
from judged_server.judges.token_overlap import STOPWORDS

_UNIT_NAMES = """
    % percent pct, $ dollar usd buck, € euro eur, £ gbp sterling, ¥ yen jpy, ₹ rupee inr, cent,
    km kilometer kilometre, mile mi, meter metre, cm centimeter centimetre, mm millimeter
    millimetre, foot feet ft, yard, inch inches, kg kilogram kilo, gram, mg milligram, lb, ounce
    oz, liter litre, gallon, second sec, minute min, hour hr, day, week, month, year yr, °c
    celsius, °f fahrenheit, kb kilobyte, mb megabyte, gb gigabyte, tb terabyte, am, pm
"""
_UNITS = {name: names.split()[0] for names in _UNIT_NAMES.split(",") for name in names.split()}
_SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_SIDES = """
    before until till prior | after since, least minimum over above | most maximum under below,
    more higher greater | less lower fewer, increase increased increases rise rises rose rising
    grow grows grew growth | decrease decreased decreases fall falls fell falling decline
    declined dropped, north | south, east | west, left | right, true | false, yes | no, always |
    never
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
    r"\s?-?(?P<unit>%|°[cf]\b|per cent\b|[ap]\.?\s?m\b|[^\W\d_]+)?"
)
_MINUS = re.compile(r"\b(?:minus|negative)\s+(?=[$€£¥₹]?\.?\d)")
_TOKEN = re.compile(r"[^\W_]+")
_NUMERO = re.compile(r"\bno\.?\s?(?=\d)")
_THROUGH = re.compile(r"[\s-]*(?:to|and|or)?[\s-]*")
_DASHES = str.maketrans(dict.fromkeys("\u2212\u2012\u2013\ufe63\uff0d", "-"))
_NEAR = 2
"""A negation denies the words that follow it within so many."""


@dataclass(frozen=True, slots=True)
class _Number:
    """A number as its digits say, and with its sign, scale and unit; `parts` are of a fraction."""

    value: float
    amount: float
    unit: str
    parts: tuple[float, float] | None

    def agrees(self, other: _Number) -> bool:
        """Say whether both may be one amount: a unit may be left out."""
        units = {self.unit, other.unit} - {""}
        return self.amount == other.amount and len(units) <= 1


@dataclass(frozen=True, slots=True)
class _Text:
    """What is read of one text.

    `telling` are its words but for stop words. By pair of opposites `sides` has the side that the
    text has alone, and the telling word behind it.
    """

    tokens: tuple[str, ...]
    telling: frozenset[str]
    numbers: tuple[_Number, ...]
    sides: dict[int, tuple[int, str]]


@lru_cache(maxsize=1 << 14)
def _read(text: str) -> _Text:
    lowered = _NUMERO.sub("", fold(text.translate(_DASHES)).lower())
    tokens = tuple(_TOKEN.findall(lowered))
    telling = frozenset(tokens) - STOPWORDS
    numbers = _read_numbers(lowered) if any(map(str.isdigit, telling)) else ()
    return _Text(tokens, telling, numbers, _read_sides(tokens))


def _read_numbers(lowered: str) -> tuple[_Number, ...]:
    lowered = _MINUS.sub("-", lowered)
    numbers: list[_Number] = []
    unit, scale = "", 1.0
    behind = len(lowered)
    # From the end, so that of "5 to 10 million" both are millions.
    for found in reversed(list(_NUMBER.finditer(lowered))):
        value, below = float(found["number"]), float(found["below"] or 1)
        parts = (value, below) if found["below"] else None
        value = value / below + float(found["minutes"] or 0) / 60
        own = _unit(found["unit"] or "") or _unit(found["currency"] or "")
        shares = (
            not own
            and not found["scale"]
            and _THROUGH.fullmatch(lowered, found.end("number"), behind)
        )
        if not shares:
            unit, scale = own, _SCALES.get(found["scale"] or "", 1.0)
        negative = found["sign"] == "-" or found["inner"]
        amount = -value * scale if negative else value * scale
        numbers.append(_Number(value, amount, unit, parts))
        behind = found.start("number")
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
    """Say whether an answer has words of an expected text and turns what they say around.

    By a sign, a unit, a scale, am for pm, a word of opposite direction or a negation, on one side
    alone. What it does not understand contradicts nothing.
    """
    one, other = _read(expected), _read(answer)
    return (
        _numbers_deny(one.numbers, other.numbers)
        or _directions_deny(one, other)
        or _denied(one, other)
    )


def contradicted(alternatives: Sequence[str], answer: str) -> bool:
    """Say whether an answer turns an alternative around, and no other speaks for it."""
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
    for numbers, others in ((mine, theirs), (theirs, mine)):
        values = {number.value for number in others}
        if any(n.parts and {*n.parts} <= values and n.value not in values for n in numbers):
            return True
    return False


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
