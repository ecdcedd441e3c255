"""What the ports for HTTP share: bounds, health, headers of replies, and what is logged."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

_HEADER_BYTES = 8190
_SAFE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def runner_of(
    application: web.Application,
    is_ready: Callable[[], bool],
    **options: Any,  # noqa: ANN401 - aiohttp's
) -> web.AppRunner:
    """Return what serves an application, with /healthz and /readyz beside its own paths.

    `options` are those of aiohttp's runner.
    """

    async def tell_health(_: web.Request) -> web.Response:
        """Answer as long as the event loop turns."""
        return web.Response(text="ok\n")

    async def tell_ready(_: web.Request) -> web.Response:
        if is_ready():
            return web.Response(text="ready\n")
        return web.Response(text="not ready\n", status=HTTPStatus.SERVICE_UNAVAILABLE)

    application.router.add_get("/healthz", tell_health, allow_head=False)
    application.router.add_get("/readyz", tell_ready, allow_head=False)
    application.on_response_prepare.append(_make_safe)
    logging.getLogger("aiohttp.server").addFilter(_without_quotes)
    return web.AppRunner(
        application,
        access_log=None,
        max_line_size=_HEADER_BYTES,
        max_field_size=_HEADER_BYTES,
        **options,
    )


def is_this_machine(url: str) -> bool:
    """Say whether a URL is of this machine by an address or as localhost.

    A web page can make any other name stand for this machine (DNS rebinding).
    """
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def wrong_host(request: web.Request) -> str:
    """Return why a port that asks nobody who calls refuses a request, "" if it does not."""
    host = request.headers.get("Host")  # every web page names one
    if host is None or is_this_machine(f"http://{host}"):
        return ""
    return "host: this port is for this machine only; call it as 127.0.0.1 or localhost"


async def _make_safe(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_SAFE)
    response.headers.popall("Server", None)


def _without_quotes(record: logging.LogRecord) -> bool:
    """Take from the line of what is no HTTP all but that: aiohttp quotes tokens and texts in it.

    It is the fault of whoever sent it, so no error either.
    """
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError):
        record.msg = f"{record.getMessage()}: what it sent is no HTTP ({type(error).__name__})"
        record.args = record.exc_info = None
        record.levelno, record.levelname = logging.INFO, "INFO"
    return True
