"""Ids of queries that a data set and results spell in two ways."""

import unicodedata

import pytest
from judged.evaluation.datasets.query import Fit


@pytest.mark.parametrize(
    ("known", "given"),
    [
        ("Q1", "q1"),
        ("q-1", "q_1"),
        ("7", "7.0"),
        ("007", "7"),
        ("q1", "q1 "),
        ("Café", unicodedata.normalize("NFD", "Café")),
    ],
)
def test_a_query_in_another_spelling_is_told(known, given):
    fit = Fit.of(["a", known, "lost"], ["a", "other", given], [])
    told = list(fit.warnings())
    assert len(told) == 3
    assert told[2] == (
        f"the results have query {given!a}, and none of them is of {known!a}; write both alike if "
        "they are one query"
    )


@pytest.mark.parametrize(
    ("known", "given", "n"),
    [
        (["a", "A"], ["a", "A"], 0),
        (["a", "b"], ["a", "B", "b"], 1),  # there is a query for each spelling
        (["a", "b"], ["a", "c"], 2),
        (["a", "..."], ["a", "---"], 2),
    ],
)
def test_ids_that_are_no_spellings_of_one_are_not(known, given, n):
    told = list(Fit.of(known, given, []).warnings())
    assert len(told) == n
    assert not any("write both alike" in text for text in told)
