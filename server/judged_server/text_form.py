"""One form of a text, in which texts that look the same to a reader are equal.

Lexical judges and metrics of texts read this form. Superscripts, fractions and circled numbers stay
as they are: 10 to the second is not 102.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

# By Unicode block: Han, Hiragana and Katakana, Thai, Lao, Myanmar, Khmer.
UNSPACED = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff\uaa60-\uaa7f\ua9e0-\ua9ff"
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u302f\u3031-\u303c\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U0001aff0-\U0001afff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
"""The characters of scripts that put no spaces between words, for a class of `re`."""

UNREAD_SHARE = 1 / 3
"""A text is told of where more of it than this is not read; docs/semantics.md says why."""

FIRST_PICTURE = 0x2600
"""Symbols (category So) from here on are pictures: emoji, weather, chess, ticks and crosses."""

_KEPT_TAGS = frozenset(("<super>", "<fraction>", "<circle>"))
_HYPHENS = "\u2010\u2011\u2212"
# Characters that show nothing: those of category Cf but for the signs of some scripts and the tags
# in flags of regions, the variation selectors, and the grapheme joiner.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0100-\U000e01ef"
)
_IS_INVISIBLE = re.compile(f"[{_INVISIBLE}]")
_ODD = re.compile(f"[{_HYPHENS}{_INVISIBLE}]")
_IN_UNSPACED = re.compile(f"[{UNSPACED}]")
_INSIDE_UNSPACED = re.compile(f"(?<=[{UNSPACED}])\u200b+(?=[{UNSPACED}])")
_BETWEEN_WORDS = re.compile(r"(?<=\w)\u200b+(?=\w)")
_ASCII = bytes(range(128))
_NO_TOKEN = bytes(code for code in range(256) if code > 127 or not chr(code).isalnum())


class _Forms(dict[int, str]):
    """What `str.translate` makes of each code point, looked up when first met.

    The answers are facts of Unicode and there are at most as many as code points, so one table
    serves every call.
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        form = character
        if character in _HYPHENS:
            form = "-"
        elif _IS_INVISIBLE.match(character):
            form = ""
        else:
            tag, *codes = unicodedata.decomposition(character).split() or [""]
            # Punctuation, such as an ellipsis, is what it is, and an accent that stands alone too.
            kept = tag == "<compat>" and unicodedata.category(character)[0] == "P"
            alone = codes[:1] == ["0020"] and len(codes) > 1
            if tag[:1] == "<" and tag not in _KEPT_TAGS and not kept and not alone:
                form = "".join(self[int(part, 16)] for part in codes)
        self[code] = form
        return form


_FORMS = _Forms()


def plain_form(text: str) -> str:
    """Return the text in NFC, with plain letters for ligatures and full width, nothing invisible.

    A zero width space between words becomes a space, but not in scripts without spaces.
    """
    if text.isascii() or (
        unicodedata.is_normalized("NFKC", text) and not _ODD.search(_beyond(text))
    ):
        return text
    if "\u200b" in text:
        text = _BETWEEN_WORDS.sub(" ", _INSIDE_UNSPACED.sub("", text))
    return unicodedata.normalize("NFC", text.translate(_FORMS))


def unread_share(text: str) -> float:
    """Return which share of a text is lost where only ASCII letters and digits are read.

    It is that of the letters and digits; a picture counts as a word of seven of them.
    """
    return 0.0 if text.isascii() else unread_share_of_plain(plain_form(text))


def unread_share_of_plain(text: str) -> float:
    """Return the unread share of a text that is in plain form already."""
    read = len(text.encode("utf-8", "replace").translate(None, _NO_TOKEN))
    lost = sum(n * _letters(character) for character, n in Counter(_beyond(text)).items())
    return lost / (lost + read) if lost else 0.0


def unspaced_share(text: str) -> float:
    """Return which share of the letters is of scripts without spaces between words."""
    if text.isascii():
        return 0.0
    text = plain_form(text)
    found = sum(map(str.isalnum, _IN_UNSPACED.findall(text)))
    return found / sum(map(str.isalnum, text)) if found else 0.0


def _beyond(text: str) -> str:
    """Return the characters that are not ASCII."""
    return text.encode("utf-8", "replace").translate(None, _ASCII).decode()


def _letters(character: str) -> int:
    if ord(character) >= FIRST_PICTURE and unicodedata.category(character) == "So":
        return 7
    return int(character.isalnum())
