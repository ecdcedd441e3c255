"""The line that gives a score in plain text."""

from __future__ import annotations

from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import Status
from judged_server.llm.parsing import plain_reply
from judged_server.llm.parsing.plain_reply import MAX_CHARACTERS
from judged_server.llm.rubrics.loading import load_builtin

RUBRIC = load_builtin()["helpfulness"]


def read(text: str, cut: bool = False):
    return plain_reply.read(text, RUBRIC, cut=cut)


@given(
    st.decimals(0, 1, places=3),
    st.sampled_from(["Score: ", "**Score:** ", "- score = ", "The final score: "]),
    st.sampled_from(["", ".", "**", " "]),
)
def test_a_bare_line_needs_no_reasoning(score, before, after):
    text = f"{before}{score}{after}"
    found = read(text)
    assert (found.status, found.score, found.reasoning) == (Status.OK, float(score), "")


def test_prose_is_kept_as_reasoning():
    found = read("It helps.\nScore: 0.8")
    assert found.reasoning == "It helps.\nScore: 0.8"
    assert found.yes


@given(st.floats(allow_nan=False).filter(lambda score: not 0 <= score <= 1))
def test_no_score_out_of_range_is_read(score):
    assert read(f"Score: {score:f}").status is not Status.OK


def test_a_cut_reply_has_no_score():
    assert read("Score: 0.8", cut=True).status is Status.ERROR


def test_the_length_is_bounded():
    line = ".\nScore: 0.8"
    short = "a" * (MAX_CHARACTERS - len(line)) + line
    assert read(short).status is Status.OK
    assert read("a" + short).status is Status.ABSTAINED


@pytest.mark.parametrize("unit", ["score", "score:", "score.", "score is ", "0", ".", "* ", "\n0."])
def test_a_long_reply_is_read_in_time(unit):
    text = (unit * MAX_CHARACTERS)[: MAX_CHARACTERS - 20] + "\nScore: 0.8"
    spent = []
    for _ in range(5):
        begun = thread_time()
        read(text)
        spent.append(thread_time() - begun)
    assert min(spent) < 0.1
