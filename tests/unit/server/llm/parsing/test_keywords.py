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
    "text",
    [
        "it is far from {}", "it is anything but {}", "it is too vague to be {}", "{} is near zero",
        "it is less {} than it looks", "nobody finds this {}", "it lacks anything {}", "few are {}",
        "that is almost {}", "it is hard to see that as {}",
    ],
)  # fmt: skip
def test_what_turns_a_word_around_leaves_it_unclear(text):
    assert keywords.verdict(text.format("relevant")) is None
    if not text.startswith("{}"):
        assert keywords.verdict(text.format("irrelevant")) is None


SHORTFALLS = [
    "it lacks the year", "it is about another river", "the persons differ", "a poor one",
    "it contradicts the other", "the date is missing", "it is about something else",
]  # fmt: skip


@pytest.mark.parametrize("shortfall", SHORTFALLS)
def test_a_shortfall_is_no_yes_but_may_be_the_reason_of_a_no(shortfall):
    assert keywords.verdict(f"it is relevant and {shortfall}.") is None
    assert keywords.verdict(f"{shortfall}, which is relevant.") is None
    assert keywords.verdict(f"it is not relevant, since {shortfall}.") is False
    assert keywords.verdict(f"{shortfall}, and so it is not relevant.") is False
    assert keywords.verdict(f"{shortfall}, it is irrelevant.") is False


@pytest.mark.parametrize("text", ["it lacks nothing relevant", "it misses no relevant fact"])
def test_a_shortfall_denied_is_unclear(text):
    assert keywords.verdict(text) is None


@pytest.mark.parametrize(
    "text", ["the texts match each other", "it is relevant too", "a match, too."]
)
def test_words_of_a_shortfall_may_mean_none(text):
    assert keywords.verdict(f"this is so: {text}") is True


@pytest.mark.parametrize("grade", ["relevance: 0/10.", "**score:** 2.", "the relevance is low."])
def test_a_grade_goes_before_a_yes_beside_it(grade):
    assert keywords.verdict(f"{grade} the text matches the topic.") is None
    assert keywords.verdict(f"{grade} the text does not match.") is False


class Counted(list[str]):
    """Words that count how often they are looked at."""

    looks = 0

    def __iter__(self):
        for word in super().__iter__():
            self.looks += 1
            yield word

    def __getitem__(self, place):
        found = super().__getitem__(place)
        self.looks += len(found) if isinstance(place, slice) else 1
        return found


@pytest.mark.parametrize(
    "unit",
    [
        "yes", "relevant", "irrelevant", "no", "not", "the not", "the think", "mean that it is",
        "it isn't relevant", "no a a a relevant", "not a a relevant", "a", "far", "lacks nothing",
    ],
)  # fmt: skip
@pytest.mark.parametrize("start", ["the", "the not", "it is far"])
def test_no_word_is_looked_at_for_each_of_the_others(start, unit):
    words = Counted([*start.split(), *unit.split() * 2000])
    for _ in keywords._readings(words):
        pass
    assert words.looks <= 16 * len(words)


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
