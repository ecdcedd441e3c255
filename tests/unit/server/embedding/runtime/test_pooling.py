"""Pooling and unit length: padding is not seen, no float32 over- or underflows, NaN stays NaN."""

from typing import get_args

import numpy as np
import pytest
from judged_server.embedding.models.store import Pooling
from judged_server.embedding.runtime.backend import finite_rows, pool, unit_rows

HIDDEN = np.array([[[1, 2], [3, 4], [100, 100]], [[5, 6], [7, 8], [9, 10]]], np.float32)
MASK = np.array([[1, 1, 0], [1, 1, 1]])


@pytest.mark.parametrize("pooling", get_args(Pooling))
def test_what_is_padded_has_no_say(pooling):
    other = HIDDEN.copy()
    other[0, 2] = np.nan
    if pooling == "mean":  # NaN times 0 is NaN; what a graph gives for padding is finite
        other[0, 2] = -7
    np.testing.assert_array_equal(pool(other, MASK, pooling), pool(HIDDEN, MASK, pooling))


@pytest.mark.parametrize("scale", [1e-45, 1e-30, 1.0, 1e30, np.finfo(np.float32).max])
def test_rows_of_any_size_become_unit_rows(scale):
    rows = np.array([[scale, 0, 0], [scale, scale, scale]], np.float32)
    np.testing.assert_allclose(np.linalg.norm(unit_rows(rows), axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_never_looks_finite(bad):
    rows = unit_rows(np.array([[bad, 1, 0], [0, 1, 0]], np.float32)).astype(np.float32)
    assert finite_rows(rows).tolist() == [False, True]
