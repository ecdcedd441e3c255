"""A provider that answers every request with the same bytes, whatever they are."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PATHS = {"openai": "/v1", "anthropic": "/anthropic/v1", "gemini": "/v1beta"}


@dataclass
class RawProvider:
    """A running provider: the bodies of the requests that came are `asked`, and their `paths`."""

    url: str = ""
    status: int = 200
    body: bytes = b""
    asked: list[Any] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def says(self, body: object, status: int = 200) -> None:
        """Answer so from now on, and forget what was asked."""
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.status = status
        self.asked = []

    def config(self, folder: Path, lines: str, **more: str) -> str:
        """Write a configuration with a model for each dialect, named as it; return its path.

        `lines` are those of each model, `more` further models of the dialect openai by name.
        """
        whole = ""
        for dialect, path in PATHS.items():
            whole += (
                f'[[providers]]\nname = "{dialect}"\ndialect = "{dialect}"\n'
                f'base_url = "{self.url}{path}"\n'
            )
            whole += _model(dialect, dialect, lines)
        whole += "".join(_model(name, "openai", own) for name, own in more.items())
        file = folder / "llm.toml"
        file.write_text('currency = "USD"\n' + whole)
        return str(file)


def _model(name: str, provider: str, lines: str) -> str:
    return f'[[models]]\nname = "{name}"\nprovider = "{provider}"\nmodel = "m"\n{lines}\n'


@contextmanager
def json_server(answer: Callable[[str, Message, Any], tuple[int, bytes]]) -> Iterator[str]:
    """Yield the address of a server that answers a path, headers and JSON from a function."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, body = answer(self.path, self.headers, asked)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def raw_provider() -> Iterator[RawProvider]:
    """Yield the provider on a port of its own, for as long as the block runs."""
    running = RawProvider()

    def answer(path: str, _: Message, asked: Any) -> tuple[int, bytes]:
        running.asked.append(asked)
        running.paths.append(path)
        return running.status, running.body

    with json_server(answer) as running.url:
        yield running


def openai(content: object = "YES", finish: object = "stop", **more: Any) -> dict[str, Any]:
    """A reply of the dialect openai; `more` are fields of its top, None leaves one out."""
    message = {"role": "assistant", "content": content}
    whole = {
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10},
        **more,
    }
    return {key: value for key, value in whole.items() if value is not None}
