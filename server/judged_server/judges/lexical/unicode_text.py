"""How the `unicode` profile of `token_overlap` reads a text of any language.

A word is a run of letters, digits and combining marks, or a picture such as an emoji. Scripts that
put no spaces between words have no such runs, so their characters are taken two by two.
"""

from __future__ import annotations

import re
import unicodedata

from judged_server.domain.text_form import FIRST_PICTURE, UNSPACED, plain_form
from judged_server.judges.lexical.tokens import TextForm, alphabet

_UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")


class _WordCharacters(dict[int, int | str]):
    """What `str.translate` makes of each code point, looked up when first met.

    Letters, numbers and marks stay, and each picture is a word. All else becomes a space. The
    answers are facts of Unicode and there are at most as many as code points, so one table serves
    every call.
    """

    def __missing__(self, code: int) -> int | str:
        category = unicodedata.category(chr(code))
        result: int | str = " "
        if category[0] in "LNM":
            result = code
        elif category == "So" and code >= FIRST_PICTURE:
            result = f" {chr(code)} "
        self[code] = result
        return result


_WORD_CHARACTERS = _WordCharacters()


def fold(text: str) -> str:
    """Return the plain form without differences of case."""
    # Folding can undo the form, so it is applied once more.
    return text.lower() if text.isascii() else plain_form(plain_form(text).casefold())


def normalise(text: str) -> str:
    """Return the folded text, stripped, with one space for each run of white space."""
    return " ".join(fold(text).split())


def prepare(text: str) -> str:
    """Return the folded text with spaces around every word or pair of characters."""
    return _UNSPACED_RUN.sub(_pairs, fold(text).translate(_WORD_CHARACTERS))


def extent(text: str) -> str:
    """Return the tokens between single spaces, with one at each end: "" without tokens.

    In this form a substring is a run of whole tokens.
    """
    tokens = UNICODE.encode(text).translate(UNICODE.alphabet).replace(b"\0", b" ").split()
    return f" {b' '.join(tokens).decode()} " if tokens else ""


def _pairs(run: re.Match[str]) -> str:
    characters = run[0]
    if len(characters) == 1:
        return f" {characters} "
    pairs = (characters[i : i + 2] for i in range(len(characters) - 1))
    return f" {' '.join(pairs)} "


UNICODE = TextForm(prepare, alphabet(keep_high_bytes=True), normalise, extent, lambda _: 0.0)
"""The form of the profile `unicode`."""
