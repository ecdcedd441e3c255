"""Sentences and their negations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.parsing import keywords

NEGATIONS = ["not", "never", "isn't", "doesn't", "cannot", "not at all", "not really", "is not a"]
HEDGES = ["whether it is", "if it is", "it may be", "perhaps", "they claim it is", "not only"]


@pytest.mark.parametrize("word", ["relevant", "match", "matches"])
def test_a_negation_turns_a_word_around(word):
    assert keywords.verdict(f"it is {word}.") is True
    for negation in NEGATIONS:
        assert keywords.verdict(f"it {negation} {word}.") is False, negation


@pytest.mark.parametrize("hedge", HEDGES)
@pytest.mark.parametrize("word", ["relevant", "irrelevant", "yes", "no"])
def test_a_sentence_that_asserts_nothing_says_nothing(hedge, word):
    assert keywords.verdict(f"{hedge} {word}.") is None


@pytest.mark.parametrize("negation", NEGATIONS)
def test_a_double_negation_is_unclear(negation):
    assert keywords.verdict(f"it {negation} irrelevant.") is None
    assert keywords.verdict(f"i don't think that it {negation} relevant.") is None


@given(
    st.sampled_from(["it is relevant.", "yes.", "it matches."]),
    st.sampled_from(["it is not relevant.", "irrelevant.", "the answer is no."]),
    st.booleans(),
)
def test_both_meanings_are_none(positive, negative, swap):
    pair = [negative, positive] if swap else [positive, negative]
    assert keywords.verdict(" ".join(pair)) is None


@pytest.mark.parametrize(
    "text", ["relevance", "rematch", "matchless", "norway", "eyes", "know", ""]
)
def test_only_whole_words_count(text):
    assert keywords.verdict(text) is None


def test_questions_and_quotations_are_not_the_models_own():
    assert keywords.verdict("is it relevant? it is not relevant.") is False
    assert keywords.verdict('it holds "this is relevant". no.') is False
    assert keywords.verdict('the answer is "no".') is False
    assert keywords.verdict('it holds "this is relevant".') is None


@pytest.mark.parametrize(
    ("rest", "alone"),
    [
        (" the texts differ", True),
        (" it isn\u2019t", True),
        (" doubt", False),
        (" problem", False),
        ("", True),
    ],
)
def test_what_may_follow_a_no(rest, alone):
    assert keywords.stands_alone(rest) is alone
