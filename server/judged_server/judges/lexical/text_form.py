"""What a profile reads in a text: its tokens, its normal form, and what one text contains."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from judged_server.judges.lexical.tokens import TokenTable


@dataclass(frozen=True, slots=True)
class TextForm:
    """How one profile reads texts.

    A token is a run of bytes that `alphabet` does not map to zero, in the text's UTF-8; texts
    beyond ASCII go through `prepare` first. Two texts are the same when `normalise` makes
    them equal. One contains the other when neither `extent` is empty and one is a substring of the
    other.
    """

    prepare: Callable[[str], str]
    alphabet: bytes
    normalise: Callable[[str], str]
    extent: Callable[[str], str]

    def tokens(self, texts: Sequence[str]) -> TokenTable:
        """Return the tokens of `texts`."""
        return TokenTable.of([self.encode(text) for text in texts], self.alphabet)

    def encode(self, text: str) -> bytes:
        """Return the UTF-8 in which the tokens of `text` are looked for."""
        return (text if text.isascii() else self.prepare(text)).encode("utf-8", "replace")


def alphabet(*, keep_high_bytes: bool) -> bytes:
    """Return the table that lowers ASCII letters, keeps digits, and separates at anything else.

    With `keep_high_bytes` the bytes of UTF-8 beyond ASCII are part of a token too.
    """
    table = bytearray(256)
    for byte in (string.ascii_lowercase + string.digits).encode():
        table[byte] = byte
    for byte in string.ascii_uppercase.encode():
        table[byte] = byte + 32
    if keep_high_bytes:
        table[128:] = range(128, 256)
    return bytes(table)


def normalise(text: str) -> str:
    """Return the text lowered, stripped, and with one space for each run of white space."""
    lowered = text.lower()
    # The space is the one white space that is printable, so most texts are in order already.
    if lowered.isprintable() and "  " not in lowered and lowered.strip(" ") == lowered:
        return lowered
    return " ".join(lowered.split())


def spell_out(text: str) -> str:
    """Return the text with the two characters lowered whose lower case has an ASCII letter in it.

    They are the Kelvin sign (k) and the capital I with a dot (i and a combining dot). No other
    lowering beyond ASCII makes or breaks a token, and the alphabet lowers ASCII itself.
    """
    return text.replace("\u212a", "k").replace("\u0130", "i\u0307")


PUBLISHED = TextForm(spell_out, alphabet(keep_high_bytes=False), normalise, normalise)
"""The form of the profiles `classic` and `weighted`."""
