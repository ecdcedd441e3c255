"""What is taken off a reply, and what stays on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.parsing.json_reply import has_tags, unwrapped


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


def test_more_blocks_than_any_reasoning_has_stay():
    assert unwrapped("<think></think>" * 32 + "a") == "a"
    assert has_tags(unwrapped("<think></think>" * 33 + "a"))


@given(st.text())
def test_a_text_without_tags_or_fences_is_only_stripped(text):
    if not has_tags(text) and "```" not in text:
        assert unwrapped(text) in text
        assert unwrapped(unwrapped(text)) == unwrapped(text)


@given(st.text(), st.text(alphabet="abc \n", max_size=5))
def test_what_a_block_holds_never_shows(inside, answer):
    if not has_tags(inside):
        assert unwrapped(f"<think>{inside}</think>{answer}") == answer.strip()
