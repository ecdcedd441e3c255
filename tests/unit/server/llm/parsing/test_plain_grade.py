"""The line that gives a grade in plain text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import Status
from judged_server.llm.chat import ChatReply, FinishReason, Reason, TokenUsage
from judged_server.llm.parsing import plain_reply, reply
from judged_server.llm.parsing.plain_reply import MAX_CHARACTERS
from judged_server.llm.rubrics.loading import load_builtin

GRADED = load_builtin()["graded_relevance"]
PREFERENCE = load_builtin()["answer_preference"]


def read(text: str, rubric=GRADED, cut: bool = False):
    return plain_reply.read(text, rubric, cut=cut)


@given(
    st.sampled_from(PREFERENCE.grades),
    st.sampled_from(["Grade: ", "**Grade:** ", "- grade = ", "The final grade: ", "", "**"]),
    st.sampled_from(["", ".", "**", " "]),
    st.booleans(),
)
def test_a_bare_line_needs_no_reasoning(word, before, after, upper):
    text = f"{before}{word.upper() if upper else word}{after}"
    found = read(text, PREFERENCE)
    score = {"second": 0.0, "tie": 0.5, "first": 1.0}[word]
    assert (found.status, found.score, found.reasoning) == (Status.OK, score, "")


@pytest.mark.parametrize(
    ("text", "score"),
    [("It answers.\nGrade: 3", 1.0), ("Partly, on page 7.\n\n**Grade: 2**", 2 / 3)],
)
def test_prose_before_the_last_line_is_reasoning(text, score):
    found = read(text)
    assert (found.status, found.score, found.reasoning) == (Status.OK, score, text)


@pytest.mark.parametrize(
    "text",
    [
        "Grade: 4",
        "Grade: 2/3",
        "Grade: -1",
        "Grade: 2.5",
        "2,5",
        "Grade: 3 out of 10",
        "Grade: 1\nGrade: 2",
        "The grade is 1.\nGrade: 2",
        "It has 3 parts\n3",
        "<think>Grade: 1",
        "first",
    ],
)
def test_anything_else_abstains(text):
    assert (read(text).status, read(text).reason) == (Status.ABSTAINED, Reason.UNPARSABLE)


def test_a_refusal_and_a_cut_reply_are_no_grades():
    assert read("I'm sorry, but I can't help with that.").reason is Reason.REFUSED
    assert read("It is\nGrade: 2", cut=True).reason is Reason.REPLY_TRUNCATED
    assert read("a" * MAX_CHARACTERS + "\nGrade: 2").status is Status.ABSTAINED


def test_where_json_was_asked_for_only_a_bare_grade_counts():
    def parsed(text):
        said = ChatReply(text, FinishReason.STOP, TokenUsage(), "m")
        return reply.read(said, GRADED, structured=True)

    assert parsed("Grade: 2").score == pytest.approx(2 / 3)
    assert parsed("It answers.\nGrade: 2").reason is Reason.UNPARSABLE


@given(st.text(max_size=60))
def test_whatever_is_read_is_on_the_scale(text):
    found = read(text)
    assert found.status is not Status.OK or found.score in {grade / 3 for grade in range(4)}
