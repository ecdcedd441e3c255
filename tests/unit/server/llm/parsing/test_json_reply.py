"""Strictness: what no other test of replies shows about JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import Status
from judged_server.llm.chat import ChatReply, FinishReason, TokenUsage
from judged_server.llm.parsing import has_tags, read, read_json, unwrapped
from judged_server.llm.rubrics.rubric import load_builtin

RUBRIC = load_builtin()["retrieval_match"]


def scored(score: str):
    text = f'{{"reasoning": "x", "verdict": "yes", "score": {score}}}'
    return read_json(text, replace(RUBRIC, scored=True))


@given(st.floats(0, 1))
def test_every_score_in_range_is_kept_to_the_bit(score):
    assert scored(json.dumps(score)).score == score


@given(st.floats().filter(lambda score: not 0 <= score <= 1))
def test_no_other_score_is_clamped(score):
    assert scored(json.dumps(score)).status is Status.ERROR


@pytest.mark.parametrize(
    ("score", "reasoning", "counts"),
    [
        ("1", "On a scale of 1 to 10 this is the worst.", False),
        ("1", "A scale from 1-5, and nothing fits.", False),
        ("1", "A 1 on the usual 1-5 scale.", False),
        ("1", "The lowest of a 1 to 10 point scale.", False),
        ("1", "I give it 1/10.", False),
        ("1", "It gets 1 out of ten.", False),
        ("1.0", "I give it 1/10.", True),
        ("1", "On a scale of 0 to 1 it is perfect.", True),
        ("1", "It is a 1 on the 0-1 scale.", True),
        ("1", "The dose of 1 to 2 mg is right.", True),
        ("0.1", "I give it 1/10.", True),
    ],
)
def test_a_1_does_not_count_if_it_is_the_lowest_of_another_scale(score, reasoning, counts):
    text = json.dumps({"reasoning": reasoning, "verdict": "yes"})[:-1] + f', "score": {score}}}'
    found = read_json(text, replace(RUBRIC, scored=True))
    assert (found.status is Status.OK) == counts


def test_a_comma_within_a_text_is_kept():
    text = '{"reasoning": "it ends in \\",}\\" or ,]", "verdict": "no",}'
    said = ChatReply(text, FinishReason.STOP, TokenUsage(), "m")
    found = read(said, RUBRIC, structured=True)
    assert (found.yes, found.reasoning) == (False, 'it ends in ",}" or ,]')


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("<think>a</think> b", "b"),
        ("<Think>a</THINK>b", "b"),
        ("<think>a</think>\n<reasoning>b</reasoning>c", "c"),
        ("[THINK]a[/THINK]b", "b"),
        ("İ\n</think>\nb", "b"),
        ("<think>a", ""),
        ("<think>a</think>", ""),
        ("a </think> b", "a </think> b"),
        ("a\n</think>\nb\n</think>\nc", "a\n</think>\nb\n</think>\nc"),
        ("<think>a</think>b</think>c", "b</think>c"),
        ("a <think>b</think> c", "a <think>b</think> c"),
        ("```\na\n```", "a"),
        ("```json\n{}\n```\n", "{}"),
        ("```\n```", ""),
        ("```a```", "```a```"),
        ("```\na\n```\nb\n```", "```\na\n```\nb\n```"),
        ("x ```\na\n```", "x ```\na\n```"),
        ('{"a": "<think>"}', '{"a": "<think>"}'),
        ("\ufeff a \u00a0", "a"),
    ],
)
def test_what_is_left(text, rest):
    assert unwrapped(text) == rest


@given(st.text(), st.text(alphabet="abc \n", max_size=5))
def test_what_a_block_holds_never_shows(inside, answer):
    if not has_tags(inside):
        assert unwrapped(f"<think>{inside}</think>{answer}") == answer.strip()
