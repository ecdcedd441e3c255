"""Chat servers asked over HTTP, with nothing but the standard library.

The request itself is made in `chat_http`. A key is read from the environment variable that is
named, at each call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from judged.evaluation.systems.chat_http import ChatFailed, check_url, key_of, post
from judged.evaluation.systems.system import Answer

INSTRUCTIONS = (
    "Answer the question in a few sentences. Where passages are given, answer from them alone, and "
    "say so when they do not hold the answer."
)
TIMEOUT_S = 120.0

_Body = dict[str, object]
_Read = Callable[[object], Answer]


@dataclass(frozen=True, slots=True)
class ChatSystem:
    """A chat server as a system. `signature` says all that can change an answer, and no key."""

    signature: str
    url: str
    instructions: str
    timeout: float
    key_env: str | None
    headers: Callable[[str], Mapping[str, str]]
    body: Callable[[str, str], _Body]
    read: _Read

    def __call__(self, query: str, contexts: Sequence[str] = ()) -> Answer:
        """Return the model's answer. Raises ChatFailed."""
        key = key_of(self.key_env)
        headers = self.headers(key) if key else {}
        body = self.body(self.instructions, prompt_of(query, contexts))
        return self.read(post(self.url, headers, body, self.timeout, secret=key))


def prompt_of(query: str, contexts: Sequence[str]) -> str:
    """Return the user's message: the query alone, or after the passages, which are numbered."""
    if not contexts:
        return query
    passages = "\n\n".join(f"[{i}] {text}" for i, text in enumerate(contexts, 1))
    return f"Passages:\n\n{passages}\n\nQuestion: {query}"


def ollama(
    model: str = "phi3:mini",
    *,
    temperature: float | None = 0.1,
    max_tokens: int = 1024,
    base_url: str = "http://127.0.0.1:11434",
    instructions: str = INSTRUCTIONS,
    timeout: float = TIMEOUT_S,
) -> ChatSystem:
    """Return a model of an Ollama server (POST /api/chat). Fetch it with `ollama pull` first."""

    def body(system: str, user: str) -> _Body:
        options = _some(temperature=temperature, num_predict=max_tokens)
        messages = _messages(system, user)
        return {"model": model, "messages": messages, "stream": False, "options": options}

    def read(reply: object) -> Answer:
        return _answer(
            _at(reply, "message", "content"),
            model=_at(reply, "model"),
            finish_reason=_at(reply, "done_reason"),
            input_tokens=_at(reply, "prompt_eval_count"),
            output_tokens=_at(reply, "eval_count"),
        )

    url = check_url(base_url, "/api/chat")
    signature = _signature("ollama", model, temperature, max_tokens, url, instructions)
    return ChatSystem(signature, url, instructions, timeout, None, _bearer, body, read)


def llama_cpp(
    model: str = "default",
    *,
    temperature: float | None = 0.1,
    max_tokens: int = 1024,
    base_url: str = "http://127.0.0.1:8080/v1",
    key_env: str | None = None,
    instructions: str = INSTRUCTIONS,
    timeout: float = TIMEOUT_S,
) -> ChatSystem:
    """Return the model of a llama.cpp server, which takes any name for it."""
    limit = {"max_tokens": max_tokens}
    return _completions(
        "llama_cpp", model, temperature, limit, base_url, key_env, instructions, timeout
    )


def vllm(
    model: str,
    *,
    temperature: float | None = 0.1,
    max_tokens: int = 1024,
    base_url: str = "http://127.0.0.1:8000/v1",
    key_env: str | None = None,
    instructions: str = INSTRUCTIONS,
    timeout: float = TIMEOUT_S,
) -> ChatSystem:
    """Return a model that a vLLM server serves under this name."""
    limit = {"max_tokens": max_tokens}
    return _completions("vllm", model, temperature, limit, base_url, key_env, instructions, timeout)


def openai(
    model: str,
    *,
    temperature: float | None = 0.1,
    max_tokens: int = 1024,
    base_url: str = "https://api.openai.com/v1",
    key_env: str | None = "OPENAI_API_KEY",
    instructions: str = INSTRUCTIONS,
    timeout: float = TIMEOUT_S,
) -> ChatSystem:
    """Return a model of OpenAI, or of a server that speaks Chat Completions as it does.

    Models that reason refuse a temperature; None leaves it out.
    """
    limit = {"max_completion_tokens": max_tokens}
    return _completions(
        "openai", model, temperature, limit, base_url, key_env, instructions, timeout
    )


def anthropic(
    model: str,
    *,
    temperature: float | None = 0.1,
    max_tokens: int = 1024,
    base_url: str = "https://api.anthropic.com/v1",
    key_env: str | None = "ANTHROPIC_API_KEY",
    instructions: str = INSTRUCTIONS,
    timeout: float = TIMEOUT_S,
) -> ChatSystem:
    """Return a model of Anthropic (POST /v1/messages)."""

    def headers(key: str) -> Mapping[str, str]:
        return {"x-api-key": key, "anthropic-version": "2023-06-01"}

    def body(system: str, user: str) -> _Body:
        return {
            "model": model,
            "max_tokens": max_tokens,
            "system": system,
            "messages": [{"role": "user", "content": user}],
            **_some(temperature=temperature),
        }

    def read(reply: object) -> Answer:
        return _answer(
            _joined(_at(reply, "content"), "type", "text"),
            model=_at(reply, "model"),
            finish_reason=_at(reply, "stop_reason"),
            input_tokens=_at(reply, "usage", "input_tokens"),
            output_tokens=_at(reply, "usage", "output_tokens"),
        )

    url = check_url(base_url, "/messages")
    signature = _signature("anthropic", model, temperature, max_tokens, url, instructions)
    key_of(key_env)  # a missing key is known now, not after the first question
    return ChatSystem(signature, url, instructions, timeout, key_env, headers, body, read)


def gemini(
    model: str,
    *,
    temperature: float | None = 0.1,
    max_tokens: int = 1024,
    base_url: str = "https://generativelanguage.googleapis.com/v1beta",
    key_env: str | None = "GEMINI_API_KEY",
    instructions: str = INSTRUCTIONS,
    timeout: float = TIMEOUT_S,
) -> ChatSystem:
    """Return a model of Google Gemini (POST /v1beta/models/MODEL:generateContent)."""

    def headers(key: str) -> Mapping[str, str]:
        return {"x-goog-api-key": key}

    def body(system: str, user: str) -> _Body:
        return {
            "systemInstruction": {"parts": [{"text": system}]},
            "contents": [{"role": "user", "parts": [{"text": user}]}],
            "generationConfig": _some(temperature=temperature, maxOutputTokens=max_tokens),
        }

    def read(reply: object) -> Answer:
        blocked = _at(reply, "promptFeedback", "blockReason")
        if blocked is not None:
            raise ChatFailed(f"the prompt was blocked: {blocked}")
        return _answer(
            _joined(_at(reply, "candidates", 0, "content", "parts"), "thought", None),
            model=_at(reply, "modelVersion"),
            finish_reason=_at(reply, "candidates", 0, "finishReason"),
            input_tokens=_at(reply, "usageMetadata", "promptTokenCount"),
            output_tokens=_at(reply, "usageMetadata", "candidatesTokenCount"),
        )

    url = check_url(base_url, f"/models/{quote(model, safe='')}:generateContent")
    signature = _signature("gemini", model, temperature, max_tokens, url, instructions)
    key_of(key_env)
    return ChatSystem(signature, url, instructions, timeout, key_env, headers, body, read)


def _completions(
    kind: str,
    model: str,
    temperature: float | None,
    limit: Mapping[str, int],
    base_url: str,
    key_env: str | None,
    instructions: str,
    timeout: float,
) -> ChatSystem:
    """Return a model of a server that speaks Chat Completions."""

    def body(system: str, user: str) -> _Body:
        messages = _messages(system, user)
        return {"model": model, "messages": messages, **limit, **_some(temperature=temperature)}

    def read(reply: object) -> Answer:
        refusal = _at(reply, "choices", 0, "message", "refusal")
        text = _at(reply, "choices", 0, "message", "content")
        return _answer(
            refusal if text is None else text,
            model=_at(reply, "model"),
            finish_reason=_at(reply, "choices", 0, "finish_reason"),
            input_tokens=_at(reply, "usage", "prompt_tokens"),
            output_tokens=_at(reply, "usage", "completion_tokens"),
        )

    url = check_url(base_url, "/chat/completions")
    (max_tokens,) = limit.values()
    signature = _signature(kind, model, temperature, max_tokens, url, instructions)
    key_of(key_env)
    return ChatSystem(signature, url, instructions, timeout, key_env, _bearer, body, read)


def _bearer(key: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _messages(system: str, user: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def _signature(
    kind: str, model: str, temperature: float | None, max_tokens: int, url: str, instructions: str
) -> str:
    chance = "default" if temperature is None else f"{temperature:g}"
    told = hashlib.sha256(instructions.encode()).hexdigest()[:8]
    return (
        f"{kind}|model:{model}|temperature:{chance}|max_tokens:{max_tokens}|"
        f"at:{urlsplit(url).netloc}|instructions:{told}"
    )


def _some(**values: object) -> _Body:
    """Return the values that are there."""
    return {name: value for name, value in values.items() if value is not None}


def _at(value: object, *path: str | int) -> object:
    """Return what lies at a path of a JSON value; None where there is nothing."""
    for step in path:
        if isinstance(value, Mapping) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _joined(parts: object, name: str, wanted: object) -> str | None:
    """Return the texts of the parts whose field `name` is `wanted`; None when there are none."""
    listed = parts if isinstance(parts, list) else []
    texts = [_at(part, "text") for part in listed if (_at(part, name) or None) == wanted]
    said = [text for text in texts if isinstance(text, str)]
    return "".join(said) if said else None


def _answer(text: object, **metadata: object) -> Answer:
    if not isinstance(text, str):
        reason = metadata.get("finish_reason")
        raise ChatFailed(f"the reply holds no text (finish reason: {reason or 'none given'})")
    return Answer(text, None, _some(**metadata))
