"""Rows of several sources become those of one call."""

import numpy as np
from judged_server.embedding.embedder import join, spread
from judged_server.embedding.vector_cache import VectorRows


def _rows(texts, counts, flags=None):
    vectors = np.array([[text, i] for text, n in zip(texts, counts, strict=True) for i in range(n)])
    return VectorRows(
        np.array(texts, np.int64),
        vectors.reshape(-1, 2).astype(np.float32),
        np.array(counts, np.int64),
        np.array(flags or [0] * len(texts), np.uint8),
    )


def test_parts_are_put_in_the_order_of_the_texts():
    joined = join(5, 2, [_rows([3, 0], [2, 1], [2, 0]), _rows([1], [3], [4])], {4: ("R", "m")})
    assert joined.row_offsets == [0, 1, 4, 4, 6, 6]
    assert joined.vectors[:, 0].tolist() == [0, 1, 1, 1, 3, 3]
    assert joined.vectors[:, 1].tolist() == [0, 0, 1, 2, 0, 1]
    assert joined.flags.tolist() == [0, 4, 0, 2, 0]
    assert joined.faults == {4: ("R", "m")}


def test_nothing_gives_no_rows():
    joined = join(0, 3, [], {})
    assert joined.vectors.shape == (0, 3)
    assert joined.row_offsets == [0]


def test_runs_are_spread():
    assert spread(np.array([5, 0]), np.array([2, 3])).tolist() == [5, 6, 0, 1, 2]
    assert spread(np.array([], np.int64), np.array([], np.int64)).tolist() == []


def test_texts_can_be_renumbered():
    assert _rows([1, 0], [1, 1]).renumbered(np.array([7, 9])).texts.tolist() == [9, 7]
