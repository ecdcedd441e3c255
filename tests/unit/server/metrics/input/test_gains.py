"""Gains that callers know: what is refused, and where it is said to be."""

import pytest
from judged_server.errors import InvalidField
from judged_server.metrics.input.gains import rank_gains


def test_gains_become_rankings():
    rankings = rank_gains([[0, 2, -3], []], [[1, 2], [5]], "gains.rankings")
    assert rankings.gains.tolist() == [0.0, 2.0, 0.0]
    assert rankings.offsets.tolist() == [0, 3, 3]
    assert rankings.ideal_gains.tolist() == [2.0, 1.0, 5.0]


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


@pytest.mark.parametrize(
    ("gains", "relevant", "says"),
    [
        ([[float("nan")]], [[1]], "f[0].gains[0]: must be finite"),
        ([[1]], [[1, 0]], "f[0].relevant_gains[1]: must be finite and above 0"),
        ([[1, 1]], [[1]], "f[0].relevant_gains: must hold the gain of every relevant document"),
    ],
)
def test_the_rule_is_told(gains, relevant, says):
    with pytest.raises(InvalidField) as caught:
        rank_gains(gains, relevant, "f")
    assert caught.value.message.startswith(says)


def test_the_rule_on_unattainable_gains_says_which():
    with pytest.raises(InvalidField, match="number 2 is 1 but 2 was retrieved"):
        rank_gains([[2, 2]], [[3, 1]], "f")
