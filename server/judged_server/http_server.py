"""What the HTTP ports share: limits, health, reply headers, errors and logging."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import orjson
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from judged_server.address import Address, AddressError, socket_mode
from judged_server.errors import printable
from judged_server.telemetry import Logger

LAST_REPLIES_S = 1.5
"""How long, at the end of a drain, replies may take to be written, and then again to be ended."""
_HEADER_BYTES = 8190
_CODES = {401: 16, 403: 7, 404: 5, 405: 12, 500: 13}
"""Codes of google.rpc.Code by HTTP status; others become INVALID_ARGUMENT, 3."""
_CONTINUE = "100-continue"
_KEPT = frozenset({"Allow", "WWW-Authenticate"})
_SAFE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


_log = Logger("http")


def failure(status: int, message: str) -> web.Response:
    """Return an error response: a google.rpc.Status as JSON."""
    body = {"code": _CODES.get(status, 3), "message": printable(message), "details": []}
    headers = {**_SAFE, "Server": "judged"}  # else aiohttp names itself and its version
    response = web.Response(status=status, body=orjson.dumps(body), headers=headers)
    response.content_type = "application/json"
    return response


class _Connection(web.RequestHandler):
    """aiohttp's connection handler, with errors for malformed requests as `failure` writes them."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        del message  # aiohttp quotes tokens and texts in it
        if request.writer.output_size:
            raise ConnectionError("the reply has begun")
        _log.log("debug", "no HTTP", error=type(exc).__name__)  # anybody can send such
        problem = f"this is no request of HTTP/1.1: {type(exc).__name__}"
        if isinstance(exc, LineTooLong):
            problem = f"the first line and each header may have {_HEADER_BYTES} bytes"
        response = failure(status, problem)
        response.force_close()
        return response


class _Server(web.Server):
    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


class _Runner(web.AppRunner):
    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        server.__class__ = _Server
        server.request_handler = partial(_guarded, server.request_handler)
        return server


async def _guarded(
    handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], request: web.BaseRequest
) -> web.StreamResponse:
    """Run a request's handler; turn what it raises into an error response."""
    if request.headers.get("Expect", _CONTINUE).lower() != _CONTINUE:
        return failure(HTTPStatus.EXPECTATION_FAILED, f"expect: takes {_CONTINUE} alone")
    try:
        return await handler(request)
    except web.HTTPException as error:
        response = failure(error.status, error.text or error.reason)
        response.headers.update(
            {name: error.headers[name] for name in _KEPT & error.headers.keys()}
        )
        return response
    except ConnectionError:
        raise  # the caller has disconnected
    except Exception as error:
        bug = _log.bug(error)
        if request.writer.output_size:
            raise  # the reply has begun; aiohttp closes the connection
        return failure(HTTPStatus.INTERNAL_SERVER_ERROR, bug.message)


class Shown(Protocol):
    """The server's certificate, which may be replaced while it runs."""

    now: Any

    def context(self, client_ca: Path | None) -> ssl.SSLContext:
        """Return a TLS context with it. Raises OSError while it is being replaced."""


class Port:
    """An HTTP port: an application, plus /healthz and /readyz. Used on one event loop."""

    def __init__(
        self,
        setting: str,
        address: Address,
        application: web.Application,
        is_ready: Callable[[], bool],
        certificates: Shown | None,
        client_ca: Path | None,
        permissions: str = "0600",
        **options: Any,  # noqa: ANN401 - aiohttp's
    ) -> None:
        """Serve `application`; `setting` names the address in errors. TLS needs `certificates`.

        `permissions` are those of a Unix socket.
        """
        self.address = address
        self._certificates = certificates
        self._client_ca = client_ca
        self._shown: object = None
        self._setting = setting
        self._permissions = permissions
        self._is_ready = is_ready
        self._socket: socket.socket | None = None
        self._site: web.SockSite | None = None
        application.router.add_get("/healthz", self._get_health, allow_head=False)
        application.router.add_get("/readyz", self._get_ready, allow_head=False)
        application.on_response_prepare.append(_make_safe)
        self._runner = _Runner(
            application,
            access_log=None,
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
            shutdown_timeout=LAST_REPLIES_S,
            **options,
        )

    async def open(self) -> None:
        """Listen. Raises AddressError if it can't."""
        self._socket = _bound(self._setting, self.address, self._permissions)
        await self._runner.setup()
        await self.listen()
        if self.address.path is None:
            self.address = Address(self.address.host, self._socket.getsockname()[1])

    async def listen(self) -> None:
        """Accept connections with the current certificate; stop the previous listener, if any.

        Open connections go on. Raises OSError while the certificate is being replaced.
        """
        context = None
        if (certificates := self._certificates) is not None:
            shown = certificates.now
            context = await asyncio.to_thread(certificates.context, self._client_ca)
            self._shown = shown
        if self._socket is not None:
            before = self._site
            self._site = web.SockSite(self._runner, self._socket.dup(), ssl_context=context)
            await self._site.start()
            if before is not None:
                await before.stop()

    async def refresh(self) -> None:
        """Use the current certificate for new connections if it has changed.

        Open connections keep the old one. An unusable certificate changes nothing.
        """
        if self._certificates is not None and self._certificates.now is not self._shown:
            with suppress(OSError):  # it is being replaced; the next refresh tries again
                await self.listen()

    async def close(self) -> None:
        """Write the replies of calls that have ended, then stop listening."""
        await self._runner.cleanup()
        if self._socket is not None:
            self._socket.close()

    async def _get_health(self, _: web.Request) -> web.Response:
        """Answer "ok": the event loop runs."""
        return web.Response(text="ok\n")

    async def _get_ready(self, _: web.Request) -> web.Response:
        if self._is_ready():
            return web.Response(text="ready\n")
        return web.Response(text="not ready\n", status=HTTPStatus.SERVICE_UNAVAILABLE)


def _bound(setting: str, address: Address, mode: str) -> socket.socket:
    """Return a socket that is bound to the address. Raises AddressError."""
    try:
        if address.path is None:
            family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
            return socket.create_server((address.host, address.port), family=family)
        address.refuse_taken(setting)
        address.path.unlink(missing_ok=True)
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with socket_mode(mode):
            bound.bind(str(address.path))
    except OSError as error:
        raise AddressError(
            f"{setting}: can't listen on {address}: {error.strerror or error}; pick another, or "
            "port 0 for any"
        ) from None
    return bound


def is_this_machine(url: str) -> bool:
    """Return whether a URL's host is a loopback address or localhost.

    A web page can make any other name resolve to this machine (DNS rebinding).
    """
    try:
        return Address(host=urlsplit(url).hostname or "").is_local
    except ValueError:
        return False


def wrong_host(request: web.Request) -> str:
    """Return why a port without authentication rejects a request's Host, "" if it does not."""
    host = request.headers.get("Host")  # every browser sends one
    if host is None or is_this_machine(f"http://{host}"):
        return ""
    return "host: this port is for this machine only; call it as 127.0.0.1 or localhost"


async def _make_safe(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_SAFE)
    response.headers.popall("Server", None)
