"""Writes requests and reads replies in the dialect of each provider.

A new dialect needs a function that writes, one that reads, a line in DIALECTS, and its capabilities
in `config.CAPABILITIES`.

The formats are those of these pages, as typed in the packages `openai` 3.54.0, `anthropic` 2.12.0
and `google-genai` 3.4.0. Only the text of a reply is required: fields come and go.

    openai     https://platform.openai.com/docs/api-reference/chat
    anthropic  https://platform.claude.com/docs/en/api/messages
    gemini     https://ai.google.dev/api/generate-content

Only the text of a reply is read strictly. Nothing depends on the fields beside it: one of an
unexpected type or value is ignored, and listed in `odd`. Messages name fields and never show their
content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

import orjson
from pydantic import SecretStr

from judged_server.llm.chat import (
    ChatReply,
    ChatRequest,
    FinishReason,
    ProviderFault,
    Reason,
    TokenUsage,
)
from judged_server.llm.config import (
    ModelConfiguration,
    ProviderConfiguration,
    Structured,
)

_BAD_KEY = ": it refuses the key; check key_env or key_file of the provider"
_CODES = ("code", "type", "reason", "error_code")

_T = TypeVar("_T")


def parse(body: bytes) -> object:
    """Return the parsed body; None when it is not JSON.

    NaN and infinities, which are not JSON, become null; a lone surrogate is refused.
    """
    # The exception is not kept as a cause: it holds the whole body, perhaps with the prompt.
    with suppress(orjson.JSONDecodeError):
        parsed: object = orjson.loads(body)
        return parsed
    try:
        parsed = orjson.loads(orjson.dumps(json.loads(body)))
    except (ValueError, TypeError, RecursionError):
        return None
    return parsed


def _reply_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a reply. Raises ProviderFault, and UnreadableReply."""
    reply = parse(body)
    if not isinstance(reply, dict):
        if body.lstrip().startswith(b"<"):
            raise answered_before(200, retryable=True)
        raise broken("is no JSON object")
    error = reply.get("error")
    if _tells_error(error):
        code = error.get("code") if isinstance(error, dict) else None
        if type(code) is int and 400 <= code < 600:
            raise fault_of(code, body)
        raise broken(_ERROR)
    return reply


_ERROR = "is an error with the status 200"


def _tells_error(error: object) -> bool:
    return bool(error) and not (isinstance(error, str) and error.isspace())


def answered_before(status: int, *, retryable: bool) -> ProviderFault:
    """Return the fault of an answer by something before the provider, such as a firewall."""
    fault = ProviderFault(
        Reason.PROVIDER_ERROR,
        f"something else came in place of its answer, with the status {status}, perhaps from a "
        "firewall or a proxy before it; check base_url, and what this server may reach",
        retryable=retryable,
        status=status,
    )
    fault.unsent = True
    return fault


def _error_of(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Return the error that a body describes, None when it describes none.

    Its text is compared, never shown: it may quote the prompt or the key.
    """
    reply = parse(body)
    return reply.get("error") if isinstance(reply, dict) else None


class UnreadableReply(Exception):
    """A whole reply came, with the status 200, in a form that can't be read."""


def broken(what: str) -> UnreadableReply:
    """Return the fault of a reply with the status 200 that can't be read."""
    return UnreadableReply(f"its reply {what}")


def _is_filtered(status: int, error: Any) -> bool:  # noqa: ANN401 - any JSON
    if not isinstance(error, dict):
        return False
    metadata = error.get("metadata")
    flagged = isinstance(metadata, dict) and not _FLAGGED.isdisjoint(metadata)
    blocked = "content_filter" in (error.get("code"), error.get("type"))
    return (status == 400 and blocked) or (status == 403 and flagged)


_FLAGGED = frozenset({"flagged_input", "reasons"})
"""Fields of OpenRouter's moderation errors, see https://openrouter.ai/docs/api/reference/errors-and-debugging."""


def first(items: list[Any]) -> dict[str, Any]:
    """Return the first item, an object. Raises UnreadableReply if it is missing or no object."""
    if not items or not isinstance(items[0], dict):
        raise broken("holds no answer")
    return items[0]


def required(table: dict[str, Any], key: str, kind: type[_T]) -> _T:
    """Return a required field of a type. Raises UnreadableReply."""
    value = table.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise broken(f"lacks {key}, or has it in another form")
    return value


def optional(table: dict[str, Any], key: str, kind: type[_T], odd: list[str]) -> _T:
    """Return a field, or an empty value if it is missing or, noted in `odd`, of another type."""
    value = table.get(key)
    if type(value) is kind:
        return value
    if value is not None:
        odd.append(key)
    return kind()


def _tokens(table: dict[str, Any], keys: tuple[str, ...], odd: list[str]) -> int:
    """Return the sum of some token counts; 0 if there are none, or one is not a valid count."""
    counts = {key: table.get(key) or 0 for key in keys}
    for key, count in counts.items():
        if type(count) is not int or count < 0:
            odd.append(key)
            return 0
    return sum(counts.values())


def text_of(content: object, odd: list[str]) -> str:
    """Return the text of a reply's content: a string, or its parts joined, without reasoning."""
    if content is None or isinstance(content, str):
        return content or ""
    parts, odd_before = content if isinstance(content, list) else [content], len(odd)
    said = "".join(_part_text(part, odd) for part in parts)
    if not said and len(odd) > odd_before:
        raise broken("has no text in its content, but other parts")
    return said


def _part_text(part: object, odd: list[str]) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        raise broken("has a part of its content in another form")
    kind = part.get("type", "text" if "text" in part else "other")
    if part.get("thought") is True or _THOUGHT.search(str(kind)):
        return ""
    if kind in ("text", "output_text"):
        return required(part, "text", str)
    odd.append("content")
    return ""


_THOUGHT = re.compile("think|thought|reason")


_WORDS = {
    FinishReason.STOP: "stop stopsequence endturn tooluse toolcalls functioncall eos eostoken "
    "complete completed",
    FinishReason.LENGTH: "continuation incomplete",
    FinishReason.REFUSAL: "refusal",
    FinishReason.SAFETY: "contentfilter contentfiltered safety recitation blocklist "
    "prohibitedcontent spii escalation modelarmor guardrailintervened errortoxic sensitive",
}
"""Finish reasons of all dialects, reduced to their letters in lower case. They are shared, since a
gateway of one dialect passes on the words of models of another."""
_FINISH = {word: finish for finish, words in _WORDS.items() for word in words.split()}
_CUT = re.compile("length|max.*token|tokenlimit|limit(reached|exceeded)?$|trunc|window")
_BROKEN_OFF = re.compile("error|abort|cancel|fail|interrupt|insufficient|timeout")


def finish_reason(table: dict[str, Any], key: str, odd: list[str]) -> FinishReason:
    """Return why a model stopped: UNTOLD if that is not given, OTHER for an unknown word.

    Raises UnreadableReply if the provider broke the reply off: the NO of "NOT" looks whole.
    """
    value = optional(table, key, str, odd)
    if not value:
        return FinishReason.UNTOLD
    word = "".join(filter(str.isalpha, value.lower()))
    found = _FINISH.get(word)
    if found is None and _CUT.search(word):
        return FinishReason.LENGTH
    if found is None and _BROKEN_OFF.search(word):
        raise broken("was broken off by an error")
    return found or FinishReason.OTHER


_NO_MONEY = ": the account has no money or quota left"
_CANT_TAKE = (
    "; it can't take the request; check the model's quirks in the llm configuration "
    "(schema_bounds, send_temperature, send_seed, max_tokens_parameter, structured)"
)
_STATUSES = {
    400: (Reason.PROVIDER_ERROR, _CANT_TAKE),
    401: (Reason.PROVIDER_REFUSED_KEY, _BAD_KEY),
    402: (Reason.RATE_LIMITED, _NO_MONEY),
    403: (Reason.PROVIDER_REFUSED_KEY, _BAD_KEY),
    404: (Reason.PROVIDER_ERROR, "; check base_url and the model's name in the llm configuration"),
    413: (Reason.PROVIDER_ERROR, "; the texts are too long for it"),
    422: (Reason.PROVIDER_ERROR, _CANT_TAKE),
    429: (Reason.RATE_LIMITED, ": too many requests"),
    529: (Reason.PROVIDER_ERROR, "; it is overloaded"),
}
_REDIRECT = ", a redirect, which is not followed; put the final address in base_url"


_HOPELESS = (
    (
        Reason.RATE_LIMITED,
        _NO_MONEY,
        re.compile("insufficient_quota|billing_error|.*spend_limit_reached"),
        re.compile("credit balance is too low"),
    ),
    (
        Reason.PROVIDER_ERROR,
        ": the texts are longer than the model's window; send shorter ones",
        re.compile("context_length_exceeded|exceed_context_size_error"),  # the second: llama.cpp's
        re.compile("prompt is too long|exceed context limit|exceeds the maximum number of tokens"),
    ),
    (Reason.PROVIDER_REFUSED_KEY, _BAD_KEY, re.compile("API_KEY_INVALID"), re.compile("(?!)")),
)
"""Errors that a retry can't fix: reason, message, the providers' codes and words for them."""


def fault_of(status: int, body: bytes) -> ProviderFault:
    """Return the fault of an HTTP status other than 200, with an error of any dialect as body."""
    described = _error_of(body)
    error: dict[str, Any] = described if isinstance(described, dict) else {}
    details = error.get("details")
    listed = [error, *(details if isinstance(details, list) else [details])]
    tables = [each for each in listed if isinstance(each, dict)]
    codes = [str(each.get(key)) for each in tables for key in _CODES]
    message = str(error.get("message")).lower() if status == 400 else ""
    retryable = status in {408, 409, 429} or status >= 500
    reason, meaning = _STATUSES.get(status, (Reason.PROVIDER_ERROR, ""))
    for hopeless, why, code, words in _HOPELESS:
        if any(map(code.fullmatch, codes)) or words.search(message):
            reason, meaning, retryable = hopeless, why, False
            break
    else:
        if status == 403 and not described:
            return answered_before(status, retryable=False)
    if 300 <= status < 400:
        meaning = _REDIRECT
    says = f"it answered {status}{meaning}"
    return ProviderFault(reason, says, retryable=retryable, status=status)


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API as pure functions.

    `path` follows the base URL; `counts` are the keys of input and of output tokens in the object
    under `counted_in`, `total` that of their sum: what it has beyond them is reasoning, which some
    providers, such as xAI, leave out of the output. `fields` are headers of every request.
    """

    path: Callable[[ModelConfiguration], str]
    write_request: Callable[[ModelConfiguration, ChatRequest], dict[str, Any]]
    read: Callable[[dict[str, Any], TokenUsage, list[str]], ChatReply]
    counted_in: str
    counts: tuple[tuple[str, ...], tuple[str, ...]]
    fields: Mapping[str, str] = field(default_factory=dict)
    total: str = ""

    def headers(self, provider: ProviderConfiguration, key: SecretStr | None) -> dict[str, str]:
        """Return the headers of every request, the key in the one that `provider.auth` names."""
        found = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            **self.fields,
        }
        if key is not None and provider.auth == "bearer":
            found["Authorization"] = f"Bearer {key.get_secret_value()}"
        elif key is not None:
            found[provider.auth] = key.get_secret_value()
        return found

    def read_reply(self, status: int, body: bytes) -> ChatReply:
        """Return the reply in the body of a response. Raises ProviderFault for any other body.

        Token counts are returned even if the reply can't be read, since it is paid for. A prompt
        that a filter stopped, which Azure and OpenRouter report as an error, gives a reply with the
        finish reason SAFETY.
        """
        usage, odd = TokenUsage(), list[str]()
        if status != 200:
            if _is_filtered(status, _error_of(body)):
                return ChatReply("", FinishReason.SAFETY, usage, "")
            raise fault_of(status, body)
        try:
            reply = _reply_object(body)
            table = optional(reply, self.counted_in, dict, odd)
            input_tokens, output_tokens = (_tokens(table, keys, odd) for keys in self.counts)
            total = optional(table, self.total, int, odd)
            if input_tokens:
                output_tokens = max(output_tokens, total - input_tokens)
            usage = TokenUsage(input_tokens, output_tokens)
            found = self.read(reply, usage, odd)
        except UnreadableReply as broken_reply:
            found = ChatReply("", FinishReason.UNTOLD, usage, "", unreadable=str(broken_reply))
        return found._replace(left_out=tuple(odd))


_BOUNDS = frozenset({"minimum", "maximum", "minItems", "maxItems"})
"""Keywords of schemas that Anthropic, Azure and others refuse. Parsing checks the bounds anyway."""


def _unbounded(schema: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a JSON schema without bounds; a property may have the name of one."""
    if not isinstance(schema, dict):
        return schema
    return {
        key: _unbounded(value)
        for key, value in schema.items()
        if key not in _BOUNDS or isinstance(value, dict)
    }


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
    if request.schema is None or model.structured is Structured.NONE:
        return body
    name, schema = request.schema.name, request.schema.schema
    if not model.schema_bounds:
        schema = _unbounded(schema)
    body["response_format"] = {"type": str(model.structured)}
    if model.structured is Structured.JSON_SCHEMA:
        json_schema = {"name": name, "schema": schema, "strict": True}
        body["response_format"]["json_schema"] = json_schema
    return body


def _read_openai(reply: dict[str, Any], usage: TokenUsage, odd: list[str]) -> ChatReply:
    choice = first(required(reply, "choices", list))
    if _tells_error(choice.get("error")):
        raise broken(_ERROR)
    message = required(choice, "message", dict)
    finish = finish_reason(choice, "finish_reason", odd)
    refuses = message.get("refusal") is True
    refusal = None if refuses else optional(message, "refusal", str, odd)
    return ChatReply(
        text=text_of(message.get("content"), odd),
        finish_reason=FinishReason.REFUSAL if refusal or refuses else finish,
        usage=usage,
        model=optional(reply, "model", str, odd),
        refusal=refusal or None,
        system_fingerprint=optional(reply, "system_fingerprint", str, odd),
    )


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
        output_format = {"type": "json_schema", "schema": _unbounded(request.schema.schema)}
        body["output_config"] = {"format": output_format}
    return body


def _read_anthropic(reply: dict[str, Any], usage: TokenUsage, odd: list[str]) -> ChatReply:
    finish = finish_reason(reply, "stop_reason", odd)
    refusal = ""
    if finish is FinishReason.REFUSAL:
        details = optional(reply, "stop_details", dict, odd)
        refusal = optional(details, "explanation", str, odd)
    content = reply.get("content")
    if content is None:
        raise broken("lacks content")
    return ChatReply(
        text=text_of(content, odd),
        finish_reason=finish,
        usage=usage,
        model=optional(reply, "model", str, odd),
        refusal=refusal or None,
    )


def _gemini_path(model: ModelConfiguration) -> str:
    # A name with a slash is a full resource name, such as tunedModels/x.
    name = model.model if "/" in model.model else f"models/{model.model}"
    return f"/{quote(name)}:generateContent"


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
    if request.schema is None or model.structured is Structured.NONE:
        return body
    settings["responseMimeType"] = "application/json"
    if model.structured is Structured.JSON_SCHEMA:
        settings["responseJsonSchema"] = request.schema.schema
    return body


def _read_gemini(reply: dict[str, Any], usage: TokenUsage, odd: list[str]) -> ChatReply:
    version = optional(reply, "modelVersion", str, odd)
    feedback = optional(reply, "promptFeedback", dict, odd)
    # A prompt that was blocked.
    if not reply.get("candidates") and optional(feedback, "blockReason", str, odd):
        return ChatReply("", FinishReason.SAFETY, usage, version)
    candidate = first(required(reply, "candidates", list))
    # There are no parts if the model was stopped, or used up its tokens for reasoning.
    content = {} if candidate.get("content") is None else required(candidate, "content", dict)
    return ChatReply(
        text=text_of(content.get("parts"), odd),
        finish_reason=finish_reason(candidate, "finishReason", odd),
        usage=usage,
        model=version,
    )


DIALECTS = {
    "openai": Dialect(
        lambda _: "/chat/completions",
        _write_openai,
        _read_openai,
        "usage",
        (("prompt_tokens",), ("completion_tokens",)),
        total="total_tokens",
    ),
    "anthropic": Dialect(
        lambda _: "/messages",
        _write_anthropic,
        _read_anthropic,
        "usage",
        # Tokens written to the provider's prompt cache, or read from it, are input.
        (
            ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
            ("output_tokens",),
        ),
        # The version that all models and gateways know. The next one, 2026-10-21, only removes what
        # is used here: temperature, which models before Claude Opus 4.7 still have.
        {"anthropic-version": "2023-06-01"},
    ),
    "gemini": Dialect(
        _gemini_path,
        _write_gemini,
        _read_gemini,
        "usageMetadata",
        # Reasoning is paid for as output.
        (
            ("promptTokenCount", "toolUsePromptTokenCount"),
            ("candidatesTokenCount", "thoughtsTokenCount"),
        ),
    ),
}
"""By the names in the configuration."""
