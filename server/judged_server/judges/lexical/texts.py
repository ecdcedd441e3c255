"""The texts of one call and their tokens: each distinct text is read once.

Tokens stand in arrays, one 64-bit key a token. A token of up to eight bytes is its own key; a
longer one is hashed under secrets drawn when the process starts, so that nobody can prepare two
tokens that share a key (by chance it happens to one pair in 2**64).

The profile `unicode` of `token_overlap` reads texts of any language. A word is a run of letters,
digits and combining marks, or a picture such as an emoji. Scripts that put no spaces between words
have no such runs, so their characters are taken two by two.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate, pairwise

import numpy as np
from judged.values.choices import Flag
from numpy.typing import NDArray

from judged_server.domain import (
    BoolArray,
    ByteArray,
    FloatArray,
    IntArray,
    QueryGroup,
    ScoreColumns,
)
from judged_server.domain.text_form import (
    FIRST_PICTURE,
    UNREAD_SHARE,
    UNSPACED,
    plain_form,
    unread_share,
)

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


TILE_CELLS = 1 << 18
"""The most entries of a tile's matrices (one row may be longer): it bounds the memory of a call."""

BATCH_SIZE = 1 << 16
"""Tiles are searched together up to this size, so that the arrays stay in the cache."""

CELLS_A_TOKEN = 4
"""How many entries of a matrix count as much as one token."""


class Texts:
    """The distinct texts of a call, numbered, and their tokens."""

    def __init__(self, groups: Sequence[QueryGroup], form: TextForm) -> None:
        """Read every distinct text of `groups` once."""
        numbers: dict[str, int] = {}

        def number(text: str) -> int:
            return numbers.setdefault(text, len(numbers))

        self._groups = [
            (
                number(group.query),
                [number(text) for text in group.expected],
                [number(text) for text in group.retrieved],
            )
            for group in groups
        ]
        self._form = form
        texts = self.texts = list(numbers)
        self.normal = cache(lambda text: form.normalise(texts[text]))
        """A text's normal form, by its number, made when it is first asked for."""
        self.extent = self.normal
        """What is searched for in other texts."""
        if form.extent is not form.normalise:
            self.extent = cache(lambda text: form.extent(texts[text]))
        self.tokens = form.tokens(self.texts)
        self.n_contexts = sum(len(e) * len(r) for _, e, r in self._groups)

    def same(self, one: int, other: int) -> bool:
        """Tell whether two texts are equal in normal form."""
        return one == other or self.normal(one) == self.normal(other)

    def contained(self, one: int, other: int) -> bool:
        """Tell whether one of two texts contains the other; an empty text is in no other."""
        left, right = self.extent(one), self.extent(other)
        return bool(left and right) and (left in right or right in left)

    def score(self, score_batch: Callable[[Batch], FloatArray]) -> ScoreColumns:
        """Return the scores of all contexts, flagged where a good part of a text is in no token.

        `score_batch` returns the scores of a batch's contexts: float64, in the batch's order.
        """
        scores = np.zeros(self.n_contexts)
        flags = np.zeros(self.n_contexts, np.uint8)
        of_texts = self._flags()
        for batch in self._batches():
            scores[batch.target] = score_batch(batch)
            if of_texts.any():
                either = of_texts[batch.expected][batch.expected_of]
                flags[batch.target] = either | of_texts[batch.retrieved][batch.retrieved_of]
        return ScoreColumns(scores, flags=flags if flags.any() else None)

    def _flags(self) -> ByteArray:
        """Return the flag of each text."""
        result: ByteArray = np.zeros(len(self.texts), np.uint8)
        for text, n_tokens in enumerate(self.tokens.counts.tolist()):
            share = self._form.unread(self.texts[text])
            if share and not n_tokens:
                result[text] = Flag.NO_TOKENS
            elif share > UNREAD_SHARE:
                result[text] = Flag.UNKNOWN_TOKENS
        return result

    def _batches(self) -> Iterator[Batch]:
        """Yield all contexts, in batches of a size that suits the cache."""
        tiles: list[Tile] = []
        size = 0
        for tile in self._tiles():
            if tiles and size + tile.size > BATCH_SIZE:
                yield Batch(self.tokens, tiles)
                tiles, size = [], 0
            tiles.append(tile)
            size += tile.size
        if tiles:
            yield Batch(self.tokens, tiles)

    def _tiles(self) -> Iterator[Tile]:
        """Yield each group, cut along both sides where it is too large."""
        counts = self.tokens.counts.tolist()
        start = 0
        for query, expected, retrieved in self._groups:
            stride = len(expected)
            e_counts = [counts[text] for text in expected]
            r_counts = [counts[text] for text in retrieved]
            for e_from, e_to in _runs(e_counts):
                width = sum(e_counts[e_from:e_to])
                step = max(1, TILE_CELLS // max(1, width))
                for r_from in range(0, len(retrieved), step):
                    r_to = min(r_from + step, len(retrieved))
                    tokens = width + sum(r_counts[r_from:r_to]) + counts[query]
                    cells = width * (e_to - e_from + r_to - r_from)
                    yield Tile(
                        query,
                        expected[e_from:e_to],
                        retrieved[r_from:r_to],
                        start + r_from * stride + e_from,
                        stride,
                        max(tokens, cells // CELLS_A_TOKEN),
                    )
            start += stride * len(retrieved)


def _runs(counts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Cut expected texts so that texts times their tokens stays within a tile."""
    start = width = 0
    for i, count in enumerate(counts):
        if i > start and (i + 1 - start) * (width + count) > TILE_CELLS:
            yield start, i
            start, width = i, 0
        width += count
    if counts:
        yield start, len(counts)


_TILE_SALT = np.uint64(secrets.randbits(64) | 1)


@dataclass(frozen=True, slots=True)
class Tile:
    """Expected and retrieved texts of one query, by text number, and where their scores go.

    The context of expected text i and retrieved text j is number `start + j * stride + i` of the
    call. `size` says how much work it is, in tokens.
    """

    query: int
    expected: Sequence[int]
    retrieved: Sequence[int]
    start: int
    stride: int
    size: int


class Batch:
    """The contexts of several tiles, tile after tile, each tile retrieved-major.

    All arrays that are not described otherwise are int64.

    rows      `expected` and `retrieved` are the text numbers of the rows of the matrices.
    contexts  `expected_of` and `retrieved_of` are the rows of each context, `target` is its number
              in the call.
    tokens    `expected_tokens` says where the tokens of the expected rows stand in the token table,
              row after row; `expected_rows` and `expected_terms` their row and their term.
    terms     `term_tokens` says where a token that is the term stands in the token table;
              `in_query` (float64) is 1 where the tile's query has it, else 0.

    `unmatched` counts for each retrieved row the tokens, repeated ones included, that are no term.
    """

    def __init__(self, tokens: TokenTable, tiles: Sequence[Tile]) -> None:
        """Search the tokens of the retrieved texts and queries among those of the expected."""
        self.expected = np.array([text for tile in tiles for text in tile.expected])
        self.retrieved = np.array([text for tile in tiles for text in tile.retrieved])
        queries = np.array([tile.query for tile in tiles])
        n_expected = np.array([len(tile.expected) for tile in tiles])
        n_retrieved = np.array([len(tile.retrieved) for tile in tiles])
        self.expected_of, self.retrieved_of, self.target = _contexts(tiles, n_expected, n_retrieved)

        # The key of a token is mixed with the number of its tile: one search serves all tiles.
        tile_numbers = np.arange(len(tiles))
        salts = tile_numbers.astype(np.uint64) * _TILE_SALT
        e_tile = np.repeat(tile_numbers, n_expected)
        e_counts, self.expected_tokens = tokens.of_texts(self.expected)
        self.expected_rows = np.repeat(np.arange(len(self.expected)), e_counts)
        index = KeyIndex(tokens.keys[self.expected_tokens] ^ np.repeat(salts[e_tile], e_counts))

        # Terms are numbered in the order of the expected tokens that represent them, so that the
        # terms of a tile are neighbours.
        is_term = index.representative == np.arange(len(self.expected_tokens))
        n_before = np.concatenate(([0], np.cumsum(is_term)))
        self.term_tokens = self.expected_tokens[is_term]
        self.expected_terms = n_before[index.representative]
        tile_ends = np.cumsum(np.bincount(e_tile, e_counts, len(tiles)).astype(np.int64))
        widths = np.diff(n_before[tile_ends], prepend=0)
        first_terms = n_before[tile_ends] - widths

        e_base = _starts(widths[e_tile]) - first_terms[e_tile]
        self._expected_cells = np.zeros(int(widths[e_tile].sum()))
        self._expected_cells[np.repeat(e_base, e_counts) + self.expected_terms] = 1

        # The queries are rows behind the retrieved texts. They have one row a tile, so that their
        # cells together are one a term.
        rows = np.concatenate((self.retrieved, queries))
        row_tile = np.concatenate((np.repeat(tile_numbers, n_retrieved), tile_numbers))
        counts, row_tokens = tokens.of_texts(rows)
        found, entries = index.find(tokens.keys[row_tokens] ^ np.repeat(salts[row_tile], counts))
        found_row = np.repeat(np.arange(len(rows)), counts)[found]
        row_base = _starts(widths[row_tile]) - first_terms[row_tile]
        self._row_cells = np.zeros(int(widths[row_tile].sum()))
        self._row_cells[row_base[found_row] + n_before[entries]] = 1
        self.in_query = self._row_cells[len(self._row_cells) - len(self.term_tokens) :]
        self.unmatched = (counts - np.bincount(found_row, minlength=len(rows)))[
            : len(self.retrieved)
        ]
        self._shapes = np.stack((n_expected, n_retrieved, widths), axis=1).tolist()

    @cached_property
    def _matrices(self) -> list[tuple[FloatArray, FloatArray, slice, slice, slice]]:
        """Per tile: its expected and retrieved rows, and its terms, expected rows, contexts."""
        result = []
        e_at = r_at = terms = rows = contexts = 0
        for n_expected, n_retrieved, width in self._shapes:
            e_to, r_to = e_at + n_expected * width, r_at + n_retrieved * width
            result.append(
                (
                    self._expected_cells[e_at:e_to].reshape(n_expected, width),
                    self._row_cells[r_at:r_to].reshape(n_retrieved, width),
                    slice(terms, terms := terms + width),
                    slice(rows, rows := rows + n_expected),
                    slice(contexts, contexts := contexts + n_expected * n_retrieved),
                )
            )
            e_at, r_at = e_to, r_to
        return result

    def in_expected(self, values: FloatArray | None = None) -> FloatArray:
        """Return the sum over E of a value for each term (default 1): float64, one a row."""
        result = np.empty(len(self.expected))
        for expected, _, terms, rows, _ in self._matrices:
            result[rows] = expected.sum(axis=1) if values is None else expected @ values[terms]
        return result

    def shared(self, values: FloatArray | None = None) -> FloatArray:
        """Return the sum over E & R of a value for each term (default 1): float64, one a context.

        Sums of whole numbers are exact up to 2**53.
        """
        result = np.empty(len(self.target))
        for expected, retrieved, terms, _, contexts in self._matrices:
            weighted = expected if values is None else expected * values[terms]
            np.matmul(
                retrieved,
                weighted.T,
                out=result[contexts].reshape(len(retrieved), len(expected)),
            )
        return result

    @cached_property
    def may_contain(self) -> BoolArray:
        """The contexts whose texts may be equal, or one inside the other: bool.

        A text inside another shares all its tokens but for the first and the last, which may be
        cut.
        """
        expected_inside = self.shared() >= self.in_expected()[self.expected_of] - 2
        # Few retrieved texts are inside all expected texts of a tile taken together.
        return expected_inside | (self.unmatched <= 2)[self.retrieved_of]

    def pairs(self, contexts: BoolArray) -> Iterator[tuple[int, int, int]]:
        """Yield the place in the batch and both text numbers of the contexts that are true."""
        places = np.flatnonzero(contexts)
        expected = self.expected[self.expected_of[places]]
        retrieved = self.retrieved[self.retrieved_of[places]]
        yield from zip(places.tolist(), expected.tolist(), retrieved.tolist(), strict=True)


def _contexts(
    tiles: Sequence[Tile], n_expected: IntArray, n_retrieved: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the expected row, the retrieved row and the number in the call of each context."""
    n_contexts = np.repeat(n_expected, n_retrieved)  # of a retrieved row
    expected_of = ranges(np.repeat(_starts(n_expected), n_retrieved), n_contexts)
    retrieved_of = np.repeat(np.arange(len(n_contexts)), n_contexts)
    start = np.array([tile.start for tile in tiles])
    stride = np.array([tile.stride for tile in tiles])
    row_in_tile = ranges(np.zeros_like(n_retrieved), n_retrieved)
    targets = np.repeat(start, n_retrieved) + row_in_tile * np.repeat(stride, n_retrieved)
    return expected_of, retrieved_of, ranges(targets, n_contexts)


def _starts(counts: IntArray) -> IntArray:
    return np.cumsum(counts) - counts
