"""The arena: what was put comes back, within its bytes, the longest unused goes first."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from judged_server.embedding.vector_cache import ROW_OVERHEAD_BYTES, VectorArena, VectorRows

ROW_BYTES = 4 * 2 + ROW_OVERHEAD_BYTES


def _key(number):
    return number.to_bytes(32, "little")


def _put(arena, numbers, counts=None):
    counts = counts or [1] * len(numbers)
    vectors = [[n, i] for n, count in zip(numbers, counts, strict=True) for i in range(count)]
    arena.put(
        [_key(number) for number in numbers],
        VectorRows(
            np.arange(len(numbers)),
            np.array(vectors, np.float32).reshape(-1, 2),
            np.array(counts, np.int64),
            np.array([number % 5 for number in numbers], np.uint8),
        ),
    )


def _has(arena, numbers):
    found = arena.get([_key(number) for number in numbers])
    return {numbers[i] for i in found.texts.tolist()}


def test_what_was_put_comes_back():
    arena = VectorArena(2, 100 * ROW_BYTES)
    _put(arena, [3, 4, 5], [1, 4, 1])
    found = arena.get([_key(5), _key(9), _key(4)])
    assert found.texts.tolist() == [0, 2]
    assert found.counts.tolist() == [1, 4]
    assert found.vectors.tolist() == [[5, 0], [4, 0], [4, 1], [4, 2], [4, 3]]
    assert found.flags.tolist() == [0, 4]


def test_the_longest_unused_goes_first():
    arena = VectorArena(2, 32 * ROW_BYTES)
    for number in range(32):
        _put(arena, [number])
    _has(arena, list(range(16)))
    _put(arena, list(range(100, 112)))
    assert _has(arena, list(range(16))) == set(range(16))
    assert _has(arena, list(range(100, 112))) == set(range(100, 112))


def test_without_bytes_nothing_is_kept():
    arena = VectorArena(2, 0)
    _put(arena, [1])
    assert _has(arena, [1]) == set()
    assert arena.get([]).vectors.shape == (0, 2)


def test_a_text_that_would_push_out_most_others_is_left_out():
    arena = VectorArena(2, 32 * ROW_BYTES)
    _put(arena, [1, 2], [5, 4])
    assert _has(arena, [1, 2]) == {2}


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 4)), max_size=150))
def test_it_never_holds_more_than_it_may_and_never_another_texts_rows(puts):
    arena = VectorArena(2, 33 * ROW_BYTES)
    counts: dict[int, int] = {}
    for number, count in puts:
        counts.setdefault(number, count)
        _put(arena, [number], [counts[number]])
        found = arena.get([_key(number)])
        assert found.vectors.tolist() == [[number, i] for i in range(counts[number])]
        assert sum(counts[each] for each in _has(arena, list(counts))) <= arena.capacity == 33
    assert len(arena) == len(_has(arena, list(counts)))
    for number in range(100, 100 + arena.capacity):
        counts[number] = 1
        _put(arena, [number])
    rows = sum(counts[each] for each in _has(arena, list(counts)))
    # The last one that was pushed out may have had four rows.
    assert arena.capacity - 3 <= rows <= arena.capacity
