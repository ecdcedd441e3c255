"""Whether the ids that were retrieved are of the same kind as those that were judged.

Ids that are spelt otherwise on the two sides never meet, and the means are 0, or too small, without
anything wrong in the retriever. So what was missed is looked for in other spellings: a few thousand
of the ids that were retrieved, not all of a large run.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from difflib import get_close_matches
from typing import Self
from urllib.parse import unquote

_NUMBER = re.compile(r"[+-]?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,2})?", re.ASCII)
_UNSEEN = re.compile(r"[\u00ad\u200b-\u200f\u2060\ufeff]+")
_SCHEME = re.compile(r"^(https?://)?(www\.)?", re.IGNORECASE)
_ENDING = re.compile(r"(?<=[^./])\.[a-z][a-z0-9]{0,5}$", re.IGNORECASE)
_LONG = 12
"""Spreadsheets write whole numbers with more digits than this less one as 1.23457E+12."""


def _whole(name: str) -> str:
    if _NUMBER.fullmatch(name) is None:
        return name
    number = Decimal(name)
    return str(int(number)) if number == int(number) else name


def _rounded(name: str) -> str:
    if len(name) < _LONG or not name.isdecimal():
        return name
    return f"{Decimal(name):.5E}".replace(".", "").replace("+", "")


_Step = tuple[str, Callable[[str], str]]
_SAME: Sequence[_Step] = (
    ("in per cent encoding", lambda name: unquote(name) if "%" in name else name),
    (
        "in white space or characters that don't show",
        lambda name: " ".join(_UNSEEN.sub("", name).split()),
    ),
    ("in Unicode normal form (NFC or NFD)", lambda name: unicodedata.normalize("NFC", name)),
    ("in how a number is written", _whole),
    ("in a slash at the end", lambda name: name.rstrip("/") or name),
)
"""Spellings of one text: two ids that differ only so hardly are two documents."""
_ALIKE: Sequence[_Step] = (
    ("in compatible letters (NFKC)", lambda name: unicodedata.normalize("NFKC", name)),
    ("in upper and lower case", str.casefold),
    ("in digits that were rounded", _rounded),
    ("in http://, https:// or www.", lambda name: _SCHEME.sub("", name)),
    ("in a path before the name", lambda name: name.replace("\\", "/").rpartition("/")[2]),
    ("in a file's ending", lambda name: _ENDING.sub("", name)),
    ("in punctuation", lambda name: re.sub(r"[\W_]+", "", name) or name),
)
"""Spellings that two documents of a collection may have; only many of them are no chance."""
_ALL = (*_SAME, *_ALIKE)
_SAMPLE, _RARE = 2_000, 20_000
"""How many retrieved ids are looked at: of any queries, and of those that expect ids with escapes
or letters outside ASCII."""
_KEPT = 100
"""Ids that are kept to find the nearest of, as long as nothing was found."""
_SHOWN = 80
_MOST = 2**63
"""More than can be counted; callers send what is added up."""


@dataclass(slots=True)
class IdFit:
    """How the ids of judged documents fit those that were retrieved; its queries retrieved some.

    Of `expected` ids of judged documents `found` were retrieved for their query, of `retrieved` in
    all. Of the others `compared` were looked for in another spelling; `alike` of them were there,
    and `same` of these are the same text. `expected_id` and `retrieved_id` are an example, whose
    `difference` is in words.
    """

    expected: int = 0
    found: int = 0
    retrieved: int = 0
    compared: int = 0
    alike: int = 0
    same: int = 0
    expected_id: str = ""
    retrieved_id: str = ""
    difference: str = ""
    _left: int = field(default=_SAMPLE, compare=False)
    _left_of_rare: int = field(default=_RARE, compare=False)
    _missed: dict[str, None] = field(default_factory=dict, compare=False)
    _others: dict[str, None] = field(default_factory=dict, compare=False)

    def see(self, groups: Iterable[tuple[Sequence[str], Sequence[str], Mapping[str, int]]]) -> None:
        """Look at some of the groups, given as for JudgedIds.of."""
        for found, relevant, grades in groups:
            if (judged := grades or relevant) and self.wants(judged, len(found)):
                self.add(judged, found)

    def wants(self, expected: Iterable[str], n_retrieved: int) -> bool:
        """Say whether to `add` a query that expects these ids and retrieved so many."""
        if self._left > 0:
            self._left -= n_retrieved
            return True
        rare = self._left_of_rare > 0 and any(not n.isascii() or "%" in n for n in expected)
        self._left_of_rare -= n_retrieved if rare else 0
        return rare

    def add(self, expected: Collection[str], retrieved: Sequence[str]) -> None:
        """Look at a query by the ids of its judged documents, and those that it retrieved."""
        there, wanted = set(retrieved), set(expected)
        missed = [name for name in expected if name not in there][:_SAMPLE]
        self.found += len(missed) < len(expected)
        if missed and retrieved:
            others = [name for name in retrieved[:_SAMPLE] if name not in wanted]
            pairs = _alike(missed, others)
            self.compared += len(missed)
            self.alike += len(pairs)
            self.same += sum(_form(a, _SAME) == _form(b, _SAME) for a, b in pairs)
            if pairs and not self.difference:
                self._show(*pairs[0])
            if not self.found and len(self._others) < _KEPT:
                self._missed.update(dict.fromkeys(missed[:_KEPT]))
                self._others.update(dict.fromkeys(others[:_KEPT]))

    def closed(self, expected: int, found: int, retrieved: int) -> Self:
        """Return it with the numbers of all queries, also of those that were not looked at."""
        self.expected, self.found, self.retrieved = expected, found, retrieved
        if not found and not self.difference and self._missed and self._others:
            self._show(*_nearest(self._missed, self._others))
        return self

    def _show(self, expected: str, retrieved: str) -> None:
        self.expected_id, self.retrieved_id = expected, retrieved
        self.difference = _difference(expected, retrieved)

    def __add__(self, other: IdFit) -> IdFit:
        """Return the fit of the queries of both."""
        pair = other if other.difference and not self.difference else self
        names = ("expected", "found", "retrieved", "compared", "alike", "same")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return replace(pair, **{name: min(number, _MOST) for name, number in sums.items()})

    def warning(self) -> str:
        """Return what the reader of the metrics should know, "" where ids fit."""
        pair = f"for example {_shown(self.retrieved_id)} and {_shown(self.expected_id)}"
        how = f", which differ {self.difference}" if self.difference else ""
        if self.expected and self.retrieved and not self.found:
            if self.expected_id and self.expected_id == self.retrieved_id:
                pair = f"though {_shown(self.expected_id)} was retrieved for another query"
            return (
                f"none of the {self.retrieved} document ids that were retrieved is among the "
                f"{self.expected} that are expected, {pair}{how}; are they ids of the same kind, "
                "and the results of these queries?"
            )
        if self.same or (self.alike > 1 and 3 * self.alike >= self.compared):
            return (
                f"{self.alike} of {self.compared} expected document ids that were not retrieved "
                f"were retrieved in another spelling, which counts as not found, {pair}{how}; "
                "write both alike"
            )
        return ""


def _shown(name: str) -> str:
    """Return an id so that people can tell it from another one that looks the same."""
    return ascii(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…")


def _form(name: str, steps: Sequence[_Step]) -> str:
    if steps is _ALL and name.isascii() and name.isdigit():  # as most ids are
        return _rounded(name.lstrip("0") or "0")
    for _, step in steps:
        name = step(name)
    return name


def _alike(missed: Iterable[str], others: Iterable[str]) -> list[tuple[str, str]]:
    """Return the missed ids that are among the others in another spelling, with that."""
    found = {_form(name, _ALL): name for name in others}
    pairs = ((name, found.get(_form(name, _ALL))) for name in missed)
    return [(a, b) for a, b in pairs if b is not None and _may_be_one(a, b)]


def _may_be_one(a: str, b: str) -> bool:
    """Say whether two ids of one form may be one: `a/x` and `x`, not `a/x` and `b/x`.

    Nor are two whole numbers that begin alike.
    """
    if a.isdigit() and b.isdigit():
        return _form(a, _SAME) == _form(b, _SAME)
    names = (_form(name, _ALL[:-3]).replace("\\", "/") for name in (a, b))  # with their paths
    short, long = sorted((f"/{name.rpartition('/')[0]}".rstrip("/") for name in names), key=len)
    return long.endswith(short)


def _nearest(expected: Collection[str], retrieved: Collection[str]) -> tuple[str, str]:
    """Return an expected id and the one that is the most like it."""
    same = [(name, name) for name in expected if name in retrieved]
    first = next(iter(expected))
    within = [(first, name) for name in retrieved if first in name or name in first]
    if found := [*same, *_alike(expected, retrieved), *within]:
        return found[0]
    known = {name[:_SHOWN]: name for name in retrieved}
    (like,) = get_close_matches(first[:_SHOWN], known, 1, cutoff=0.0)
    return first, known[like]


def _difference(a: str, b: str) -> str:
    """Return how two spellings of an id differ in words, "" where they are none of one."""
    if a == b:
        return ""
    if _form(a, _ALL) != _form(b, _ALL):
        return "in what stands before or after it" if a in b or b in a else ""
    needed = list(_ALL)
    for step in reversed(_ALL):
        fewer = [each for each in needed if each is not step]
        if _form(a, fewer) == _form(b, fewer):
            needed = fewer
    return " and ".join(words for words, _ in needed)
