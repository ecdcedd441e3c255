"""An HTTP server that notes what it is asked and answers from a function, in any dialect."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(frozen=True)
class Noted:
    """A request: where it went, and what it carried."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class RecordingServer:
    """A running server; `answer` gives the status and the JSON of each reply."""

    answer: Callable[[Noted], tuple[int, Any]]
    url: str = ""
    noted: list[Noted] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        noted = Noted(request.path, dict(request.headers), json.loads(await request.read()))
        self.noted.append(noted)
        status, body = self.answer(noted)
        return web.json_response(body, status=status)


@asynccontextmanager
async def recording_http(
    answer: Callable[[Noted], tuple[int, Any]],
) -> AsyncIterator[RecordingServer]:
    """A server on a port of its own, for as long as the block runs."""
    server = RecordingServer(answer)
    app = web.Application()
    app.router.add_post("/{path:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        await runner.cleanup()
