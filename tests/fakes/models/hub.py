"""A model hub of this machine: a real HTTP server with Hugging Face's routes and headers.

Large files are of LFS. What goes wrong is set by path in `faults`; every request is kept.
"""

from __future__ import annotations

import hashlib
import json
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

    path: str
    token: str | None


@dataclass
class FakeHub:
    """The files of one model at one commit, and the server that hands them out."""

    files: dict[str, bytes]
    url: str = ""
    large: set[str] = field(default_factory=lambda: {"onnx/model.onnx", "tokenizer.json"})
    faults: dict[str, str] = field(default_factory=dict)
    token: str | None = None
    requests: list[Request] = field(default_factory=list)

    def asked(self) -> list[str]:
        """Return the paths inside the model that were asked for, in order, each once."""
        found = (
            request.path.rpartition(f"/{COMMIT}/")[2]
            for request in self.requests
            if f"/resolve/{COMMIT}/" in request.path
        )
        return list(dict.fromkeys(found))

    def described(self) -> dict[str, object]:
        """Return what the hub says of the model."""
        siblings = [{"rfilename": path} for path in self.files]
        return {"id": REPOSITORY, "sha": COMMIT, "siblings": siblings}

    def listed(self) -> list[dict[str, object]]:
        """Return what the hub says of the files of the model."""
        found = []
        for path, raw in self.files.items():
            blob = hashlib.sha1(b"blob %d\0%b" % (len(raw), raw), usedforsecurity=False).hexdigest()
            lfs = {"size": len(raw), "oid": hashlib.sha256(raw).hexdigest(), "pointerSize": 1}
            file = {"type": "file", "path": path, "size": len(raw), "oid": blob}
            found.append({**file, "lfs": lfs} if path in self.large else file)
        return found


def folder_files(folder: Path) -> dict[str, bytes]:
    """Return what is in a folder, by path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@contextmanager
def running_hub(files: dict[str, bytes]) -> Iterator[FakeHub]:
    """Yield a hub that serves these files until the end."""
    hub = FakeHub(files)
    server = _Server(hub)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, hub: FakeHub) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hub = hub

    def handle_error(self, *_: object) -> None:
        """Say nothing: clients of tests break connections off."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub = self.server.hub
        token = self.headers.get("Authorization")
        hub.requests.append(Request(self.path, token))
        path = self.path.partition("?")[0].lstrip("/")
        if hub.token is not None and token != f"Bearer {hub.token}":
            self._refuse(401)
        elif path.startswith("api/"):
            is_list = "/tree/" in path
            asked = path.removeprefix("api/models/").replace("/tree/", "/revision/")
            repository, _, revision = asked.partition("/revision/")
            if repository != REPOSITORY:
                self._refuse(404, "RepoNotFound")
            elif unquote(revision) not in {BRANCH, COMMIT}:
                self._refuse(404, "RevisionNotFound")
            else:
                said = hub.listed() if is_list else hub.described()
                self._send(json.dumps(said).encode(), "")
        else:
            path = path.removeprefix(f"{REPOSITORY}/resolve/{COMMIT}/")
            fault = hub.faults.get(path, "")
            if fault.isdecimal():
                self._refuse(int(fault))
            else:
                self._send(hub.files[path], fault)

    def _send(self, raw: bytes, fault: str) -> None:
        self.send_response(200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{"0" * 40}"')
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault.startswith("cut "):
            raw = raw[: int(fault.removeprefix("cut "))]
        if fault == "flip":
            raw = raw[:-1] + bytes([raw[-1] ^ 1])
        self.wfile.write(raw)

    def _refuse(self, status: int, code: str = "") -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""
