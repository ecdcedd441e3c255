"""Chat servers of three dialects in this process: Ollama, Anthropic Messages, Gemini.

Each refuses what the real one refuses (a wrong key or version, unknown fields, missing ones) and
answers in its shape with "KIND heard: " and the user's text.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "key-canary-123"
Reply = tuple[int, dict[str, Any]]


@dataclass
class ChatServers:
    """All three, under one address. `bodies` are the requests that were accepted."""

    url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def chat_servers() -> Iterator[ChatServers]:
    """The servers on a port of their own, for as long as the block runs."""
    running = ChatServers("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, reply = _answer(self.path, self.headers, body)
            if status == 200:
                running.bodies.append(body)
            raw = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    running.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(path: str, headers: Any, body: dict[str, Any]) -> Reply:
    if path == "/api/chat":
        return _ollama(body)
    if path == "/v1/messages":
        return _anthropic(headers, body)
    if path.startswith("/v1beta/models/") and path.endswith(":generateContent"):
        return _gemini(path[len("/v1beta/models/") : -len(":generateContent")], headers, body)
    return 404, {"error": "not found"}


def _unknown(body: dict[str, Any], known: set[str]) -> str:
    return ", ".join(sorted(set(body) - known))


def _ollama(body: dict[str, Any]) -> Reply:
    known = {"model", "messages", "stream", "options", "format", "keep_alive", "tools", "think"}
    if _unknown(body, known) or body["stream"] is not False:
        return 400, {"error": "invalid request"}
    if _unknown(body["options"], {"temperature", "num_predict", "seed", "num_ctx", "top_p"}):
        return 400, {"error": "invalid option"}
    if body["model"] != "phi3:mini":
        return 404, {"error": f'model "{body["model"]}" not found, try pulling it first'}
    said = f"ollama heard: {body['messages'][-1]['content']}"
    return 200, {
        "model": body["model"],
        "created_at": "2026-01-01T00:00:00.000000Z",
        "message": {"role": "assistant", "content": said},
        "done": True,
        "done_reason": "stop",
        "total_duration": 5191566416,
        "prompt_eval_count": 26,
        "eval_count": 298,
    }


def _anthropic(headers: Any, body: dict[str, Any]) -> Reply:
    def refusal(status: int, kind: str, message: str) -> Reply:
        return status, {"type": "error", "error": {"type": kind, "message": message}}

    if headers.get("x-api-key") != KEY:
        said = f"invalid x-api-key {headers.get('x-api-key')}"
        return refusal(401, "authentication_error", said)
    if headers.get("anthropic-version") != "2023-06-01":
        return refusal(400, "invalid_request_error", "anthropic-version: header is required")
    known = {"model", "max_tokens", "system", "messages", "temperature", "tools", "tool_choice"}
    if unknown := _unknown(body, known):
        return refusal(400, "invalid_request_error", f"{unknown}: Extra inputs are not permitted")
    if any(message["role"] not in {"user", "assistant"} for message in body["messages"]):
        return refusal(400, "invalid_request_error", "messages: Unexpected role")
    if not isinstance(body.get("max_tokens"), int):
        return refusal(400, "invalid_request_error", "max_tokens: Field required")
    said = f"anthropic heard: {body['messages'][-1]['content']}"
    return 200, {
        "id": "msg_013Zva2CMHLNnXjNJJKqJ2EF",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [{"type": "text", "text": said[:9]}, {"type": "text", "text": said[9:]}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 20},
    }


def _gemini(model: str, headers: Any, body: dict[str, Any]) -> Reply:
    def refusal(status: int, name: str, message: str) -> Reply:
        return status, {"error": {"code": status, "message": message, "status": name}}

    if headers.get("x-goog-api-key") != KEY:
        return refusal(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.")
    if unknown := _unknown(body, {"systemInstruction", "contents", "generationConfig"}):
        return refusal(400, "INVALID_ARGUMENT", f'Unknown name "{unknown}": Cannot find field.')
    if unknown := _unknown(body["generationConfig"], {"temperature", "maxOutputTokens"}):
        return refusal(400, "INVALID_ARGUMENT", f'Unknown name "{unknown}": Cannot find field.')
    asked = body["contents"][-1]["parts"][0]["text"]
    if asked == "block me":
        return 200, {"promptFeedback": {"blockReason": "SAFETY"}, "modelVersion": model}
    parts = [{"text": "let me think", "thought": True}, {"text": f"gemini heard: {asked}"}]
    if asked == "say nothing":
        parts = []
    return 200, {
        "candidates": [
            {"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {
            "promptTokenCount": 3,
            "candidatesTokenCount": 4,
            "totalTokenCount": 7,
        },
        "modelVersion": model,
    }
