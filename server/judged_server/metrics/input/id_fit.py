"""Checks whether the retrieved ids are of the same kind as the judged ones.

If the two sides spell ids differently, the ids never match, and the means are 0, or too small,
though the retriever is right. So missed ids are searched for in other spellings, among a few
thousand of the retrieved ids of a large run.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from difflib import get_close_matches
from urllib.parse import unquote

from judged.values.agreement import IdFit

_NUMBER = re.compile(r"[+-]?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,2})?", re.ASCII)
_UNSEEN = re.compile(r"[\u00ad\u200b-\u200f\u2060\ufeff]+")
_SCHEME = re.compile(r"^(https?://)?(www\.)?", re.IGNORECASE)
_ENDING = re.compile(r"(?<=[^./])\.[a-z][a-z0-9]{0,5}$", re.IGNORECASE)
_WORD = re.compile(r"[a-z][a-z0-9_-]*", re.IGNORECASE | re.ASCII)
_LONG = 12
"""Spreadsheets write whole numbers of this many digits or more as 1.23457E+12."""


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
"""Spellings of one text: two ids that differ only in this are hardly two documents."""
_ALIKE: Sequence[_Step] = (
    ("in compatible letters (NFKC)", lambda name: unicodedata.normalize("NFKC", name)),
    ("in upper and lower case", str.casefold),
    ("in digits that were rounded", _rounded),
    ("in http://, https:// or www.", lambda name: _SCHEME.sub("", name)),
    ("in a path before the name", lambda name: name.replace("\\", "/").rpartition("/")[2]),
    ("in a file's ending", lambda name: _ENDING.sub("", name)),
    ("in punctuation", lambda name: re.sub(r"[\W_]+", "", name) or name),
)
"""Spellings that two documents of a collection may have: only many such pairs are significant."""
_ALL = (*_SAME, *_ALIKE)
_SAMPLE, _RARE = 2_000, 20_000
"""The number of retrieved ids examined: of any queries, and of those that expect ids with escapes
or letters outside ASCII."""
_KEPT = 100
"""Ids kept to find the closest pair among, if no expected id was retrieved."""
_SHOWN = 80
_MOST = 2**63
"""Limit of sums, since callers send the numbers that are added."""


class IdSample:
    """Searches the queries of a call for expected ids retrieved in another spelling."""

    def __init__(self) -> None:
        self._looked = self._compared = self._n_alike = self._n_same = 0
        self._example: tuple[str, str] | None = None
        self._missed: dict[str, None] = {}
        self._others: dict[str, None] = {}

    def see(self, groups: Iterable[tuple[Sequence[str], Sequence[str], Mapping[str, int]]]) -> None:
        """Examine groups, given as for JudgedIds.of."""
        for found, relevant, grades in groups:
            if found:
                self.look(grades or relevant, found)

    def look(self, expected: Collection[str], retrieved: Sequence[str]) -> None:
        """Examine a query: the ids of its judged documents, and the retrieved ids."""
        rare = any(not name.isascii() or "%" in name for name in expected)
        if self._looked >= (_RARE if rare else _SAMPLE):
            return
        there, wanted = set(retrieved), set(expected)
        missed = [name for name in expected if name not in there][:_SAMPLE]
        if not missed:
            return
        self._looked += len(retrieved)
        others = [name for name in retrieved[:_SAMPLE] if name not in wanted]
        pairs = _alike(missed, others)
        self._compared += len(missed)
        self._n_alike += len(pairs)
        self._n_same += sum(_form(a, _SAME) == _form(b, _SAME) for a, b in pairs)
        self._example = self._example or next(iter(pairs), None)
        if len(self._others) < _KEPT:
            self._missed.update(dict.fromkeys(missed[:_KEPT]))
            self._others.update(dict.fromkeys(others[:_KEPT]))

    def fit(self, expected: int, found: int, retrieved: int) -> IdFit:
        """Return how ids fit; the arguments count the ids of all queries with results."""
        example = self._example
        if example is None and not found and self._missed and self._others:
            example = _nearest(self._missed, self._others)
        counts = (expected, found, retrieved, self._compared, self._n_alike, self._n_same)
        return (
            IdFit(*counts) if example is None else IdFit(*counts, *example, _difference(*example))
        )


def add_fits(fits: Sequence[IdFit]) -> IdFit | None:
    """Return the fit over the queries of all; None if there are none."""
    if not fits:
        return None
    names = ("expected", "found", "retrieved", "compared", "alike", "same")
    sums = {name: min(sum(getattr(fit, name) for fit in fits), _MOST) for name in names}
    return replace(next((fit for fit in fits if fit.difference), fits[0]), **sums)


def fit_warning(fit: IdFit) -> str:
    """Return the warning for the reader of the metrics, "" if ids fit."""
    pair = f"for example {_shown(fit.retrieved_id)} and {_shown(fit.expected_id)}"
    how = f", which differ {fit.difference}" if fit.difference else ""
    if fit.expected and fit.retrieved and not fit.found:
        if fit.expected_id and fit.expected_id == fit.retrieved_id:
            pair = f"though {_shown(fit.expected_id)} was retrieved for another query"
        return (
            f"none of the {fit.retrieved} document ids that were retrieved is among the "
            f"{fit.expected} that are expected, {pair}{how}; are they ids of the same kind, "
            "and the results of these queries?"
        )
    if fit.same or (fit.alike > 1 and 3 * fit.alike >= fit.compared):
        return (
            f"{fit.alike} of {fit.compared} expected document ids that were not retrieved "
            f"were retrieved in another spelling, which counts as not found, {pair}{how}; "
            "write both alike"
        )
    return ""


def _shown(name: str) -> str:
    """Return an id in ASCII, so that it differs visibly from one that looks the same."""
    return ascii(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…")


def _form(name: str, steps: Sequence[_Step]) -> str:
    if steps is _ALL and name.isascii():  # most ids are of digits, or a word
        if name.isdigit():
            return _rounded(name.lstrip("0") or "0")
        if _WORD.fullmatch(name):
            return name.lower().replace("-", "").replace("_", "")
    for _, step in steps:
        name = step(name)
    return name


def _alike(missed: Iterable[str], others: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of a missed id and the other id that is its other spelling."""
    found = {_form(name, _ALL): name for name in others}
    pairs = ((name, found.get(_form(name, _ALL))) for name in missed)
    return [(a, b) for a, b in pairs if b is not None and _may_be_one(a, b)]


def _may_be_one(a: str, b: str) -> bool:
    """Return whether two ids of one form may be the same: `a/x` and `x`, not `a/x` and `b/x`.

    Two different whole numbers that round to the same are not.
    """
    if a.isdigit() and b.isdigit():
        return _form(a, _SAME) == _form(b, _SAME)
    names = (_form(name, _ALL[:-3]).replace("\\", "/") for name in (a, b))  # with their paths
    short, long = sorted((f"/{name.rpartition('/')[0]}".rstrip("/") for name in names), key=len)
    return long.endswith(short)


def _nearest(expected: Collection[str], retrieved: Collection[str]) -> tuple[str, str]:
    """Return an expected id and the retrieved one most similar to it."""
    if found := _alike(expected, retrieved):
        return found[0]
    first = next(iter(expected))
    known = {name[:_SHOWN]: name for name in retrieved}
    (like,) = get_close_matches(first[:_SHOWN], known, 1, cutoff=0.0)
    return first, known[like]


def _difference(a: str, b: str) -> str:
    """Return in words how two spellings of an id differ, "" if they are not of one id."""
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
