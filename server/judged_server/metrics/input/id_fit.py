"""Whether the ids that were retrieved are of the same kind as those that were judged.

Ids that are spelt otherwise on the two sides never meet, and the means are 0, or too small, without
anything wrong in the retriever. So what was missed is looked for in other spellings: a few thousand
of the ids that were retrieved, not all of a large run.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import unquote

from judged.values.agreement import IdFit

_ENDING = re.compile(r"(?<=[^./])\.([a-z][a-z0-9]{0,5}|0+)$")
_MARKS = re.compile(r"[^\w/]|_|\b0+(?=\d)")
"""Punctuation, white space, what does not show, and zeros in front."""
_SAMPLE, _RARE = 2_000, 20_000
"""How many retrieved ids are looked at: of any queries, and of those that expect ids with escapes
or letters outside ASCII."""
_SHOWN = 80
_MOST = 2**63
"""More than can be counted; callers send what is added up."""


class IdSample:
    """Looks at the queries of a call for expected ids that were retrieved in another spelling."""

    def __init__(self) -> None:
        self._looked = 0
        self._seen = IdFit()

    def see(self, groups: Iterable[tuple[Sequence[str], Sequence[str], Mapping[str, int]]]) -> None:
        """Look at some of the groups, given as for JudgedIds.of."""
        for found, relevant, grades in groups:
            if found:
                self.look(grades or relevant, found)

    def look(self, expected: Collection[str], retrieved: Sequence[str]) -> None:
        """Look at a query by the ids of its judged documents, and those that it retrieved."""
        rare = any(not name.isascii() or "%" in name for name in expected)
        if self._looked >= (_RARE if rare else _SAMPLE):
            return
        there, wanted = set(retrieved), set(expected)
        missed = [name for name in expected if name not in there][:_SAMPLE]
        if not missed:
            return
        self._looked += len(retrieved)
        others = [name for name in retrieved[:_SAMPLE] if name not in wanted]
        pairs, seen = _alike(missed, others), self._seen
        shown = pairs or ([(missed[0], others[0])] if others else [])
        if shown and not (seen.alike or (seen.expected_id and not pairs)):
            seen = replace(seen, expected_id=shown[0][0], retrieved_id=shown[0][1])
        self._seen = replace(
            seen,
            compared=seen.compared + len(missed),
            alike=seen.alike + len(pairs),
            same=seen.same + sum(_plain(a) == _plain(b) for a, b in pairs),
        )

    def fit(self, expected: int, found: int, retrieved: int) -> IdFit:
        """Return how ids fit, with the numbers of all queries that retrieved something."""
        seen = self._seen
        if found and not seen.alike:
            seen = replace(seen, expected_id="", retrieved_id="")
        return replace(seen, expected=expected, found=found, retrieved=retrieved)


def add_fits(fits: Sequence[IdFit]) -> IdFit | None:
    """Return the fit of the queries of all; None of none."""
    if not fits:
        return None
    names = ("expected", "found", "retrieved", "compared", "alike", "same")
    sums = {name: min(sum(getattr(fit, name) for fit in fits), _MOST) for name in names}
    return replace(max(fits, key=lambda fit: (fit.alike > 0, fit.expected_id != "")), **sums)


def fit_warning(fit: IdFit) -> str:
    """Return what the reader of the metrics should know, "" where ids fit."""
    pair = f"for example {_shown(fit.retrieved_id)} and {_shown(fit.expected_id)}"
    if fit.expected and fit.retrieved and not fit.found:
        return (
            f"none of the {fit.retrieved} document ids that were retrieved is among the "
            f"{fit.expected} that are expected, {pair}; are they ids of the same kind, "
            "and the results of these queries?"
        )
    if fit.same or (fit.alike > 1 and 3 * fit.alike >= fit.compared):
        return (
            f"{fit.alike} of {fit.compared} expected document ids that were not retrieved "
            f"were retrieved in another spelling, which counts as not found, {pair}; "
            "write both alike"
        )
    return ""


def _shown(name: str) -> str:
    """Return an id so that people can tell it from another one that looks the same."""
    return ascii(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…")


def _plain(name: str) -> str:
    """Return the text of an id: two ids of one text are hardly two documents."""
    return unicodedata.normalize("NFC", unquote(name)).strip()


def _form(name: str) -> str:
    """Return what the usual spellings of an id share, with its path: `/data/doc1` of Doc_01.md."""
    folded = unicodedata.normalize("NFKC", unquote(name)).casefold().replace("\\", "/")
    return "/" + (_MARKS.sub("", _ENDING.sub("", folded.strip().strip("/"))) or name)


def _alike(missed: Iterable[str], others: Iterable[str]) -> list[tuple[str, str]]:
    """Return the missed ids that are among the others in another spelling, with that.

    `a/x` and `x` may be one, `a/x` and `b/x` not.
    """
    found = {_form(name).rpartition("/")[2]: name for name in others}
    pairs = []
    for name in missed:
        form = _form(name)
        other = found.get(form.rpartition("/")[2])
        if other is not None and (form.endswith(_form(other)) or _form(other).endswith(form)):
            pairs.append((name, other))
    return pairs
