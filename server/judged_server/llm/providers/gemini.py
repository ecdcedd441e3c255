"""The dialect of Google's Gemini API, generateContent.

The shapes are those of https://ai.google.dev/api/generate-content, as the `google-genai` package
3.4.0 types them.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import zip_longest
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
    BAD_KEY,
    TOO_LONG,
    Capabilities,
    Dialect,
    error_object,
    fault_of,
    finish_reason,
    first,
    optional,
    permanent,
    required,
    rewrite,
    text_of,
    token_logprobs,
    whole_reply,
    with_key,
)

_TOP_LOGPROBS = 5
_COUNTS = (
    ("promptTokenCount", "toolUsePromptTokenCount"),
    ("candidatesTokenCount", "thoughtsTokenCount"),
)


def path(model: ModelConfiguration) -> str:
    """Return the path of a model; a name with a slash is a whole resource, tunedModels/x say."""
    name = model.model if "/" in model.model else f"models/{model.model}"
    return f"/{name}:generateContent"


headers = partial(with_key, {})


def write_request(model: ModelConfiguration, request: ChatRequest) -> dict[str, Any]:
    """Return the JSON object that asks the model."""
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
        settings["responseLogprobs"] = True
        settings["logprobs"] = _TOP_LOGPROBS
    if request.schema is not None:
        if model.structured in {Structured.JSON_SCHEMA, Structured.JSON_OBJECT}:
            settings["responseMimeType"] = "application/json"
        if model.structured is Structured.JSON_SCHEMA:
            settings["responseJsonSchema"] = request.schema.schema
        if model.structured is Structured.TOOL:
            body |= _tool(request.schema)
    return body


def _tool(schema: ReplySchema) -> dict[str, Any]:
    """Return the fields that demand the call of one function with the schema."""
    function = {
        "name": schema.name,
        "description": "Records the answer.",
        "parametersJsonSchema": schema.schema,
    }
    demand = {"mode": "ANY", "allowedFunctionNames": [schema.name]}
    return {
        "tools": [{"functionDeclarations": [function]}],
        "toolConfig": {"functionCallingConfig": demand},
    }


def read_reply(status: int, body: bytes) -> ChatReply:
    """Return the reply in the body of a response. Raises ProviderFault, whatever the body is.

    A prompt that was blocked is a reply with the finish reason SAFETY. Tokens of thoughts count as
    output, as they are paid.
    """
    if status != 200:
        raise _fault(status, body)
    return whole_reply(body, "usageMetadata", _COUNTS, _read)


def _read(reply: dict[str, Any], body: bytes, usage: TokenUsage, odd: list[str]) -> ChatReply:
    version = optional(reply, "modelVersion", str, odd)
    candidates = reply.get("candidates") or []
    feedback = optional(reply, "promptFeedback", dict, odd)
    if not candidates and optional(feedback, "blockReason", str, odd):
        return ChatReply("", FinishReason.SAFETY, usage, version)
    candidate = first(required(reply, "candidates", list))
    # A model that was stopped, or thought until its tokens were used up, sends no parts at all.
    content = {} if candidate.get("content") is None else required(candidate, "content", dict)
    logprobs = optional(candidate, "logprobsResult", dict, odd)
    chosen = optional(logprobs, "chosenCandidates", list, odd)
    places = zip_longest(chosen, optional(logprobs, "topCandidates", list, odd)[: len(chosen)])
    return ChatReply(
        text=_text(content.get("parts"), body, odd),
        finish_reason=finish_reason(candidate, "finishReason", odd),
        usage=usage,
        model=version,
        logprobs=token_logprobs(places, "candidates", "logProbability", odd),
    )


def _text(parts: object, body: bytes, odd: list[str]) -> str:
    """Return the arguments of the first function call, or all text but what the model thought."""
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and part.get("thought") is not True and part.get("functionCall"):
            call = required(part, "functionCall", dict)
            return rewrite({} if call.get("args") is None else required(call, "args", dict), body)
    return text_of(parts, odd)


def _fault(status: int, body: bytes) -> ProviderFault:
    error = error_object(body)
    listed = error.get("details")
    details = (
        [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    )
    if any(item.get("reason") == "API_KEY_INVALID" for item in details):  # it comes as a 400
        return permanent(Reason.PROVIDER_REFUSED_KEY, status, BAD_KEY)
    if status == 400 and "exceeds the maximum number of tokens" in str(error.get("message")):
        return permanent(Reason.PROVIDER_ERROR, status, TOO_LONG)
    fault = fault_of(status, body)
    if fault.retryable:
        fault.retry_after_s = _delay_s(details)
    return fault


def _delay_s(details: list[dict[str, Any]]) -> float | None:
    """Return the seconds of a RetryInfo, "34.5s" say: this API sends no Retry-After."""
    for item in details:
        delay = item.get("retryDelay")
        if isinstance(delay, str) and delay.endswith("s"):
            try:
                seconds = float(delay[:-1])
            except ValueError:
                continue
            if math.isfinite(seconds) and seconds >= 0:
                return seconds
    return None


DIALECT = Dialect(
    path=path,
    headers=headers,
    write_request=write_request,
    read_reply=read_reply,
    capabilities=Capabilities(
        structured=(
            Structured.JSON_SCHEMA,
            Structured.JSON_OBJECT,
            Structured.TOOL,
            Structured.NONE,
        ),
        auth=("x-goog-api-key", "bearer"),
        refused={
            "organization": "a key belongs to its project there; leave it out",
            "project": "a key belongs to its project there; leave it out",
            "max_tokens_parameter": "that API has one name for it; leave it out",
            "schema_bounds": "that API takes them; leave it out",
        },
        model_name=(
            r"([A-Za-z]{1,40}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,199}",
            "the provider's name of the model: letters, digits and . _ -, after tunedModels/ say",
        ),
    ),
)
