"""The request that the tests of every dialect spell: for a verdict, by a schema with bounds."""

from __future__ import annotations

from typing import Any

from judged_server.llm.chat import ChatRequest, ReplySchema

SCHEMA = ReplySchema(
    "verdict",
    {
        "type": "object",
        "properties": {
            "reasoning": {"type": "string"},
            "verdict": {"type": "string", "enum": ["yes", "no"]},
            "score": {"type": "number", "minimum": 0, "maximum": 1},
            "claims": {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 5},
        },
        "required": ["reasoning", "verdict", "score", "claims"],
        "additionalProperties": False,
    },
)


def asks(**changes: Any) -> ChatRequest:
    return ChatRequest(
        **{
            "system": "You judge.",
            "user": "Is it so?",
            "schema": SCHEMA,
            "max_tokens": 50,
            "temperature": 0.25,
            "seed": 11,
            "logprobs": True,
            **changes,
        }
    )
