"""The texts of one call: each distinct one is read once, and the contexts are walked in batches."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from judged.values.choices import Flag

from judged_server.domain import (
    BoolArray,
    ByteArray,
    FloatArray,
    IntArray,
    QueryGroup,
    ScoreColumns,
)
from judged_server.domain.text_form import UNREAD_SHARE
from judged_server.judges.lexical.tokens import KeyIndex, TextForm, TokenTable, ranges

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
