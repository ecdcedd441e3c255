"""How each provider spells a request and a reply.

A further dialect is a function that writes, one that reads, and a line in the table below; what its
API has for the checks of the configuration is in `config.configuration`.

The shapes are those of these pages, as the packages type them, `openai` 3.54.0, `anthropic` 2.12.0
and `google-genai` 3.4.0. Only the text of a reply must be there: fields come and go.

    openai     https://platform.openai.com/docs/api-reference/chat
    anthropic  https://platform.claude.com/docs/en/api/messages
    gemini     https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from pydantic import SecretStr

from judged_server.llm.chat import ChatReply, ChatRequest, FinishReason, TokenUsage
from judged_server.llm.config.configuration import (
    ModelConfiguration,
    ProviderConfiguration,
    Structured,
)
from judged_server.llm.providers.reading import (
    broken,
    finish_reason,
    first,
    optional,
    read_reply,
    required,
    rewrite,
    text_of,
    token_logprobs,
)

_TOP_LOGPROBS = 5
_CALLED = "Records the answer."


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API, as pure functions.

    `path` is what follows the base URL, `counts` the keys of input and of output tokens in the
    object under `counted_in`. `fields` are headers of every request.
    """

    path: Callable[[ModelConfiguration], str]
    write_request: Callable[[ModelConfiguration, ChatRequest], dict[str, Any]]
    read: Callable[[dict[str, Any], bytes, TokenUsage, list[str]], ChatReply]
    counted_in: str
    counts: tuple[tuple[str, ...], tuple[str, ...]]
    fields: Mapping[str, str] = field(default_factory=dict)

    def headers(self, provider: ProviderConfiguration, key: SecretStr | None) -> dict[str, str]:
        """Return the headers of every request, the key in that which `provider.auth` names."""
        found = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "OpenAI-Organization": provider.organization,
            "OpenAI-Project": provider.project,
            **self.fields,
        }
        if key is not None and provider.auth == "bearer":
            found["Authorization"] = f"Bearer {key.get_secret_value()}"
        elif key is not None:
            found[provider.auth] = key.get_secret_value()
        return {name: value for name, value in found.items() if value}

    def read_reply(self, status: int, body: bytes) -> ChatReply:
        """Return the reply in the body of a response. Raises ProviderFault, whatever it is."""
        return read_reply(status, body, self.counted_in, self.counts, self.read)


def _pruned(schema: Mapping[str, Any], keeps: Callable[[str, object], bool]) -> dict[str, Any]:
    """Return a JSON schema with those of its rules that are kept, by their keys and values."""
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in {"properties", "$defs"}:
            kept[key] = {name: _pruned(inner, keeps) for name, inner in value.items()}
        elif key == "items":
            kept[key] = _pruned(value, keeps)
        elif key in {"anyOf", "allOf"}:
            kept[key] = [_pruned(inner, keeps) for inner in value]
        elif keeps(key, value):
            kept[key] = value
    return kept


_BOUNDS = frozenset({"minimum", "maximum", "minItems", "maxItems"})
"""What of a rubric's schema some hosts refuse, Azure among them."""


def _write_openai(model: ModelConfiguration, request: ChatRequest) -> dict[str, Any]:
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
        body |= {"logprobs": True, "top_logprobs": _TOP_LOGPROBS}
    if request.schema is None or model.structured is Structured.NONE:
        return body
    name, said = request.schema.name, request.schema.schema
    if not model.schema_bounds:  # parsing checks them all the same
        said = _pruned(said, lambda key, _: key not in _BOUNDS)
    if model.structured is Structured.TOOL:
        function = {"name": name, "parameters": said, "strict": True}
        body["tools"] = [{"type": "function", "function": function}]
        body["tool_choice"] = {"type": "function", "function": {"name": name}}
    else:
        body["response_format"] = {"type": str(model.structured)}
    if model.structured is Structured.JSON_SCHEMA:
        held = {"name": name, "schema": said, "strict": True}
        body["response_format"]["json_schema"] = held
    return body


def _read_openai(
    reply: dict[str, Any], body: bytes, usage: TokenUsage, odd: list[str]
) -> ChatReply:
    choice = first(required(reply, "choices", list))
    message = required(choice, "message", dict)
    finish = finish_reason(choice, "finish_reason", odd)
    refuses = message.get("refusal") is True
    places = optional(optional(choice, "logprobs", dict, odd), "content", list, odd)
    refusal = None if refuses else optional(message, "refusal", str, odd)
    if message.get("tool_calls"):
        function = required(first(required(message, "tool_calls", list)), "function", dict)
        arguments = function.get("arguments")
        filled = isinstance(arguments, dict)
        text = rewrite(arguments, body) if filled else required(function, "arguments", str)
    else:
        text = text_of(message.get("content"), odd)
    return ChatReply(
        text=text,
        finish_reason=FinishReason.REFUSAL if refusal or refuses else finish,
        usage=usage,
        model=optional(reply, "model", str, odd),
        refusal=refusal or None,
        system_fingerprint=optional(reply, "system_fingerprint", str, odd),
        logprobs=token_logprobs(zip(places, places, strict=True), "top_logprobs", "logprob", odd),
    )


_TAKEN = {
    "$defs", "$ref", "additionalProperties", "allOf", "anyOf", "const", "description", "enum",
    "items", "properties", "required", "title", "type",
}  # fmt: skip
"""What a schema of a structured output of Anthropic may hold; bounds of numbers and lengths are
refused. Parsing checks them."""


def _write_anthropic(model: ModelConfiguration, request: ChatRequest) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": model.model,
        "max_tokens": request.max_tokens,
        "system": request.system,
        "messages": [{"role": "user", "content": request.user}],
    }
    if model.send_temperature:
        body["temperature"] = request.temperature
    if request.schema is not None and model.structured is Structured.JSON_SCHEMA:
        schema = _pruned(
            request.schema.schema,
            lambda key, value: key in _TAKEN or (key == "minItems" and value in {0, 1}),
        )
        body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    if request.schema is not None and model.structured is Structured.TOOL:
        name, schema = request.schema.name, dict(request.schema.schema)
        body["tools"] = [{"name": name, "description": _CALLED, "input_schema": schema}]
        body["tool_choice"] = {"type": "tool", "name": name, "disable_parallel_tool_use": True}
    return body


def _read_anthropic(
    reply: dict[str, Any], body: bytes, usage: TokenUsage, odd: list[str]
) -> ChatReply:
    finish = finish_reason(reply, "stop_reason", odd)
    refusal = ""
    if finish is FinishReason.REFUSAL:
        details = optional(reply, "stop_details", dict, odd)
        refusal = optional(details, "explanation", str, odd)
    content = reply.get("content")
    if content is None:
        raise broken("lacks content")
    blocks = content if isinstance(content, list) else []
    call = next((each for each in blocks if _is_call(each)), None)
    return ChatReply(
        text=rewrite(required(call, "input", dict), body) if call else text_of(content, odd),
        finish_reason=finish,
        usage=usage,
        model=optional(reply, "model", str, odd),
        refusal=refusal or None,
    )


def _is_call(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_use"


def _gemini_path(model: ModelConfiguration) -> str:
    # A name with a slash is a whole resource, tunedModels/x say.
    name = model.model if "/" in model.model else f"models/{model.model}"
    return f"/{name}:generateContent"


def _write_gemini(model: ModelConfiguration, request: ChatRequest) -> dict[str, Any]:
    settings: dict[str, Any] = {"maxOutputTokens": request.max_tokens}
    body: dict[str, Any] = {
        "systemInstruction": {"parts": [{"text": request.system}]},
        "contents": [{"role": "user", "parts": [{"text": request.user}]}],
        "generationConfig": settings,
    }
    if model.send_temperature:
        settings["temperature"] = request.temperature
    if model.send_seed and request.seed is not None:
        settings["seed"] = request.seed
    if model.logprobs and request.logprobs:
        settings |= {"responseLogprobs": True, "logprobs": _TOP_LOGPROBS}
    if request.schema is None or model.structured is Structured.NONE:
        return body
    name, schema = request.schema.name, request.schema.schema
    if model.structured is Structured.TOOL:
        function = {"name": name, "description": _CALLED, "parametersJsonSchema": schema}
        body["tools"] = [{"functionDeclarations": [function]}]
        demand = {"mode": "ANY", "allowedFunctionNames": [name]}
        body["toolConfig"] = {"functionCallingConfig": demand}
    else:
        settings["responseMimeType"] = "application/json"
    if model.structured is Structured.JSON_SCHEMA:
        settings["responseJsonSchema"] = schema
    return body


def _read_gemini(
    reply: dict[str, Any], body: bytes, usage: TokenUsage, odd: list[str]
) -> ChatReply:
    version = optional(reply, "modelVersion", str, odd)
    feedback = optional(reply, "promptFeedback", dict, odd)
    # A prompt that was blocked.
    if not reply.get("candidates") and optional(feedback, "blockReason", str, odd):
        return ChatReply("", FinishReason.SAFETY, usage, version)
    candidate = first(required(reply, "candidates", list))
    # A model that was stopped, or thought until its tokens were used up, sends no parts at all.
    content = {} if candidate.get("content") is None else required(candidate, "content", dict)
    logprobs = optional(candidate, "logprobsResult", dict, odd)
    chosen = optional(logprobs, "chosenCandidates", list, odd)
    places = zip_longest(chosen, optional(logprobs, "topCandidates", list, odd)[: len(chosen)])
    return ChatReply(
        text=_gemini_text(content.get("parts"), body, odd),
        finish_reason=finish_reason(candidate, "finishReason", odd),
        usage=usage,
        model=version,
        logprobs=token_logprobs(places, "candidates", "logProbability", odd),
    )


def _gemini_text(parts: object, body: bytes, odd: list[str]) -> str:
    """Return the arguments of the first function call, or all text but what the model thought."""
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and part.get("thought") is not True and part.get("functionCall"):
            call = required(part, "functionCall", dict)
            return rewrite({} if call.get("args") is None else required(call, "args", dict), body)
    return text_of(parts, odd)


DIALECTS = {
    "openai": Dialect(
        lambda _: "/chat/completions",
        _write_openai,
        _read_openai,
        "usage",
        (("prompt_tokens",), ("completion_tokens",)),
    ),
    "anthropic": Dialect(
        lambda _: "/messages",
        _write_anthropic,
        _read_anthropic,
        "usage",
        # What was written to the provider's cache of prompts, or read from it, is input.
        (
            ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
            ("output_tokens",),
        ),
        # That which all models and gateways know. The next one, 2026-10-21, only takes things away
        # from what is used here: temperature, which models before Claude Opus 4.7 still have.
        {"anthropic-version": "2023-06-01"},
    ),
    "gemini": Dialect(
        _gemini_path,
        _write_gemini,
        _read_gemini,
        "usageMetadata",
        # Thoughts are paid as output.
        (
            ("promptTokenCount", "toolUsePromptTokenCount"),
            ("candidatesTokenCount", "thoughtsTokenCount"),
        ),
    ),
}
"""By the names that the configuration knows."""
