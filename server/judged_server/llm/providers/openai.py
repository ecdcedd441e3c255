"""The dialect of OpenAI's Chat Completions, which many other servers speak too.

Needs the text of a reply and nothing else: fields come and go between providers. The
shapes are those of https://platform.openai.com/docs/api-reference/chat, as the `openai` package
3.54.0 types them.
"""

from __future__ import annotations

from typing import Any

from pydantic import SecretStr

from judged_server.llm.chat import (
    ChatReply,
    ChatRequest,
    FinishReason,
    ReplySchema,
    TokenUsage,
)
from judged_server.llm.config.configured import (
    ModelConfiguration,
    ProviderConfiguration,
    Structured,
)
from judged_server.llm.providers.reading import (
    NO_MONEY,
    TOO_LONG,
    Capabilities,
    Dialect,
    error_object,
    fault_of,
    finish_reason,
    first,
    optional,
    permanent,
    pruned,
    required,
    rewrite,
    text_of,
    token_logprobs,
    whole_reply,
    with_key,
)

PATH = "/chat/completions"

_TOP_LOGPROBS = 5

_ERRORS = {
    "context_length_exceeded": TOO_LONG,
    "exceed_context_size_error": TOO_LONG,
    "insufficient_quota": NO_MONEY,
}
"""Codes and types of errors that another try won't change; the second is llama.cpp's."""


_BOUNDS = frozenset({"minimum", "maximum", "minItems", "maxItems"})
"""What of a rubric's schema some hosts refuse, Azure among them."""
_FLAGGED = frozenset({"flagged_input", "reasons"})
"""What OpenRouter's moderation tells of a prompt, see https://openrouter.ai/docs/api/reference/errors-and-debugging."""


def headers(provider: ProviderConfiguration, key: SecretStr | None) -> dict[str, str]:
    """Return the headers of every request to a provider, the key among them."""
    whose = {"OpenAI-Organization": provider.organization, "OpenAI-Project": provider.project}
    return with_key({name: given for name, given in whose.items() if given}, provider, key)


def write_request(model: ModelConfiguration, request: ChatRequest) -> dict[str, Any]:
    """Return the JSON object that asks the model."""
    body: dict[str, Any] = {
        "model": model.model,
        "messages": [
            {"role": "system", "content": request.system},
            {"role": "user", "content": request.user},
        ],
        model.max_tokens_parameter: request.max_tokens,
    }
    if model.send_temperature:
        body["temperature"] = request.temperature
    if model.send_seed and request.seed is not None:
        body["seed"] = request.seed
    if model.logprobs and request.logprobs:
        body["logprobs"] = True
        body["top_logprobs"] = _TOP_LOGPROBS
    if request.schema is not None:
        body |= _structured(model, request.schema)
    return body


def _structured(model: ModelConfiguration, schema: ReplySchema) -> dict[str, Any]:
    """Return the fields that hold the reply to a schema."""
    means = model.structured
    said = schema.schema
    if not model.schema_bounds:  # parsing checks them all the same
        said = pruned(said, lambda key, _: key not in _BOUNDS)
    if means is Structured.JSON_SCHEMA:
        held = {"name": schema.name, "schema": said, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": held}}
    if means is Structured.JSON_OBJECT:
        return {"response_format": {"type": "json_object"}}
    if means is Structured.TOOL:
        function = {"name": schema.name, "parameters": said, "strict": True}
        return {
            "tools": [{"type": "function", "function": function}],
            "tool_choice": {"type": "function", "function": {"name": schema.name}},
        }
    return {}


def read_reply(status: int, body: bytes) -> ChatReply:
    """Return the reply in the body of a response. Raises ProviderFault, whatever the body is.

    A filter that stopped the prompt, which Azure and OpenRouter report as an error, is a reply with
    the finish reason SAFETY.
    """
    if status != 200:
        error = error_object(body)
        words = {str(error[name]) for name in ("code", "type") if name in error}
        metadata = error.get("metadata")
        flagged = isinstance(metadata, dict) and not _FLAGGED.isdisjoint(metadata)
        if (status == 400 and "content_filter" in words) or (status == 403 and flagged):
            return ChatReply("", FinishReason.SAFETY, TokenUsage(), "")
        fault = fault_of(status, body)
        hopeless = (meaning for word, meaning in _ERRORS.items() if word in words)
        raise next((permanent(fault.reason, status, meaning) for meaning in hopeless), fault)
    return whole_reply(body, "usage", (("prompt_tokens",), ("completion_tokens",)), _read)


def _read(reply: dict[str, Any], body: bytes, usage: TokenUsage, odd: list[str]) -> ChatReply:
    choice = first(required(reply, "choices", list))
    message = required(choice, "message", dict)
    finish = finish_reason(choice, "finish_reason", odd)
    refuses = message.get("refusal") is True
    places = optional(optional(choice, "logprobs", dict, odd), "content", list, odd)
    refusal = None if refuses else optional(message, "refusal", str, odd)
    return ChatReply(
        text=_text(message, body, odd),
        finish_reason=FinishReason.REFUSAL if refusal or refuses else finish,
        usage=usage,
        model=optional(reply, "model", str, odd),
        refusal=refusal or None,
        system_fingerprint=optional(reply, "system_fingerprint", str, odd),
        logprobs=token_logprobs(zip(places, places, strict=True), "top_logprobs", "logprob", odd),
    )


def _text(message: dict[str, Any], body: bytes, odd: list[str]) -> str:
    """Return the arguments of the first tool call, or the content; "" when there is neither."""
    if message.get("tool_calls"):
        function = required(first(required(message, "tool_calls", list)), "function", dict)
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            return rewrite(arguments, body)
        return required(function, "arguments", str)
    return text_of(message.get("content"), odd)


DIALECT = Dialect(
    path=lambda _: PATH,
    headers=headers,
    write_request=write_request,
    read_reply=read_reply,
    capabilities=Capabilities(
        structured=tuple(Structured),
        auth=("bearer", "api-key"),
    ),
)
