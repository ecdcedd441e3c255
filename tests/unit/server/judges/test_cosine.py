"""Cosine matrices: equal to the definition, clamped against rounding only, in bounded memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.judges import semantic
from judged_server.judges.semantic import Side, cosine_matrix


def _random(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, 8)).astype(np.float32)


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return max(0.0, float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))


def test_cells_are_cosines_with_negatives_at_zero():
    rows, columns = _random(5), _random(4, 1)
    expected = [[_cosine(a, b) for b in columns] for a in rows]
    np.testing.assert_allclose(cosine_matrix(Side(rows), Side(columns)), expected, atol=1e-12)


def test_a_vector_is_1_with_itself_and_0_with_its_opposite():
    rows = _random(200)
    scores = cosine_matrix(Side(rows), Side(rows))
    assert (np.diag(scores) == 1.0).all()
    opposite = cosine_matrix(Side(rows), Side(-rows))
    assert (np.diag(opposite) == 0.0).all()
    assert not np.signbit(opposite).any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_clamp_never_turns_nan_into_a_score(bad):
    rows = _random(2)
    rows[0, 0] = bad
    scores = cosine_matrix(Side(rows), Side(_random(3, 1)))
    assert np.isnan(scores[0]).all()
    assert np.isfinite(scores[1]).all()


def test_the_largest_floats_neither_overflow_nor_lose_their_angle():
    largest = np.full((1, 8), np.finfo(np.float32).max, np.float32)
    smallest = np.full((1, 8), np.finfo(np.float32).smallest_subnormal, np.float32)
    assert cosine_matrix(Side(largest), Side(smallest)).tolist() == [[1.0]]


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
)
def test_with_windows_the_best_pair_counts(row_counts, column_counts):
    rows, columns = _random(sum(row_counts)), _random(sum(column_counts), 1)
    row_ends, column_ends = np.cumsum(row_counts), np.cumsum(column_counts)
    sides = (
        Side(rows, row_ends - row_counts),
        Side(columns, column_ends - column_counts),
    )
    expected = [
        [
            max(_cosine(a, b) for a in rows[i - n : i] for b in columns[j - m : j])
            for j, m in zip(column_ends, column_counts, strict=True)
        ]
        for i, n in zip(row_ends, row_counts, strict=True)
    ]
    np.testing.assert_allclose(cosine_matrix(*sides), expected, atol=1e-12)


def test_blocks_change_nothing(monkeypatch):
    rows, columns = Side(_random(50), np.arange(0, 50, 5)), Side(_random(7, 1))
    whole = cosine_matrix(rows, columns)
    monkeypatch.setattr(semantic, "BLOCK_CELLS", 20)
    np.testing.assert_allclose(cosine_matrix(rows, columns), whole, atol=1e-14)
