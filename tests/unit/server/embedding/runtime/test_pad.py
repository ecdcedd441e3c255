"""Padded arrays of a batch."""

import numpy as np
from judged_server.embedding.runtime.backend import pad


def test_rows_are_padded_on_the_right_to_the_longest():
    token_ids, mask = pad([np.array([5, 6]), np.array([7, 8, 9]), np.array([4])], pad_id=1)
    assert token_ids.tolist() == [[5, 6, 1], [7, 8, 9], [4, 1, 1]]
    assert mask.tolist() == [[1, 1, 0], [1, 1, 1], [1, 0, 0]]
    assert token_ids.dtype == mask.dtype == np.int64
