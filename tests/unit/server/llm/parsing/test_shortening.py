from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.parsing.json_reply import MAX_REASONING, shortened


def test_a_long_text_ends_in_an_ellipsis():
    assert shortened("a" * MAX_REASONING) == "a" * MAX_REASONING
    assert shortened("a" * (MAX_REASONING + 1)) == "a" * (MAX_REASONING - 1) + "…"


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_a_short_text_is_kept(text):
    assert shortened(text) == text


def test_a_lone_surrogate_is_replaced():
    assert shortened("a\ud800b") == "a\ufffdb"
