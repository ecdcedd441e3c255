"""One request to a chat server: a JSON object there, a JSON value back."""

from __future__ import annotations

import http
import http.client
import ipaddress
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

MAX_REPLY_BYTES = 8 << 20
_SHOWN = 300
"""Characters of an error's text that are shown."""


class ChatFailed(Exception):
    """A chat server gave no answer. The message says what happened, and holds no key."""


def check_url(base_url: str, path: str) -> str:
    """Return the address of a call. Raises ValueError unless it is https, or on this machine."""
    parts = urlsplit(base_url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(
            f"base_url {base_url!r}: write it as https://HOST or http://127.0.0.1:PORT"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("base_url: holds more than a host and a path; keys go into key_env")
    if parts.scheme == "http" and not _is_local(parts.hostname):
        raise ValueError(f"base_url {base_url!r}: use https to reach another machine")
    return base_url.rstrip("/") + path


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def key_of(variable: str | None) -> str:
    """Return the key in an environment variable, "" for no variable. Raises ChatFailed."""
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ChatFailed(f"there is no key: set the environment variable {variable}")
    if not key.isascii() or not key.isprintable():
        raise ChatFailed(f"the environment variable {variable} holds what is no key; set it anew")
    return key


def post(
    url: str, headers: Mapping[str, str], body: object, timeout: float, *, secret: str = ""
) -> object:
    """Return the JSON value that a server replies with. Raises ChatFailed.

    `secret` is what no message may hold.
    """
    ends = time.monotonic() + timeout
    sent = {"Content-Type": "application/json", "Accept": "application/json", **headers}
    try:
        with _connected(url, ends, timeout) as connection:
            connection.request("POST", urlsplit(url).path, json.dumps(body).encode(), sent)
            with connection.getresponse() as reply:
                raw = _read(reply)
            if time.monotonic() >= ends:  # a reply that was cut may look like a whole one
                raise TimeoutError
    except (http.client.HTTPException, OSError) as error:
        if time.monotonic() >= ends or isinstance(error, TimeoutError):
            raise ChatFailed(f"no answer within {timeout:g} s; allow more with timeout=") from None
        said = _hide(f"{type(error).__name__}: {error}", secret)
        raise ChatFailed(f"{_host(url)} can't be reached, or broke off: {said}") from None
    if reply.status != http.HTTPStatus.OK:
        said = _hide(_explain(reply.status, raw), secret)
        raise ChatFailed(f"{_host(url)} answered with status {reply.status}: {said}")
    try:
        value: object = json.loads(raw)
    except (ValueError, RecursionError):
        raise ChatFailed("the reply is not JSON; is base_url that of a chat server?") from None
    return value


@contextmanager
def _connected(url: str, ends: float, timeout: float) -> Iterator[http.client.HTTPConnection]:
    """Yield a connection that is cut at the end, however busy the server keeps it until then."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout)
    connection.connect()
    cut = threading.Timer(max(0.0, ends - time.monotonic()), _cut, [connection.sock])
    cut.daemon = True
    cut.start()
    try:
        yield connection
    finally:
        cut.cancel()
        connection.close()


def _cut(sock: socket.socket) -> None:
    with suppress(OSError):
        # Past TLS, which another thread is reading, to the socket below it.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _read(reply: http.client.HTTPResponse) -> bytes:
    """Return the body of a reply. Raises ChatFailed when it is too large."""
    raw = reply.read(MAX_REPLY_BYTES + 1)
    if len(raw) > MAX_REPLY_BYTES:
        raise ChatFailed(f"the reply is larger than {MAX_REPLY_BYTES >> 20} MiB")
    if reply.length:
        raise http.client.IncompleteRead(b"", reply.length)
    return raw


def _explain(status: int, raw: bytes) -> str:
    """Return what an error status says: the message in its body, where there is one."""
    if http.HTTPStatus.MULTIPLE_CHOICES <= status < http.HTTPStatus.BAD_REQUEST:
        return "it redirects, which is not followed; correct base_url"
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return "no explanation"
    said = value.get("error") if isinstance(value, dict) else None
    if isinstance(said, dict):
        said = said.get("message")
    return " ".join(said.split())[:_SHOWN] if isinstance(said, str) else "no explanation"


def _host(url: str) -> str:
    return urlsplit(url).netloc


def _hide(text: str, secret: str) -> str:
    return text.replace(secret, "***") if secret else text
