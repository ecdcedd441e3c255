from __future__ import annotations

import pytest
from hypothesis import given

from tests.unit.server.judges.reference import (
    contexts,
    group_lists,
    judge_of,
    normal,
    one,
    scores_of,
)


@pytest.mark.parametrize(
    ("expected", "retrieved", "verbatim", "normalized"),
    [
        ("Paris", "Paris", 1, 1),
        ("Paris", "paris", 0, 1),
        (" Paris\u00a0is\n", "PARIS is", 0, 1),
        ("Paris.", "Paris", 0, 0),
        ("", "", 1, 1),
        ("", " \u2028", 0, 1),
        ("é", "e\u0301", 0, 1),
    ],
)
def test_worked_values(expected: str, retrieved: str, verbatim: int, normalized: int) -> None:
    assert one(judge_of("exact", "verbatim"), expected, retrieved) == verbatim
    assert one(judge_of("exact", "normalized"), expected, retrieved) == normalized


@given(group_lists)
def test_agrees_with_the_definition(asked) -> None:
    assert scores_of(judge_of("exact", "verbatim"), asked) == [
        float(expected == retrieved) for _, expected, retrieved in contexts(asked)
    ]
    assert scores_of(judge_of("exact", "normalized"), asked) == [
        float(normal(expected) == normal(retrieved)) for _, expected, retrieved in contexts(asked)
    ]
