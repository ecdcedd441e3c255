"""A provider that speaks OpenAI's Chat Completions faithfully and answers from a script.

It refuses what the real one refuses: a wrong key, an unknown model, unknown or misplaced fields.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

KNOWN_FIELDS = {
    "frequency_penalty", "max_completion_tokens", "max_tokens", "messages", "model",
    "n", "presence_penalty", "response_format", "seed", "stop", "store", "temperature",
    "top_p", "user",
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A request that was accepted: its JSON, and its two texts at hand."""

    body: dict[str, Any]
    number: int

    @property
    def system(self) -> str:
        content: str = self.body["messages"][0]["content"]
        return content

    @property
    def user(self) -> str:
        content: str = self.body["messages"][-1]["content"]
        return content


@dataclass(frozen=True)
class Answer:
    """What the script says: a text, and how the model ended."""

    text: str
    finish_reason: str = "stop"
    refusal: str | None = None
    delay_s: float = 0.0


@dataclass(frozen=True)
class Failure:
    """An HTTP error in place of an answer."""

    status: int
    body: str = '{"error":{"message":"no","type":"server_error","param":null,"code":null}}'
    headers: dict[str, str] = field(default_factory=dict)


Said = Answer | Failure | str | dict[str, Any]
Script = Callable[[Asked], Said | Awaitable[Said]]
"""Gets each request; a text or a JSON object stands for an Answer."""


@dataclass
class ScriptedProvider:
    """A running provider. `asked` holds the accepted requests, in their order."""

    script: Script
    key: str | None = None
    models: tuple[str, ...] = ("scripted-1",)
    asked: list[Asked] = field(default_factory=list)
    requests: int = 0
    """All requests, those refused included."""
    in_flight: int = 0
    most_in_flight: int = 0
    base_url: str = ""
    _numbers: Any = field(default_factory=itertools.count)

    def configuration(self, **model: Any) -> dict[str, Any]:
        """The TOML document, as a dict, of a server that uses this provider without a key."""
        provider = {"name": "scripted", "base_url": self.base_url}
        entry = {"name": "scripted", "provider": "scripted", "model": self.models[0], **model}
        return {"providers": [provider], "models": [entry]}

    async def handle(self, request: web.Request) -> web.Response:
        self.requests += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._answer(request)
        finally:
            self.in_flight -= 1

    async def _answer(self, request: web.Request) -> web.Response:
        if self.key is not None and request.headers.get("Authorization") != f"Bearer {self.key}":
            return _refusal(401, "invalid_api_key", "Incorrect API key provided")
        try:
            body = json.loads(await request.read())
        except ValueError:
            return _refusal(400, None, "We could not parse the JSON body of your request.")
        if problem := _problem(body):
            return _refusal(400, None, problem)
        if body["model"] not in self.models:
            return _refusal(404, "model_not_found", "The model does not exist")
        asked = Asked(body, next(self._numbers))
        self.asked.append(asked)
        answer: Any = self.script(asked)
        if asyncio.iscoroutine(answer):
            answer = await answer
        if isinstance(answer, Failure):
            return web.Response(status=answer.status, text=answer.body, headers=answer.headers)
        if isinstance(answer, dict):
            answer = json.dumps(answer)
        if isinstance(answer, str):
            answer = Answer(answer)
        if answer.delay_s:
            await asyncio.sleep(answer.delay_s)
        return web.json_response(completion(asked, answer))


def completion(asked: Asked, answer: Answer) -> dict[str, Any]:
    """The ChatCompletion object of an answer."""
    body = asked.body
    content: str | None = answer.text if answer.refusal is None else None
    message: dict[str, Any] = {"role": "assistant", "refusal": answer.refusal, "annotations": []}
    finish = answer.finish_reason
    choice = {"index": 0, "message": message | {"content": content}, "finish_reason": finish}
    prompt, said = len(asked.system + asked.user) // 4 + 1, len(answer.text) // 4 + 1
    return {
        "id": f"chatcmpl-{asked.number}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": f"{body['model']}-2024-07-18",
        "choices": [choice],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": said,
            "total_tokens": prompt + said,
        },
        "service_tier": "default",
        "system_fingerprint": "fp_scripted",
    }


def _problem(body: Any) -> str | None:
    """What the API would say against a request; None when it is fine."""
    if not isinstance(body, dict):
        return "the body is not an object"
    unknown = set(body) - KNOWN_FIELDS
    if unknown:
        return f"Unrecognized request argument supplied: {', '.join(sorted(unknown))}"
    if problem := _message_problem(body.get("messages")):
        return problem
    if "max_tokens" in body and "max_completion_tokens" in body:
        return "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
    if not 0 <= body.get("temperature", 1) <= 2:
        return "Invalid 'temperature'"
    held = body.get("response_format", {}).get("json_schema")
    if held is not None and not ({"name", "schema"} <= set(held)):
        return "Missing required parameter: 'response_format.json_schema.schema'"
    return None


def _message_problem(messages: Any) -> str | None:
    if not isinstance(messages, list) or not messages:
        return "Missing required parameter: 'messages'."
    for message in messages:
        if message.get("role") not in {"system", "developer", "user", "assistant"}:
            return "Invalid value for 'role'"
        if not isinstance(message.get("content"), str):
            return "Invalid type for 'content'"
    return None


def _refusal(status: int, code: str | None, message: str) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return web.json_response({"error": error}, status=status)


@asynccontextmanager
async def scripted_provider(
    script: Script, key: str | None = None, models: tuple[str, ...] = ("scripted-1",), port: int = 0
) -> AsyncIterator[ScriptedProvider]:
    """A provider for as long as the block runs, on a port of its own unless one is given."""
    provider = ScriptedProvider(script, key, models)
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", provider.handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        port = runner.addresses[0][1]
        provider.base_url = f"http://127.0.0.1:{port}/v1"
        yield provider
    finally:
        await runner.cleanup()
