"""The tokens of many texts as arrays: one 64-bit key a token.

The tokens of many texts as arrays: one 64-bit key a token.

A token of up to eight bytes is its own key; a longer one is hashed under secrets drawn when the
process starts, so that nobody can prepare two tokens that share a key (by chance it happens to one
pair in 2**64).

How the `unicode` profile of `token_overlap` reads a text of any language.

A word is a run of letters, digits and combining marks, or a picture such as an emoji. Scripts that
put no spaces between words have no such runs, so their characters are taken two by two.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from judged_server.domain import BoolArray, IntArray
from judged_server.domain.text_form import FIRST_PICTURE, UNSPACED, plain_form, unread_share

# The English list of NLTK as it stood at 179 words: what evret 0.0.3 leaves out of a comparison.
_STOPWORDS = """
    a about above after again against ain all am an and any are aren aren't as at be because
    been before being below between both but by can couldn couldn't d did didn didn't do does
    doesn doesn't doing don don't down during each few for from further had hadn hadn't has hasn
    hasn't have haven haven't having he her here hers herself him himself his how i if in into
    is isn isn't it it's its itself just ll m ma me mightn mightn't more most mustn mustn't my
    myself needn needn't no nor not now o of off on once only or other our ours ourselves out
    over own re s same shan shan't she she's should should've shouldn shouldn't so some such t
    than that that'll the their theirs them themselves then there these they this those through
    to too under until up ve very was wasn wasn't we were weren weren't what when where which
    while who whom why will with won won't wouldn wouldn't y you you'd you'll you're you've your
    yours yourself yourselves
"""
STOPWORDS = frozenset(_STOPWORDS.split())
"""Words that are no content tokens."""

NEGATIONS = frozenset(("no", "not", "never", "none", "without", "cannot"))
"""A text with one of these does not match a text with none, unless the two are equal."""


KeyArray = NDArray[np.uint64]

WORD = 8
"""Bytes in one machine word."""

HUGE = 64
"""Tokens longer than this are hashed one by one: they are rare, and as long as a text may be."""

BLOCK_BYTES = 1 << 19
"""Texts are cut into tokens this many bytes at a time: the arrays of a block stay in the cache."""

_LOW_BYTES = np.array([(1 << (8 * n)) - 1 for n in range(WORD + 1)], np.uint64)
_LETTER_BITS = np.uint64(0x4040404040404040)  # set in a-z (0x61..0x7a), clear in 0-9 (0x30..0x39)
_MULTIPLIER, _FINAL_MULTIPLIER = (np.uint64(secrets.randbits(64) | 1) for _ in range(2))
_FOLD = np.uint64(32)
_HUGE_SECRET = secrets.token_bytes(32)


@dataclass(frozen=True, slots=True)
class TokenTable:
    """The tokens of a list of texts, text after text, in the order they are written.

    `keys` (uint64), `starts` and `lengths` (int64, bytes of `raw`) and `numeric` (bool: ASCII
    digits only) have one entry a token; text i owns the entries `first[i]:first[i + 1]`. `raw` has
    the bytes of all texts, with zeros between the tokens.
    """

    raw: bytes
    keys: KeyArray
    starts: IntArray
    lengths: IntArray
    numeric: BoolArray
    first: IntArray

    @classmethod
    def of(cls, texts: Sequence[bytes], alphabet: bytes) -> TokenTable:
        """Return the tokens of encoded texts.

        `alphabet` maps each byte of a text to the byte that stands for it in a token, or to zero
        where it separates tokens; line feeds must separate.
        """
        sizes = [len(text) for text in texts]
        blocks = [_tokens(texts[i:j], sizes[i:j], alphabet) for i, j in _blocks(sizes)]
        if len(blocks) == 1:
            return blocks[0]
        shifts = accumulate((len(block.raw) for block in blocks[:-1]), initial=0)
        counts = [block.counts for block in blocks]
        return cls(
            b"".join(block.raw for block in blocks),
            np.concatenate([block.keys for block in blocks]),
            np.concatenate(
                [block.starts + shift for block, shift in zip(blocks, shifts, strict=True)]
            ),
            np.concatenate([block.lengths for block in blocks]),
            np.concatenate([block.numeric for block in blocks]),
            np.concatenate(([0], np.cumsum(np.concatenate(counts)))),
        )

    @property
    def counts(self) -> IntArray:
        """How many tokens each text has, repeated ones included: int64, one a text."""
        return np.diff(self.first)

    def of_texts(self, texts: IntArray) -> tuple[IntArray, IntArray]:
        """Return how many tokens each of `texts` has, and where they all stand, text after text."""
        starts = self.first[texts]
        counts = self.first[texts + 1] - starts
        return counts, ranges(starts, counts)

    def words(self, at: IntArray) -> list[bytes]:
        """Return tokens as they are written, lowered."""
        starts = self.starts[at]
        ends = starts + self.lengths[at]
        raw = self.raw
        return [raw[i:j] for i, j in zip(starts.tolist(), ends.tolist(), strict=True)]

    def joints(self, left: IntArray, right: IntArray) -> KeyArray:
        """Return the last two bytes of each left token with the first two of its right one.

        Of a token of one byte the other is arbitrary.
        """
        pairs = np.ndarray((len(self.raw) - 1,), "<u2", self.raw, strides=(1,))
        tails = pairs[self.starts[left] + self.lengths[left] - 2].astype(np.uint64)
        heads = pairs[self.starts[right]].astype(np.uint64)
        joints: KeyArray = (tails << np.uint64(16)) | heads
        return joints


def ranges(starts: IntArray, counts: IntArray) -> IntArray:
    """Return `counts[i]` consecutive numbers from `starts[i]`, for each i, one after another."""
    ends = np.cumsum(counts)
    return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - ends + counts, counts)


def _blocks(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Cut the list where a block is full; without texts there is one empty block."""
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // BLOCK_BYTES)) + 1 if sizes else ()
    return pairwise((0, *cuts, len(sizes)))


def _tokens(texts: Sequence[bytes], sizes: Sequence[int], alphabet: bytes) -> TokenTable:
    # The zeros behind the last text let every token be read in whole words.
    raw = b"\n".join((*texts, b"\0" * WORD)).translate(alphabet)
    inside = np.frombuffer(raw, np.uint8) != 0
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    if inside[0]:
        edges = np.concatenate(([0], edges))
    starts = edges[0::2]
    lengths = edges[1::2] - starts
    keys, numeric = _keys(raw, starts, lengths)
    text_ends = np.cumsum(np.array(sizes, np.int64) + 1)
    first = np.searchsorted(starts, np.concatenate(([0], text_ends)))
    return TokenTable(raw, keys, starts, lengths, numeric, first)


def _keys(raw: bytes, starts: IntArray, lengths: IntArray) -> tuple[KeyArray, BoolArray]:
    """Return the key of each token, and whether it is made of digits."""
    # Overlapping words: entry i is the word that begins at byte i.
    words = np.ndarray((len(raw) - WORD + 1,), "<u8", raw, strides=(1,))
    keys = words[starts] & _LOW_BYTES[np.minimum(lengths, WORD)]
    numeric = (keys & _LETTER_BITS) == 0
    huge = lengths > HUGE
    for token in np.flatnonzero(huge).tolist():
        text = raw[starts[token] : starts[token] + lengths[token]]
        digest = hashlib.blake2b(text, digest_size=WORD, key=_HUGE_SECRET).digest()
        keys[token] = int.from_bytes(digest, "little")
        numeric[token] = text.isdigit()
    # The other long tokens take in one more word a round, until none has bytes left.
    tokens = np.flatnonzero((lengths > WORD) & ~huge)
    at, left, hashed = starts[tokens], lengths[tokens], keys[tokens]
    while tokens.size:
        at, left = at + WORD, left - WORD
        word = words[at] & _LOW_BYTES[np.minimum(left, WORD)]
        hashed = hashed * _MULTIPLIER
        hashed = ((hashed ^ (hashed >> _FOLD)) + word) * _FINAL_MULTIPLIER
        hashed ^= hashed >> _FOLD
        keys[tokens] = hashed
        numeric[tokens] &= (word & _LETTER_BITS) == 0
        more = left > WORD
        tokens, at, left, hashed = tokens[more], at[more], left[more], hashed[more]
    return keys, numeric


class KeyIndex:
    """Where each key of an array stands; `representative` names one place for equal keys."""

    def __init__(self, keys: KeyArray) -> None:
        self._keys, first, which = np.unique(keys, return_index=True, return_inverse=True)
        self._first = first
        self.representative: IntArray = first[which]

    def find(self, probes: KeyArray) -> tuple[IntArray, IntArray]:
        """Return the positions of those `probes` that are keys, and their representatives."""
        if not len(self._keys):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        places = np.minimum(np.searchsorted(self._keys, probes), len(self._keys) - 1)
        positions = np.flatnonzero(self._keys[places] == probes)
        return positions, self._first[places[positions]]


@dataclass(frozen=True, slots=True)
class TextForm:
    """How one profile reads texts.

    A token is a run of bytes that `alphabet` does not map to zero, in the text's UTF-8; texts
    beyond ASCII go through `prepare` first. Two texts are the same when `normalise` makes
    them equal. One contains the other when neither `extent` is empty and one is a substring of the
    other. `unread` returns the share of a text's letters that is in no token.
    """

    prepare: Callable[[str], str]
    alphabet: bytes
    normalise: Callable[[str], str]
    extent: Callable[[str], str]
    unread: Callable[[str], float]

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
    """Return the plain form lowered, stripped, with one space for each run of white space."""
    lowered = plain_form(text).lower()
    # The space is the one white space that is printable, so most texts are in order already.
    if lowered.isprintable() and "  " not in lowered and lowered.strip(" ") == lowered:
        return lowered
    return " ".join(lowered.split())


def spell_out(text: str) -> str:
    """Return the plain form with the capital I with a dot lowered: i and a combining dot.

    No other lowering beyond ASCII makes or breaks a token, and the alphabet lowers ASCII itself.
    """
    return plain_form(text).replace("\u0130", "i\u0307")


PUBLISHED = TextForm(spell_out, alphabet(keep_high_bytes=False), normalise, normalise, unread_share)
"""The form of the profiles `classic` and `weighted`."""


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


def fold_case(text: str) -> str:
    """Return the plain form without differences of case."""
    # Folding can undo the form, so it is applied once more.
    return text.lower() if text.isascii() else plain_form(plain_form(text).casefold())


def normalise_folded(text: str) -> str:
    """Return the folded text, stripped, with one space for each run of white space."""
    return " ".join(fold_case(text).split())


def prepare(text: str) -> str:
    """Return the folded text with spaces around every word or pair of characters."""
    return _UNSPACED_RUN.sub(_pairs, fold_case(text).translate(_WORD_CHARACTERS))


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


UNICODE = TextForm(prepare, alphabet(keep_high_bytes=True), normalise_folded, extent, lambda _: 0.0)
"""The form of the profile `unicode`."""
