"""The layout of ragged rankings."""

import pytest
from judged_server.errors import InvalidField
from judged_server.metrics.input.rankings import (
    rank_gains,
)


@pytest.mark.parametrize(
    ("gains", "relevant", "path"),
    [
        ([[1], [0, float("nan")]], [[1], [1]], "f[1].gains[1]"),
        ([[], [float("inf")]], [[], [1]], "f[1].gains[0]"),
        ([[1], [1]], [[1], [1, float("inf")]], "f[1].relevant_gains[1]"),
        ([[1], [1]], [[1], [1, float("nan")]], "f[1].relevant_gains[1]"),
        ([[1], [1]], [[1], [1, 0]], "f[1].relevant_gains[1]"),
        ([[1], []], [[1, -1], []], "f[0].relevant_gains[1]"),
        ([[1], [1, 1]], [[1], [1]], "f[1].relevant_gains"),
        ([[1], [1]], [[], [1]], "f[0].relevant_gains"),
        ([[0], [0, 1]], [[], []], "f[1].relevant_gains"),
        ([[1, 3]], [[2, 2]], "f[0].relevant_gains"),
        ([[2, 2]], [[3, 1]], "f[0].relevant_gains"),
    ],
)
def test_refused_gains_are_named(gains, relevant, path):
    with pytest.raises(InvalidField) as caught:
        rank_gains(gains, relevant, "f")
    assert caught.value.field == path
