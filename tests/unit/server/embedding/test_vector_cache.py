"""Kept vectors: what is found was put there, whatever happened to the memory and the file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.embedding.vector_cache import (
    ENTRY_BYTES,
    TextVectors,
    VectorCache,
)
from judged_server.store.kept_rows import VECTORS, KeptRows, Row

DIMENSIONS = 2
CAP = 16 << 20
ROW_BYTES = 4 * DIMENSIONS + ENTRY_BYTES

Open = Callable[[], KeptRows]


def key(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()


def entries(numbers: Sequence[int], windows: int = 1) -> dict[bytes, TextVectors]:
    """The entries of these numbers: vectors and flags follow from the number."""
    return {
        key(n): TextVectors(np.array([[n, i] for i in range(windows)], np.float32), n % 7)
        for n in numbers
    }


def number_of(found: dict[bytes, TextVectors], asked: Sequence[int]) -> dict[int, int]:
    """Return the windows of each number that was found; each is the one of its key, or fails."""
    numbers = {key(n): n for n in asked}
    for each, vectors in found.items():
        expected = entries([numbers[each]], len(vectors.rows))[each]
        assert vectors.rows.tolist() == expected.rows.tolist()
        assert vectors.flags == expected.flags
    return {numbers[each]: len(vectors.rows) for each, vectors in found.items()}


async def found(cache: VectorCache, numbers: Sequence[int]) -> dict[int, int]:
    return number_of(dict(await cache.get([key(n) for n in numbers])), numbers)


@pytest.fixture
def open_file(tmp_path: Path) -> Iterator[Open]:
    opened = []

    def build() -> KeptRows:
        opened.append(KeptRows(tmp_path / "vectors", VECTORS, CAP))
        return opened[-1]

    yield build
    for file in opened:
        file.close()


class TestMemory:
    async def test_a_text_that_would_push_out_most_others_is_left_out(self):
        cache = VectorCache(DIMENSIONS, 8 * ROW_BYTES)
        cache.put(entries([1], 9) | entries([2]))
        assert await found(cache, [1, 2]) == {2: 1}

    @given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 4)), max_size=150))
    def test_it_never_holds_more_than_it_may(self, puts: list[tuple[int, int]]):
        cache = VectorCache(DIMENSIONS, 33 * ROW_BYTES)
        windows: dict[int, int] = {}
        for number, count in puts:
            cache.put(entries([number], windows.setdefault(number, count)))
            kept = number_of(cache._find([key(n) for n in windows]), list(windows))
            assert kept[number] == windows[number]
            assert sum(ENTRY_BYTES + 8 * count for count in kept.values()) <= 33 * ROW_BYTES


class TestFile:
    async def test_it_outlives_the_process_and_fills_the_memory(self, open_file: Open):
        file = open_file()
        VectorCache(DIMENSIONS, 1 << 16, file).put(entries([1, 3]) | entries([5], 3))
        file.close()
        again = open_file()
        cache = VectorCache(DIMENSIONS, 1 << 16, again)
        cache.put(entries([0]))
        expected = {0: 1, 1: 1, 3: 1, 5: 3}
        assert await found(cache, [5, 4, 0, 3, 1]) == expected
        again.close()
        assert await found(cache, [1, 3, 5, 0, 2]) == expected

    async def test_vectors_of_another_size_are_a_miss(self, open_file: Open):
        file = open_file()
        file.write(
            [Row(key(n), each) for n, each in enumerate([b"", b"1234", b"x" * 9, b"x" * 13])]
        )
        cache = VectorCache(DIMENSIONS, 1 << 16, file)
        assert await cache.get([key(n) for n in range(4)]) == {}
