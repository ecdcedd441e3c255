"""Replies as bytes: what comes back is what went in, and garbage is nothing."""

from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.chat import ChatReply, FinishReason, TokenUsage
from judged_server.llm.reply_cache import from_payload, to_payload

words = st.text(max_size=20)
replies = st.builds(
    ChatReply,
    text=words,
    finish_reason=st.sampled_from(FinishReason),
    usage=st.builds(
        TokenUsage, st.integers(0, 1 << 40), st.integers(0, 1 << 40), estimated=st.just(False)
    ),  # what a kept reply took was told when it came
    model=words,
    refusal=st.none(),  # such a reply is no verdict, and never kept
    system_fingerprint=words,
    left_out=st.just(()),  # told when it came, as what was estimated
    unreadable=st.just(""),  # such a reply is never kept
)


@given(replies)
def test_a_reply_comes_back_as_it_was(reply):
    payload = to_payload(reply)
    assert payload is not None
    assert from_payload(payload) == reply


def test_a_text_that_json_cant_carry_is_not_kept():
    reply = ChatReply("\ud800", FinishReason.STOP, TokenUsage(), "m")
    assert to_payload(reply) is None
