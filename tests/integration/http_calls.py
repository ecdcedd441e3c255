"""Calls of real servers by HTTP, as a program makes them that knows nothing but HTTP."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.access.test_tls import wait_for_line
from tests.integration.server_process import ServerProcess


@dataclass(frozen=True)
class Reply:
    """What came back; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        """The reason of an error, "" for none."""
        return next((each.get("reason", "") for each in self.json.get("details", [])), "")


def http_address(server: ServerProcess) -> str:
    """Return where a server with --http-listen takes calls by HTTP."""
    return wait_for_line(server, "ready")["http"]


def connect(address: str, tls: ssl.SSLContext | None = None) -> http.client.HTTPConnection:
    if address.startswith("unix:"):
        found = http.client.HTTPConnection("localhost", timeout=60)
        found.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        found.sock.settimeout(60)
        found.sock.connect(address.removeprefix("unix:"))
        return found
    if tls is None:
        return http.client.HTTPConnection(address, timeout=60)
    return http.client.HTTPSConnection(address, timeout=60, context=tls)


def ask(
    address: str,
    path: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "POST",
    tls: ssl.SSLContext | None = None,
) -> Reply:
    """Make one request, with a value as JSON or bytes as they are."""
    raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    given = {} if raw is None else {"Content-Type": "application/json"}
    connection = connect(address, tls)
    try:
        connection.request(method, path, raw, {**given, **(headers or {})})
        found = connection.getresponse()
        names = {name.lower(): value for name, value in found.getheaders()}
        return Reply(found.status, names, found.read())
    finally:
        connection.close()


def client_context(ca: Path, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    """Return what a client trusts, and shows."""
    context = ssl.create_default_context(cafile=str(ca))
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return context
