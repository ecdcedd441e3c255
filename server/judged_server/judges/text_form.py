"""What a profile reads in a text: its tokens, its normal form, and what one text contains.

Owns the form that the published profiles share. Leaves the `unicode` profile's to `unicode_text`,
and counting tokens to `tokens`.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from judged_server.judges.tokens import TokenTable


@dataclass(frozen=True, slots=True)
class TextForm:
    """How one profile reads texts.

    A token is a run of bytes that `alphabet` does not map to zero, in the text encoded by `codec`;
    texts beyond ASCII go through `prepare` first. Two texts are the same when `normalise` makes
    them equal. One contains the other when neither `extent` is empty and one is a substring of the
    other.
    """

    prepare: Callable[[str], str]
    codec: str
    alphabet: bytes
    normalise: Callable[[str], str]
    extent: Callable[[str], str]

    def tokens(self, texts: Sequence[str]) -> TokenTable:
        """Return the tokens of `texts`."""
        prepared = [text if text.isascii() else self.prepare(text) for text in texts]
        return TokenTable.of(prepared, self.codec, self.alphabet)


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


# Two characters outside ASCII have an ASCII letter in their lower case: the Kelvin sign (k) and the
# capital I with a dot (i and a combining dot). So texts are lowered before they are encoded, where
# all other characters outside ASCII become question marks; the alphabet lowers ASCII itself.
PUBLISHED = TextForm(str.lower, "ascii", alphabet(keep_high_bytes=False), normalise, normalise)
"""The form of the profiles `classic` and `weighted`."""
