"""The port of HTTP: where it listens, with which certificate, and what has a path there."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import grpc
from aiohttp import web
from google.protobuf.descriptor import MethodDescriptor

from judged_server.address import share_socket
from judged_server.api.listeners import CONTRACT, Listener
from judged_server.http_api.calls import JSON, HttpCall
from judged_server.http_server import Port, failure, is_this_machine, wrong_host
from judged_server.settings import Settings

LAST_REPLIES_S = 5.0
"""How long, at the end of a drain, replies of calls that have ended may take to be written."""
_OPENAPI = Path(__file__).with_name("openapi.json")
"""Made from the contract by proto/generate.py."""
_KEEPALIVE_S = 75.0
_LINGERING_S = 2.0
"""How long a refused message is read on, so that its sender hears why."""

METHODS = {f"/v1/{method.name}": method for service in CONTRACT for method in service.methods}
"""The calls of the contract by their paths."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpPort(Port):
    """Serves calls, health and readiness over HTTP. Used on one event loop."""

    def __init__(
        self,
        listener: Listener,
        handlers: Mapping[str, Mapping[str, grpc.RpcMethodHandler[Any, Any]]],
        settings: Settings,
        is_ready: Callable[[], bool],
    ) -> None:
        """Take gRPC's handlers, by service and method."""
        application = web.Application(middlewares=[self._guarded])
        application.router.add_get("/openapi.json", self._tell_contract, allow_head=False)
        for path, method in METHODS.items():
            if not method.client_streaming:  # else it can't be made by HTTP
                application.router.add_post(path, partial(self._answer, method))
        super().__init__(
            "http_listen",
            listener.address,
            application,
            is_ready,
            handler_cancellation=True,
            shutdown_timeout=LAST_REPLIES_S,
            keepalive_timeout=_KEEPALIVE_S,
            lingering_time=_LINGERING_S,
            # aiohttp would inflate a message on the event loop, whatever it becomes.
            auto_decompress=False,
        )
        self._listener = listener
        self._handlers = handlers
        self._settings = settings
        self._shown: object = None

    async def open(self) -> None:
        """Listen. Raises AddressError when that fails."""
        await super().open()
        if self.address.path is not None:
            share_socket(self.address.path, self._listener.socket_mode, self._listener.socket_group)

    async def _answer(self, method: MethodDescriptor, request: web.Request) -> web.StreamResponse:
        settings, handlers = self._settings, self._handlers[method.containing_service.full_name]
        call = HttpCall(request, method, settings.max_message_bytes, settings.max_unread_s)
        return await call.answer(handlers[method.name])

    async def refresh(self) -> None:
        """Show the present certificate to whoever connects from now on.

        Connections that stand keep theirs. One that can't be used changes nothing.
        """
        certificates = self._listener.certificates
        if certificates is not None and certificates.now is not self._shown:
            with suppress(OSError):  # it is being replaced; look again the next time
                await self.listen()

    async def listen(self, context: ssl.SSLContext | None = None) -> None:
        """Accept connections, with the present certificate, in place of whoever did so."""
        if (certificates := self._listener.certificates) is not None:
            shown = certificates.now
            context = await asyncio.to_thread(certificates.context)
            self._shown = shown
        await super().listen(context)

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Turn web pages away where nobody is asked who calls; say where the calls are listed."""
        if self._listener.callers is None and (refused := self._refused(request)):
            return failure(HTTPStatus.FORBIDDEN, refused)
        try:
            return await handler(request)
        except web.HTTPNotFound:
            said = f"{request.path[:200]}: no such call by HTTP; /openapi.json has them"
            return failure(HTTPStatus.NOT_FOUND, said)
        except web.HTTPMethodNotAllowed as error:
            allowed = error.headers["Allow"]
            said = f"{request.path[:200]} wants {allowed}"
            response = failure(HTTPStatus.METHOD_NOT_ALLOWED, said)
            response.headers["Allow"] = allowed
            return response

    def _refused(self, request: web.Request) -> str:
        """Return why a request looks like one of a web page, "" if it does not."""
        origin = request.headers.get("origin")
        if origin is not None and not is_this_machine(origin):
            return (
                "origin: this server asks nobody who calls, so web pages can't call it; "
                "give it --tenants"
            )
        # By another address a proxy may call, under any name; by a socket no web page can.
        is_port_of_this_machine = self.address.path is None and self.address.is_local
        return wrong_host(request) if is_port_of_this_machine else ""

    async def _tell_contract(self, _: web.Request) -> web.Response:
        """Answer with the description of all calls."""
        return web.Response(body=_OPENAPI.read_bytes(), content_type=JSON)
