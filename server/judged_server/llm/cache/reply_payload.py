"""A reply as bytes, for keeping, and back.

A payload that is not of that form is no reply; nothing here raises.
"""

from __future__ import annotations

from typing import Any

import orjson

from judged_server.llm.chat import ChatReply, FinishReason, TokenLogprob, TokenUsage


def to_payload(reply: ChatReply) -> bytes | None:
    """Return a reply as JSON; None for one that JSON can't carry, with a lone surrogate say."""
    try:
        return orjson.dumps(
            {
                "text": reply.text,
                "finish_reason": reply.finish_reason.name,
                "tokens": [reply.usage.input_tokens, reply.usage.output_tokens],
                "model": reply.model,
                "system_fingerprint": reply.system_fingerprint,
                "logprobs": [[place.token, place.top] for place in reply.logprobs],
            }
        )
    except TypeError:
        return None


def from_payload(payload: bytes) -> ChatReply | None:
    """Return the reply that was kept; None when the bytes hold none."""
    try:
        fields: dict[str, Any] = orjson.loads(payload)
        tokens_in, tokens_out = fields["tokens"]
        return ChatReply(
            text=_text(fields["text"]),
            finish_reason=FinishReason[fields["finish_reason"]],
            usage=TokenUsage(int(tokens_in), int(tokens_out)),
            model=_text(fields["model"]),
            system_fingerprint=_text(fields["system_fingerprint"]),
            logprobs=tuple(
                TokenLogprob(_text(token), tuple((_text(word), float(log)) for word, log in top))
                for token, top in fields["logprobs"]
            ),
        )
    except (ValueError, TypeError, LookupError):
        return None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
