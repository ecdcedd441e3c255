"""Provider with a chosen fault, asked by all sides of `benchmarks.faulty_provider`.

Speaks Chat Completions over HTTP, answers after 200 ms, and fills any schema or tool that the
request has. Faults depend on the number of the request or the time since the first one, so that
every side gets the same ones:

    well      answers everything
    502       every fifth request is answered 502 at once
    503-1s    every request of the first second is answered 503 at once; 503-10s: of the first ten
    429       accepts 10 requests a second, answers the others 429 with Retry-After: 1
    prose     every tenth reply is prose instead of JSON
    cut       every tenth reply ends in the middle of its JSON
    hang      every twentieth request is never answered

    python -m benchmarks.faulty_provider.unwell_provider FAULT

Prints its port. GET /requests returns the number of requests.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from typing import Any

from aiohttp import web

DELAY_S = 0.2
A_SECOND = 10
FAULTS = ("well", "502", "503-1s", "503-10s", "429", "prose", "cut", "hang")
_PROSE = "Well, I would say that the two of them are about the same thing."


class Provider:
    """One provider with one fault; `requests` counts requests."""

    def __init__(self, fault: str) -> None:
        self._fault = fault
        self._began: float | None = None
        self._taken: deque[float] = deque()
        self.requests = 0

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a request for a completion, or fail."""
        asked = await request.json()
        now = time.monotonic()
        self._began = self._began or now
        self.requests += 1
        number = self.requests
        if self._fault == "502" and number % 5 == 0:
            return web.Response(status=502, text="<html>bad gateway</html>")
        if self._fault.startswith("503") and now - self._began < (
            10 if "10s" in self._fault else 1
        ):
            return web.Response(status=503, text="<html>down</html>")
        if self._fault == "429" and not self._takes(now):
            return web.json_response(
                {"error": {"message": "slow down", "type": "rate_limit", "code": None}},
                status=429,
                headers={"Retry-After": "1"},
            )
        if self._fault == "hang" and number % 20 == 0:
            await asyncio.Event().wait()
        await asyncio.sleep(DELAY_S)
        return web.json_response(self._completion(asked, number))

    async def tell(self, _: web.Request) -> web.Response:
        """Return the number of requests as JSON."""
        return web.json_response({"requests": self.requests})

    def _takes(self, now: float) -> bool:
        while self._taken and now - self._taken[0] >= 1.0:
            self._taken.popleft()
        if len(self._taken) >= A_SECOND:
            return False
        self._taken.append(now)
        return True

    def _completion(self, asked: dict[str, Any], number: int) -> dict[str, Any]:
        text = json.dumps(_filled(_schema(asked)))
        tool = "tools" in asked
        if number % 10 == 0 and self._fault == "prose":
            text, tool = _PROSE, False
        if number % 10 == 0 and self._fault == "cut":
            text = text[: len(text) // 2]
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if tool:
            call = {"name": asked["tools"][0]["function"]["name"], "arguments": text}
            message["content"] = None
            message["tool_calls"] = [{"id": "c1", "type": "function", "function": call}]
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": asked["model"],
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "finish_reason": "tool_calls" if tool else "stop",
                    "logprobs": None,
                }
            ],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
        }


def _schema(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a request, from its format, tool or prompt."""
    if asked.get("tools"):
        schema: dict[str, Any] = asked["tools"][0]["function"]["parameters"]
        return schema
    by_schema = asked.get("response_format", {}).get("json_schema", {}).get("schema")
    return by_schema or _schema_in(str(asked["messages"][-1]["content"]))


def _schema_in(prompt: str) -> dict[str, Any]:
    """Return the schema in a prompt, in ragas' form."""
    decoder = json.JSONDecoder()
    place = prompt.find("{")
    while place >= 0:
        try:
            found, _ = decoder.raw_decode(prompt, place)
        except ValueError:
            found = None
        if isinstance(found, dict) and "properties" in found:
            return found
        place = prompt.find("{", place + 1)
    return {"properties": {"verdict": {"type": "string"}}}


def _filled(schema: dict[str, Any]) -> object:
    """Return a value that fits a schema: the first of an enum, 1 for a number."""
    if "enum" in schema:
        return schema["enum"][0]
    if "properties" in schema:
        return {name: _filled(inner) for name, inner in schema["properties"].items()}
    kind = schema.get("type")
    return {"number": 1, "integer": 1, "boolean": True, "array": [], "null": None}.get(
        str(kind), "so it is"
    )


async def serve(fault: str) -> None:
    """Listen, print the port, answer until standard input ends."""
    provider = Provider(fault)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", provider.answer)
    app.router.add_get("/requests", provider.tell)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
