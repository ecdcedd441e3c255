"""The line that decides, and the bare word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import Status
from judged_server.llm.chat import ParsedReply, Reason
from judged_server.llm.parsing import plain_reply
from judged_server.llm.rubrics.loading import load_builtin

RUBRIC = load_builtin()["retrieval_match"]


def read(text: str, *, cut: bool = False) -> ParsedReply:
    return plain_reply.read(text, RUBRIC, cut=cut)


@given(
    st.sampled_from(["YES", "No"]),
    st.sampled_from(["", "Answer: ", "**Verdict:** ", "> ", "VERDICT: ", "__", "## Verdict\n\n"]),
    st.sampled_from(["", ".", "!", "**", "\n", "."]),
)
def test_a_bare_word_needs_no_reasoning(word, before, after):
    found = read(before + word + after)
    assert (found.status, found.yes, found.reasoning) == (Status.OK, word == "YES", "")


def test_what_explains_the_verdict_is_its_reasoning():
    for text in ("NO\nIt names another year.", "It names another year.\nVERDICT: NO"):
        assert (read(text).yes, read(text).reasoning) == (False, text)


@given(st.from_regex(r"\A[a-z]{1,5}\Z"), st.sampled_from(["yes", "no", "VERDICT: yes"]))
def test_a_word_that_only_begins_like_one_is_none(rest, start):
    assert read(start + rest).status is Status.ABSTAINED


@given(st.text(max_size=60), st.sampled_from(["YES", "NO"]))
def test_words_before_the_last_line_never_turn_it(words, verdict):
    found = read(f"{words}\nVERDICT: {verdict}")
    assert found.status is not Status.OK or found.yes is (verdict == "YES")


@given(st.text(max_size=60), st.sampled_from(["YES", "NO"]))
def test_words_behind_a_bare_one_never_turn_it(words, verdict):
    found = read(f"{verdict}\nx {words}")
    assert found.status is not Status.OK or found.yes is (verdict == "YES")


@given(st.lists(st.sampled_from(["it", "is", "not", "relevant", "a match", "does", "."])))
def test_no_sentence_decides(words):
    assert read(" ".join(words)).status is Status.ABSTAINED


def test_the_message_says_what_was_wanted():
    found = read("It is relevant.")
    assert found.reason is Reason.UNPARSABLE
    assert "VERDICT: YES or VERDICT: NO" in found.message


def test_the_length_is_bounded():
    short = "a" * (plain_reply.MAX_CHARACTERS - 14) + ".\nVERDICT: YES"
    assert read(short).yes
    assert read("a" + short).status is Status.ABSTAINED


@pytest.mark.parametrize("text", ["NO", "no.", "answer: no", "NO\nIt", "It is.\nVERDICT: NO"])
def test_what_is_cut_off_might_have_been_taken_back(text):
    assert read(text, cut=True).reason is Reason.REPLY_TRUNCATED
