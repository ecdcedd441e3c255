"""Which tokens the texts of each context share, for many contexts at once.

A context needs a count over E & R, the distinct tokens of its expected and its retrieved text. The
distinct tokens of a tile's expected texts (its terms) are the columns of two small matrices of
zeros and ones, which have a row for each expected and each retrieved text; their product holds the
counts of all the tile's contexts. Where the ones go is found by one search for all tiles of a
batch.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.judges.lexical.hash_index import HashIndex
from judged_server.judges.lexical.tokens import TokenTable, ranges

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
        index = HashIndex(tokens.keys[self.expected_tokens] ^ np.repeat(salts[e_tile], e_counts))

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
        e_at = r_at = 0
        call_options = rows = contexts = 0
        for n_expected, n_retrieved, width in self._shapes:
            e_to, r_to = e_at + n_expected * width, r_at + n_retrieved * width
            result.append(
                (
                    self._expected_cells[e_at:e_to].reshape(n_expected, width),
                    self._row_cells[r_at:r_to].reshape(n_retrieved, width),
                    slice(call_options, call_options + width),
                    slice(rows, rows + n_expected),
                    slice(contexts, contexts + n_expected * n_retrieved),
                )
            )
            e_at, r_at = e_to, r_to
            call_options += width
            rows += n_expected
            contexts += n_expected * n_retrieved
        return result

    def in_expected(self, values: FloatArray | None = None) -> FloatArray:
        """Return the sum over E of a value for each term (default 1): float64, one a row."""
        result = np.empty(len(self.expected))
        for expected, _, call_options, rows, _ in self._matrices:
            if values is None:
                result[rows] = expected.sum(axis=1)
            else:
                result[rows] = expected @ values[call_options]
        return result

    def _in_retrieved(self) -> FloatArray:
        """Return how many terms each retrieved row has."""
        result = np.empty(len(self.retrieved))
        at = 0
        for _, retrieved, _, _, _ in self._matrices:
            result[at : at + len(retrieved)] = retrieved.sum(axis=1)
            at += len(retrieved)
        return result

    def shared(self, values: FloatArray | None = None) -> FloatArray:
        """Return the sum over E & R of a value for each term (default 1): float64, one a context.

        Sums of whole numbers are exact up to 2**53.
        """
        result = np.empty(len(self.target))
        for expected, retrieved, call_options, _, contexts in self._matrices:
            weighted = expected if values is None else expected * values[call_options]
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
        shared = self.shared()
        expected_inside = shared >= self.in_expected()[self.expected_of] - 2
        # Few retrieved texts are inside all expected texts of a tile taken together.
        retrieved_inside = (self.unmatched <= 2)[self.retrieved_of]
        retrieved_inside &= shared >= self._in_retrieved()[self.retrieved_of] - 2
        return expected_inside | retrieved_inside

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
