"""How the `unicode` profile of `token_overlap` reads a text of any language.

A word is a run of letters, digits and combining marks. Scripts that put no spaces between words
have no such runs, so their characters are taken two by two.
"""

from __future__ import annotations

import re
import unicodedata

from judged_server.judges.lexical.tokens import TextForm, alphabet

# Han, Hiragana and Katakana, Thai, Lao, Myanmar, Khmer, by Unicode block. NFKC has already turned
# half-width Katakana and compatibility ideographs into characters of these blocks.
_UNSPACED = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff\uaa60-\uaa7f\ua9e0-\ua9ff"
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u302f\u3031-\u303c\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U0001aff0-\U0001afff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_ZERO_WIDTH_SPACE = "\u200b"


class _WordCharacters(dict[int, int | str | None]):
    """What `str.translate` makes of each code point, looked up when first met.

    Letters, numbers and marks stay. Invisible format characters vanish, since they stand inside
    words; but the zero width space parts words. All else becomes a space. The answers are facts of
    Unicode and there are at most as many as code points, so one table serves every call.
    """

    def __missing__(self, code: int) -> int | str | None:
        category = unicodedata.category(chr(code))
        result: int | str | None = " "
        if category[0] in "LNM":
            result = code
        elif category == "Cf" and chr(code) != _ZERO_WIDTH_SPACE:
            result = None
        self[code] = result
        return result


_WORD_CHARACTERS = _WordCharacters()


def fold(text: str) -> str:
    """Return the text in compatibility form (NFKC) without differences of case."""
    if text.isascii():
        return text.lower()
    # Folding can undo the form, so it is applied once more.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


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


UNICODE = TextForm(prepare, alphabet(keep_high_bytes=True), normalise, extent)
"""The form of the profile `unicode`."""
