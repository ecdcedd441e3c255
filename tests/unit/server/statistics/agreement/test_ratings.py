"""Items that were rated alike are counted together, however many raters there are."""

import numpy as np
import pytest
from judged_server.statistics.agreement.ratings import _patterns


@pytest.mark.parametrize("raters", [2, 31, 40])
def test_rows_that_differ_in_one_rating_are_told_apart(raters):
    """40 raters of three categories have more patterns than an integer has values."""
    alike = np.zeros((3, raters), np.int8)
    last = alike[:1].copy()
    last[0, -1] = 2
    none = alike[:2].copy()
    none[:, 0] = -1
    patterns, counts = _patterns(np.concatenate([alike, last, none]), 3)
    found = {tuple(row): count for row, count in zip(patterns.tolist(), counts, strict=True)}
    assert found == {tuple(alike[0]): 3, tuple(last[0]): 1, tuple(none[0]): 2}
