"""The line that decides, and the bare word: of verdicts, scores and grades."""

from __future__ import annotations

from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import Status
from judged_server.llm.chat import ParsedReply, Reason
from judged_server.llm.parsing import MAX_CHARACTERS, read_plain
from judged_server.llm.rubrics.rubric import load_builtin

RUBRIC = load_builtin()["retrieval_match"]


def read(text: str, *, cut: bool = False) -> ParsedReply:
    return read_plain(text, RUBRIC, cut=cut)


@given(st.text(max_size=60), st.sampled_from(["YES", "NO"]))
def test_words_before_the_last_line_never_turn_it(words, verdict):
    found = read(f"{words}\nVERDICT: {verdict}")
    assert found.status is not Status.OK or found.yes is (verdict == "YES")


@given(st.text(max_size=60), st.sampled_from(["YES", "NO"]))
def test_words_behind_a_bare_one_never_turn_it(words, verdict):
    found = read(f"{verdict}\nx {words}")
    assert found.status is not Status.OK or found.yes is (verdict == "YES")


@pytest.mark.parametrize("text", ["NO", "no.", "answer: no", "NO\nIt", "It is.\nVERDICT: NO"])
def test_what_is_cut_off_might_have_been_taken_back(text):
    assert read(text, cut=True).reason is Reason.REPLY_TRUNCATED


SCORED = load_builtin()["helpfulness"]


def read_score(text: str, cut: bool = False):
    return read_plain(text, SCORED, cut=cut)


@given(
    st.decimals(0, 1, places=3),
    st.sampled_from(["Score: ", "**Score:** ", "- score = ", "The final score: "]),
    st.sampled_from(["", ".", "**", " "]),
)
def test_of_scores_a_bare_line_needs_no_reasoning(score, before, after):
    text = f"{before}{score}{after}"
    found = read_score(text)
    assert (found.status, found.score, found.reasoning) == (Status.OK, float(score), "")


@given(st.floats(allow_nan=False).filter(lambda score: not 0 <= score <= 1))
def test_of_scores_no_score_out_of_range_is_read(score):
    assert read_score(f"Score: {score:f}").status is not Status.OK


@pytest.mark.parametrize("unit", ["score", "score:", "score.", "score is ", "0", ".", "* ", "\n0."])
def test_of_scores_a_long_reply_is_read_in_time(unit):
    text = (unit * MAX_CHARACTERS)[: MAX_CHARACTERS - 20] + "\nScore: 0.8"
    spent = []
    for _ in range(5):
        begun = thread_time()
        read_score(text)
        spent.append(thread_time() - begun)
    assert min(spent) < 0.1


GRADED = load_builtin()["graded_relevance"]


def read_grade(text: str, rubric=GRADED, cut: bool = False):
    return read_plain(text, rubric, cut=cut)


@given(st.text(max_size=60))
def test_of_grades_whatever_is_read_is_on_the_scale(text):
    found = read_grade(text)
    assert found.status is not Status.OK or found.score in {grade / 3 for grade in range(4)}
