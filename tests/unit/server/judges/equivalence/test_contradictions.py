"""Texts of the same words that say different things, and texts that say the same in other ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.domain import JudgeSpec, QueryGroup
from judged_server.judges.equivalence.contradictions import contradicted, contradicts
from judged_server.judges.equivalence.judge import EquivalenceKind

DIFFERENT = [
    ("-40", "40 degrees"),
    ("\u221240", "40"),
    ("+5%", "-5%"),
    ("minus 3 degrees", "3 degrees"),
    ("-$5", "$5"),
    ("$5", "5%"),
    ("€5", "$5"),
    ("5 million dollars", "5 million euros"),
    ("5 km", "5 miles"),
    ("20 kg", "20 lbs"),
    ("5 hours", "5 minutes"),
    ("1.5 million", "1.5 billion"),
    ("10:30 am", "10:30 pm"),
    ("5 p.m.", "5 am"),
    ("5 pm", "5 hours"),
    ("10 km", "10 a.m."),
    ("1/2", "1 2"),
    ("3/4 cup", "3 4 cup"),
    ("not guilty", "guilty"),
    ("guilty", "He was not guilty"),
    ("is safe", "isn't safe"),
    ("allowed", "not allowed"),
    ("before 1990", "after 1990"),
    ("until 1990", "since 1990"),
    ("at least 5", "at most 5"),
    ("more than 10", "less than 10"),
    ("no more than 5", "more than 5"),
    ("it rose by 5%", "it fell by 5%"),
    ("increase", "decrease"),
    ("north of Paris", "south of Paris"),
]
SAME = [
    ("$5", "5 dollars"),
    ("5%", "5 percent"),
    ("5%", "5 per cent"),
    ("1,000", "1000"),
    ("1.5 million", "1,500,000"),
    ("2.10", "2.1"),
    ("1/2", "0.5"),
    ("+5", "5"),
    ("\u221240", "minus 40"),
    ("10:30 am", "10:30 AM"),
    ("7 pm", "7 p.m."),
    ("5 km", "5 kilometres"),
    ("40", "40 degrees"),
    ("1990-1995", "from 1990 to 1995"),
    ("55-60 million", "between 55 million and 70 million people"),
    ("5 to 10 km", "5-10 kilometers"),
    ("No. 1", "number 1"),
    ("not bad", "it is not bad"),
    ("Paris", "It is not London but Paris"),
    ("before 1990", "it was built before 1990, not after"),
    ("at least 5", "no less than 5"),
    ("Boeing 747-400", "the Boeing 747-400"),
    ("East Germany", "in East Germany"),
    ("12 October 1492", "October 12, 1492"),
]


@pytest.mark.parametrize(("expected", "answer"), DIFFERENT)
def test_what_turns_a_text_around(expected: str, answer: str):
    judge = EquivalenceKind().build(JudgeSpec("answer_equivalence"))
    columns = judge.score([QueryGroup("", "q", [expected], [answer])])
    assert columns.scores[0] < 0.2
    assert columns.probabilities[0] < 0.2


@pytest.mark.parametrize(("expected", "answer"), SAME)
def test_what_is_only_written_otherwise(expected: str, answer: str):
    assert not contradicts(expected, answer)
    assert not contradicts(answer, expected)


def test_another_alternative_may_speak_for_an_answer():
    assert contradicted(["-40 degrees"], "40 degrees")
    assert contradicted(["-40 degrees", "freezing"], "40 degrees")
    assert not contradicted(["-40 degrees", "40"], "40 degrees")


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_texts_are_read_and_none_turns_itself_around(one: str, other: str):
    assert not contradicts(one, one)
    contradicts(one, other)
