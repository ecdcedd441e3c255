"""A model hub of this machine: a real HTTP server with Hugging Face's routes and headers.

Small files come from the hub itself, large ones from another port, which stands for the CDN. What
goes wrong is set by path in `faults`; every request is kept in `requests`.
"""

from __future__ import annotations

import hashlib
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "org/Tiny"
BRANCH = "main"


@dataclass
class Request:
    """What a server was asked."""

    method: str
    server: str
    path: str
    token: str | None


@dataclass
class FakeHub:
    """The files of one model at one commit, and the servers that hand them out."""

    files: dict[str, bytes]
    url: str = ""
    cdn: str = ""
    large: set[str] = field(default_factory=lambda: {"onnx/model.onnx", "tokenizer.json"})
    faults: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    token: str | None = None
    moved_to: str | None = None
    requests: list[Request] = field(default_factory=list)

    def asked(self, server: str = "hub") -> list[str]:
        """Return the paths inside the model that a server was asked for, in order, each once."""
        found = (
            request.path.partition("?")[0].rpartition(f"/{COMMIT}/")[2]
            for request in self.requests
            if request.server == server and f"/{COMMIT}/" in request.path
        )
        return list(dict.fromkeys(found))


def folder_files(folder: Path) -> dict[str, bytes]:
    """Return what is in a folder, by path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@contextmanager
def running_hub(files: dict[str, bytes], tls: ssl.SSLContext | None = None) -> Iterator[FakeHub]:
    """Yield a hub that serves these files until the end."""
    hub = FakeHub(files)
    servers = [_Server(hub, name, tls) for name in ("hub", "cdn")]
    hub.url, hub.cdn = (server.url for server in servers)
    for server in servers:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield hub
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, hub: FakeHub, name: str, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hub = hub
        self.name = name
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        scheme, host = ("http", "127.0.0.1") if tls is None else ("https", "localhost")
        self.url = f"{scheme}://{host}:{self.server_address[1]}"

    def handle_error(self, *_: object) -> None:
        """Say nothing: clients of tests break connections off."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub = self.server.hub
        token = self.headers.get("Authorization")
        hub.requests.append(Request(self.command, self.server.name, self.path, token))
        if self.server.name == "cdn":
            self._send(self.path.partition("?")[0].partition(f"/{COMMIT}/")[2])
            return
        repository, _, rest = self.path.lstrip("/").partition("/resolve/")
        revision, _, path = rest.partition("/")
        fault = hub.faults.get(path, "")
        if hub.token is not None and token != f"Bearer {hub.token}":
            self._refuse(401)
        elif fault.isdecimal():
            self._refuse(int(fault))
        elif repository != REPOSITORY:
            moved = f"{hub.moved_to}/resolve/{rest}"
            self._refuse(404, "RepoNotFound") if hub.moved_to is None else self._send_on(moved)
        elif unquote(revision) not in {BRANCH, COMMIT}:
            self._refuse(404, "RevisionNotFound")
        elif path not in hub.files:
            self._refuse(404, "EntryNotFound")
        elif fault.startswith("to "):
            self._send_on(fault.removeprefix("to "))
        elif fault == "loop":
            self._send_on(self.path)
        elif path in hub.large:
            self._send_on(f"{hub.cdn}/{COMMIT}/{path}?signature=secret", self._linked(path))
        else:
            self._send(path)

    def _linked(self, path: str) -> dict[str, str]:
        raw = self.server.hub.files[path]
        sha256 = hashlib.sha256(raw).hexdigest()
        return {"X-Linked-Size": str(len(raw)), "X-Linked-Etag": f'"{sha256}"'}

    def _send(self, path: str) -> None:
        hub = self.server.hub
        raw, fault = hub.files[path], hub.faults.get(path, "")
        self.send_response(200)
        self._common()
        size = int(fault.removeprefix("says ")) if fault.startswith("says ") else len(raw)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault.startswith("cut "):
            raw = raw[: int(fault.removeprefix("cut "))]
        if fault == "flip":
            raw = raw[:-1] + bytes([raw[-1] ^ 1])
        self.wfile.write(raw)

    def _send_on(self, location: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(302)
        self.send_header("Location", location)
        self._common()
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _refuse(self, status: int, code: str = "") -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _common(self) -> None:
        if self.server.name == "hub":
            always = {"X-Repo-Commit": COMMIT, "ETag": f'"{"0" * 40}"'}
            for name, value in {**always, **self.server.hub.headers}.items():
                self.send_header(name, value)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
