"""The dialect of OpenAI's Chat Completions, which many other servers speak too.

Owns the JSON of requests and replies. Reads strictly what a verdict needs and ignores the rest:
fields come and go between providers. The shapes are those of
https://platform.openai.com/docs/api-reference/chat, as the `openai` package 3.54.0 types them.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, overload

import orjson

from judged_server.llm.chat import (
    ChatReply,
    ChatRequest,
    FinishReason,
    ReplySchema,
    TokenLogprob,
    TokenUsage,
)
from judged_server.llm.configuration import (
    ModelConfiguration,
    ProviderConfiguration,
    Structured,
)
from judged_server.llm.faults import ProviderFault, Reason
from judged_server.llm.providers.http_status import fault_of
from judged_server.llm.secrets import Secret

PATH = "/chat/completions"

_TOP_LOGPROBS = 5

_FINISH = {
    "stop": FinishReason.STOP,
    "tool_calls": FinishReason.STOP,
    "function_call": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.SAFETY,
}

_TOO_LONG = "the texts are longer than the model's window; send shorter ones"

_ERRORS = {
    "context_length_exceeded": _TOO_LONG,
    "exceed_context_size_error": _TOO_LONG,
    "insufficient_quota": "the account has no money or quota left",
}
"""Codes and types of errors that another try won't change; the second is llama.cpp's."""

_T = TypeVar("_T")


def headers(provider: ProviderConfiguration, key: Secret | None) -> dict[str, str]:
    """Return the headers of every request to a provider, the key among them."""
    fields = {"Content-Type": "application/json", "Accept": "application/json"}
    if key is not None and provider.auth == "api-key":
        fields["api-key"] = key.reveal()
    elif key is not None:
        fields["Authorization"] = f"Bearer {key.reveal()}"
    if provider.organization:
        fields["OpenAI-Organization"] = provider.organization
    if provider.project:
        fields["OpenAI-Project"] = provider.project
    return fields


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
        body |= _structured(model.structured, request.schema)
    return body


def _structured(means: Structured, schema: ReplySchema) -> dict[str, Any]:
    """Return the fields that hold the reply to a schema."""
    if means is Structured.JSON_SCHEMA:
        held = {"name": schema.name, "schema": schema.schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": held}}
    if means is Structured.JSON_OBJECT:
        return {"response_format": {"type": "json_object"}}
    if means is Structured.TOOL:
        function = {"name": schema.name, "parameters": schema.schema, "strict": True}
        return {
            "tools": [{"type": "function", "function": function}],
            "tool_choice": {"type": "function", "function": {"name": schema.name}},
        }
    return {}


def read_reply(status: int, body: bytes) -> ChatReply:
    """Return the reply in the body of a response. Raises ProviderFault, whatever the body is.

    A content filter that stopped the prompt, which Azure reports as an error, is a reply with the
    finish reason SAFETY.
    """
    if status != 200:
        words = _error_words(body)
        if status == 400 and "content_filter" in words:
            return ChatReply("", FinishReason.SAFETY, TokenUsage(), "")
        fault = fault_of(status)
        for word, meaning in _ERRORS.items():
            if word in words:
                fault = ProviderFault(
                    fault.reason,
                    f"the provider answered {status}: {meaning}",
                    retryable=False,
                    status=status,
                )
        raise fault
    reply = _json(body)
    if not isinstance(reply, dict):
        raise _broken("is not a JSON object")
    if reply.get("error") is not None:
        raise _broken("is an error with the status 200")
    choice = _first(_need(reply, "choices", list))
    message = _need(choice, "message", dict)
    refusal = _may(message, "refusal", str)
    finish = _FINISH.get(_may(choice, "finish_reason", str, ""), FinishReason.OTHER)
    return ChatReply(
        text=_text(message),
        finish_reason=FinishReason.REFUSAL if refusal else finish,
        usage=_usage(_may(reply, "usage", dict)),
        model=_may(reply, "model", str, ""),
        refusal=refusal or None,
        system_fingerprint=_may(reply, "system_fingerprint", str, ""),
        logprobs=_logprobs(_may(choice, "logprobs", dict)),
    )


def _text(message: dict[str, Any]) -> str:
    """Return the arguments of the first tool call, or the content; "" when there is neither."""
    calls = _may(message, "tool_calls", list)
    if calls:
        return _need(_need(_first(calls), "function", dict), "arguments", str)
    return _may(message, "content", str, "")


def _usage(usage: dict[str, Any] | None) -> TokenUsage:
    if usage is None:
        return TokenUsage()
    spent = _may(usage, "prompt_tokens", int, 0), _may(usage, "completion_tokens", int, 0)
    if min(spent) < 0:
        raise _broken("counts tokens below 0")
    return TokenUsage(*spent)


def _logprobs(logprobs: dict[str, Any] | None) -> tuple[TokenLogprob, ...]:
    content = None if logprobs is None else _may(logprobs, "content", list)
    return tuple(
        TokenLogprob(
            _need(place, "token", str),
            tuple(
                (_need(other, "token", str), _logprob(other))
                for other in _may(place, "top_logprobs", list, [])
            ),
        )
        for place in content or ()
    )


def _logprob(token: dict[str, Any]) -> float:
    value = token.get("logprob")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _broken("has a log-probability that is no number")
    return float(value)


def _error_words(body: bytes) -> set[str]:
    """Return the code and the type in an error's body; they are compared, never shown."""
    reply = _json(body)
    error = reply.get("error") if isinstance(reply, dict) else None
    return {str(error.get(name)) for name in ("code", "type")} if isinstance(error, dict) else set()


def _json(body: bytes) -> object:
    """Return what the body says; None when it is not JSON."""
    try:
        parsed: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        # Not kept as the cause of a fault: it holds the whole body, and so perhaps a prompt or key.
        return None
    return parsed


def _broken(what: str) -> ProviderFault:
    return ProviderFault(
        Reason.PROVIDER_ERROR, f"the provider's reply {what}", retryable=True, status=200
    )


def _first(items: list[Any]) -> dict[str, Any]:
    if not items or not isinstance(items[0], dict):
        raise _broken("holds no answer")
    return items[0]


def _need(table: object, key: str, kind: type[_T]) -> _T:
    """Return a field that must be there, in its type."""
    value = table.get(key) if isinstance(table, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _broken(f"lacks {key}, or has it in a wrong form")
    return value


@overload
def _may(table: object, key: str, kind: type[_T]) -> _T | None: ...
@overload
def _may(table: object, key: str, kind: type[_T], default: _T) -> _T: ...
def _may(table: object, key: str, kind: type[_T], default: _T | None = None) -> _T | None:
    """Return a field that may be missing or null, then the default; otherwise in its type."""
    if isinstance(table, dict) and table.get(key) is None:
        return default
    return _need(table, key, kind)
