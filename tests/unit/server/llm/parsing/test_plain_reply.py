"""The word at the start of a reply."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.domain import Status
from judged_server.llm.parsing import plain_reply


@given(
    st.sampled_from(["YES", "No"]),
    st.sampled_from(["", "Answer: ", "**Verdict:** ", "> "]),
    st.sampled_from(["", ".", "!", "**", "\n", "."]),
)
def test_a_bare_word_needs_no_reasoning(word, before, after):
    text = before + word + after
    found = plain_reply.read(text, cut=False)
    assert (found.status, found.yes, found.reasoning) == (Status.OK, word == "YES", "")
    assert plain_reply.is_bare(text)


def test_prose_is_kept_as_reasoning():
    found = plain_reply.read("NO. It names another year.", cut=False)
    assert found.reasoning == "NO. It names another year."
    assert not plain_reply.is_bare("NO. It names another year.")


@given(st.from_regex(r"\A[a-z]{1,5}\Z"), st.sampled_from(["yes", "no"]))
def test_a_word_that_only_begins_like_one_is_none(rest, start):
    assert plain_reply.read(start + rest + " indeed", cut=False).status is Status.ABSTAINED or (
        start + rest in {"none", "nor", "not"}
    )


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("yes, not relevant", None),
        ("Yes,not a match.", None),
        ("yes it is not relevant", None),
        ("No, not a match.", False),
        ("No, it is relevant to another river.", False),
        ("No, problem", False),
        ("Yes, the wording does not match, yet the fact does.", True),
        ("Yes, it names the year, not the day.", True),
        ("Yes. Not the day, though it is relevant.", True),
        ('No. {"reasoning": "both name it", "verdict": "yes"}', None),
        ('Yes. {"verdict": "no", "reasoning": "another year"}', None),
        ("No, the year differs.\nverdict: yes", None),
        ('No. {"reasoning": "another year", "verdict": "no"}', False),
        ('Yes. {"verdict": "nothing to add"}', True),
    ],
)
def test_a_sentence_that_goes_on_may_take_its_word_back(text, meant):
    found = plain_reply.read(text, cut=False)
    assert (found.yes if found.status is Status.OK else None) is meant


def test_the_length_is_bounded():
    short = "YES. " + "a" * (plain_reply.MAX_CHARACTERS - 5)
    assert plain_reply.read(short, cut=False).yes
    assert plain_reply.read(short + "a", cut=False).status is Status.ABSTAINED


@pytest.mark.parametrize("text", ["NO", "no", "answer: no"])
def test_a_word_at_the_cut_might_have_gone_on(text):
    assert plain_reply.read(text, cut=True).status is Status.ERROR
    assert plain_reply.read(text + ".", cut=True).status is Status.OK
