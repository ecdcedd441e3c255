import gc
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from judged_server.statistics.comparison import benjamini_hochberg, holm
from statsmodels.stats.multitest import multipletests

p_values = some.lists(some.floats(0, 1), min_size=1, max_size=40)


@pytest.fixture(autouse=True, scope="module")
def _few_objects_to_collect() -> Iterator[None]:
    """multipletests collects garbage each time: seconds, late in a process of many tests."""
    gc.freeze()
    yield
    gc.unfreeze()


@given(p_values)
def test_equal_statsmodels(values):
    p = np.array(values)
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-12)
    assert benjamini_hochberg(p) == pytest.approx(multipletests(p, method="fdr_bh")[1], abs=1e-12)
