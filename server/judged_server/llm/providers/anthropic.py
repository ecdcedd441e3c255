"""The dialect of Anthropic's Messages, which llama.cpp's server speaks too.

The shapes are those of https://platform.claude.com/docs/en/api/messages, as the `anthropic` package
2.12.0 types them. That API takes no seed and gives no log-probabilities.

The version sent is the one that all models and gateways know. The next one, 2026-10-21, only takes
things away from what is used here: temperature, which models before Claude Opus 4.7 still have.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from judged_server.llm.chat import (
    ChatReply,
    ChatRequest,
    FinishReason,
    ProviderFault,
    Reason,
    ReplySchema,
    TokenUsage,
)
from judged_server.llm.config.configured import (
    ModelConfiguration,
    Structured,
)
from judged_server.llm.providers.reading import (
    NO_MONEY,
    TOO_LONG,
    Capabilities,
    Dialect,
    broken,
    error_object,
    fault_of,
    finish_reason,
    optional,
    permanent,
    pruned,
    required,
    rewrite,
    text_of,
    whole_reply,
    with_key,
)

PATH = "/messages"
VERSION = "2023-06-01"

_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")

_TAKEN = {
    "$defs", "$ref", "additionalProperties", "allOf", "anyOf", "const", "description", "enum",
    "items", "properties", "required", "title", "type",
}  # fmt: skip
"""What a schema of a structured output may hold; bounds of numbers and lengths are refused."""

headers = partial(with_key, {"anthropic-version": VERSION})


def write_request(model: ModelConfiguration, request: ChatRequest) -> dict[str, Any]:
    """Return the JSON object that asks the model."""
    body: dict[str, Any] = {
        "model": model.model,
        "max_tokens": request.max_tokens,
        "system": request.system,
        "messages": [{"role": "user", "content": request.user}],
    }
    if model.send_temperature:
        body["temperature"] = request.temperature
    if request.schema is not None:
        body |= _structured(model.structured, request.schema)
    return body


def _structured(means: Structured, schema: ReplySchema) -> dict[str, Any]:
    """Return the fields that hold the reply to a schema."""
    if means is Structured.JSON_SCHEMA:
        held = {"type": "json_schema", "schema": pruned(schema.schema, _is_taken)}
        return {"output_config": {"format": held}}
    if means is Structured.TOOL:
        tool = {
            "name": schema.name,
            "description": "Records the answer.",
            "input_schema": schema.schema,
        }
        choice = {"type": "tool", "name": schema.name, "disable_parallel_tool_use": True}
        return {"tools": [tool], "tool_choice": choice}
    return {}


def _is_taken(key: str, value: object) -> bool:
    """Say whether structured outputs take a part of a schema; parsing checks the rest."""
    return key in _TAKEN or (key == "minItems" and value in {0, 1})


def read_reply(status: int, body: bytes) -> ChatReply:
    """Return the reply in the body of a response. Raises ProviderFault, whatever the body is.

    Tokens that were written to, or read from, the provider's cache of prompts count as input.
    """
    if status != 200:
        raise _fault(status, body)
    return whole_reply(body, "usage", (_INPUT, ("output_tokens",)), _read)


def _read(reply: dict[str, Any], body: bytes, usage: TokenUsage, odd: list[str]) -> ChatReply:
    finish = finish_reason(reply, "stop_reason", odd)
    refusal = None
    if finish is FinishReason.REFUSAL:
        details = optional(reply, "stop_details", dict, odd)
        refusal = optional(details, "explanation", str, odd)
    return ChatReply(
        text=_text(reply, body, odd),
        finish_reason=finish,
        usage=usage,
        model=optional(reply, "model", str, odd),
        refusal=refusal or None,
    )


def _text(reply: dict[str, Any], body: bytes, odd: list[str]) -> str:
    """Return the input of the first tool call, or all text; what the model thought is left out."""
    if reply.get("content") is None:
        raise broken("lacks content")
    for block in reply["content"] if isinstance(reply["content"], list) else ():
        if isinstance(block, dict) and block.get("type") == "tool_use":
            return rewrite(required(block, "input", dict), body)
    return text_of(reply["content"], odd)


def _fault(status: int, body: bytes) -> ProviderFault:
    error = error_object(body)
    kind, words = str(error.get("type")), str(error.get("message")).lower()
    code = optional(error.get("details"), "error_code", str, [])
    if (
        kind == "billing_error"
        or code.endswith("spend_limit_reached")
        or "credit balance is too low" in words
    ):
        return permanent(Reason.RATE_LIMITED, status, NO_MONEY)
    if status == 400 and (
        "prompt is too long" in words
        or "exceed context limit" in words
        or kind == "exceed_context_size_error"  # llama.cpp's
    ):
        return permanent(Reason.PROVIDER_ERROR, status, TOO_LONG)
    return fault_of(status, body)


DIALECT = Dialect(
    path=lambda _: PATH,
    headers=headers,
    write_request=write_request,
    read_reply=read_reply,
    capabilities=Capabilities(
        structured=(Structured.JSON_SCHEMA, Structured.TOOL, Structured.NONE),
        auth=("x-api-key", "bearer"),
        refused={
            "organization": "a key belongs to its organization there; leave it out",
            "project": "a key belongs to its workspace there; leave it out",
            "logprobs": "that API gives no log-probabilities; leave it out",
            "send_seed": "that API takes no seed; leave it out",
            "max_tokens_parameter": "that API has one name for it; leave it out",
            "schema_bounds": "what that API refuses is left out anyway; leave it out",
        },
        # Newer models refuse a temperature, and the package's types no longer know it.
        send_temperature=False,
    ),
)
