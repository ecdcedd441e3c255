"""The texts of one call: each distinct one is read once, and the contexts are walked in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from judged_server.domain import BoolArray, Flag, FloatArray, QueryGroup, ScoreColumns
from judged_server.judges.lexical.text_form import TextForm
from judged_server.judges.lexical.token_join import Batch, Tile

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
        self._normal: dict[int, str] = {}
        self._extent: dict[int, str] = {}
        self.texts = list(numbers)
        self.tokens = form.tokens(self.texts)
        self.n_contexts = sum(len(e) * len(r) for _, e, r in self._groups)

    def same(self, one: int, other: int) -> bool:
        """Tell whether two texts are equal in normal form."""
        return one == other or self.normal(one) == self.normal(other)

    def contained(self, one: int, other: int) -> bool:
        """Tell whether one of two texts contains the other; an empty text is in no other."""
        left, right = self.extent(one), self.extent(other)
        return bool(left and right) and (left in right or right in left)

    def normal(self, text: int) -> str:
        """Return a text's normal form, made when it is first asked for."""
        if (known := self._normal.get(text)) is None:
            known = self._normal[text] = self._form.normalise(self.texts[text])
        return known

    def extent(self, text: int) -> str:
        """Return what is searched for in other texts, made when it is first asked for."""
        if self._form.extent is self._form.normalise:
            return self.normal(text)
        if (known := self._extent.get(text)) is None:
            known = self._extent[text] = self._form.extent(self.texts[text])
        return known

    def score(self, score_batch: Callable[[Batch], FloatArray]) -> ScoreColumns:
        """Return the scores of all contexts, flagged where a text has letters but no token.

        `score_batch` returns the scores of a batch's contexts: float64, in the batch's order.
        """
        scores = np.zeros(self.n_contexts)
        flags = np.zeros(self.n_contexts, np.uint8)
        unread = self._without_tokens()
        for batch in self._batches():
            scores[batch.target] = score_batch(batch)
            if unread.any():
                either = unread[batch.expected][batch.expected_of]
                either |= unread[batch.retrieved][batch.retrieved_of]
                flags[batch.target] = np.where(either, Flag.NO_TOKENS, Flag.NONE)
        return ScoreColumns(scores, flags=flags if flags.any() else None)

    def _without_tokens(self) -> BoolArray:
        """Return which texts have letters of some script, but no token: bool, one a text."""
        result: BoolArray = self.tokens.counts == 0
        for text in np.flatnonzero(result).tolist():
            result[text] = any(character.isalpha() for character in self.texts[text])
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
