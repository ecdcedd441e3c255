"""One scripted provider that speaks every dialect: each API's request in, its reply out.

It refuses what the real ones refuse (a wrong key or version, unknown fields, a model it does not
know). The script sees the same `Heard`, whatever the dialect.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

from judged_server.llm.config import Structured

from tests.fakes.providers.raw_provider import json_server
from tests.fakes.providers.scripted_provider import Answer, Asked, completion
from tests.fakes.providers.scripted_provider import _problem as openai_problem

KEY = "key-canary-0123456789"
Json = dict[str, Any]


class Refused(Exception):
    """The request is not one that the API takes: a status, and what it would say."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Heard:
    """A request that was accepted, in the words of no dialect."""

    dialect: str
    means: Structured
    model: str
    system: str
    user: str
    schema: Json | None
    max_tokens: int | None
    temperature: float | None
    seed: int | None
    body: Json


@dataclass(frozen=True)
class Shape:
    """How one API is spelt: how to hear a request and to say a reply, and where.

    `path` is that of a base_url, `end` that of a request in it, `key` the header of the key.
    """

    path: str
    end: str
    key: tuple[str, str]
    hear: Callable[[str, Json], Heard]
    say: Callable[[Heard, str], Json]


def _only(body: Mapping[str, Any], known: set[str], where: str) -> None:
    if unknown := set(body) - known:
        raise Refused(400, f"{where}: {', '.join(sorted(unknown))}: Extra inputs are not permitted")


def _hear_openai(_: str, body: Json) -> Heard:
    if problem := openai_problem(body):
        raise Refused(400, problem)
    asked = Asked(body, 0)
    means, schema = Structured.NONE, None
    if "response_format" in body:
        means = Structured(body["response_format"]["type"])
        schema = body["response_format"].get("json_schema", {}).get("schema")
    longest = body.get("max_tokens", body.get("max_completion_tokens"))
    return Heard(
        "openai", means, body["model"], asked.system, asked.user, schema, longest,
        body.get("temperature"), body.get("seed"), body,
    )  # fmt: skip


def _say_openai(heard: Heard, text: str) -> Json:
    return completion(Asked(heard.body, 0), Answer(text))


def _hear_anthropic(_: str, body: Json) -> Heard:
    known = {"model", "max_tokens", "system", "messages", "temperature", "output_config"}
    _only(body, known, "body")
    [message] = body["messages"]
    if message["role"] != "user" or not isinstance(body["max_tokens"], int):
        raise Refused(400, "messages: Unexpected role, or max_tokens: Field required")
    means, schema = Structured.NONE, None
    if "output_config" in body:
        held = body["output_config"]["format"]
        means, schema = Structured(held["type"]), held["schema"]
        if "maximum" in json.dumps(schema):
            raise Refused(400, "output_config.format.schema: 'maximum' is not supported")
    return Heard(
        "anthropic", means, body["model"], body["system"], message["content"], schema,
        body["max_tokens"], body.get("temperature"), None, body,
    )  # fmt: skip


def _say_anthropic(heard: Heard, text: str) -> Json:
    block: Json = {"type": "text", "text": text, "citations": None}
    return {
        "id": "msg_013Zva2CMHLNnXjNJJKqJ2EF",
        "type": "message",
        "role": "assistant",
        "model": heard.model,
        "content": [block],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": {"input_tokens": len(heard.user) // 4, "output_tokens": len(text) // 4 + 1},
    }


def _hear_gemini(path: str, body: Json) -> Heard:
    _only(body, {"systemInstruction", "contents", "generationConfig"}, "body")
    settings = body["generationConfig"]
    _only(
        settings,
        {"temperature", "maxOutputTokens", "seed", "responseMimeType", "responseJsonSchema"},
        "generation_config",
    )
    means, schema = Structured.NONE, None
    if settings.get("responseMimeType") == "application/json":
        schema = settings.get("responseJsonSchema")
        means = Structured.JSON_OBJECT if schema is None else Structured.JSON_SCHEMA
    [system], [user] = body["systemInstruction"]["parts"], body["contents"][0]["parts"]
    return Heard(
        "gemini", means, path.rpartition("/")[2].partition(":")[0], system["text"], user["text"],
        schema, settings["maxOutputTokens"], settings.get("temperature"), settings.get("seed"),
        body,
    )  # fmt: skip


def _say_gemini(heard: Heard, text: str) -> Json:
    part: Json = {"text": text}
    thought = {"text": "let me think", "thought": True}
    content = {"parts": [thought, part], "role": "model"}
    n_in, n_out = len(heard.user) // 4, len(text) // 4 + 1
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": n_in,
            "candidatesTokenCount": n_out,
            "thoughtsTokenCount": 3,
            "totalTokenCount": n_in + n_out + 3,
        },
        "modelVersion": f"{heard.model}-001",
        "responseId": "r1",
    }


SHAPES = {
    "openai": Shape(
        "/v1",
        "/chat/completions",
        ("Authorization", f"Bearer {KEY}"),
        _hear_openai,
        _say_openai,
    ),
    "anthropic": Shape(
        "/anthropic/v1", "/messages", ("x-api-key", KEY), _hear_anthropic, _say_anthropic
    ),
    "gemini": Shape(
        "/v1beta", ":generateContent", ("x-goog-api-key", KEY), _hear_gemini, _say_gemini
    ),
}
"""By the names of the configuration."""


@dataclass
class DialectServer:
    """A running provider. `heard` holds what it accepted, `refused` what it said to the rest."""

    script: Callable[[Heard], str]
    url: str = ""
    heard: list[Heard] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def base_url(self, dialect: str) -> str:
        return self.url + SHAPES[dialect].path

    def answer(self, path: str, headers: Message, asked: Json) -> tuple[int, bytes]:
        try:
            shape = shape_at(path, headers)
            heard = shape.hear(path, asked)
        except Refused as refusal:
            self.refused.append(str(refusal))
            said = {"error": {"message": str(refusal), "type": "invalid"}}
            return refusal.status, json.dumps(said).encode()
        self.heard.append(heard)
        return 200, json.dumps(shape.say(heard, self.script(heard))).encode()


def shape_at(path: str, headers: Message) -> Shape:
    """Return how the API at a path is spelt, for whoever has its key."""
    dialect = next((name for name, each in SHAPES.items() if path.endswith(each.end)), "")
    shape = SHAPES.get(dialect)
    if shape is None or not path.startswith(f"{shape.path}/"):
        raise Refused(404, f"there is nothing at {path}")
    if headers.get(shape.key[0]) != shape.key[1]:
        raise Refused(401, "the key is not valid")
    if dialect == "anthropic" and headers.get("anthropic-version") != "2023-06-01":
        raise Refused(400, "anthropic-version: header is required")
    return shape


@contextmanager
def dialect_server(script: Callable[[Heard], str]) -> Iterator[DialectServer]:
    """Yield the provider on a port of its own, for as long as the block runs."""
    running = DialectServer(script)
    with json_server(running.answer) as running.url:
        yield running
