"""What answers a request: all of a reply at once, or events as they come."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from contextlib import suppress
from http import HTTPStatus
from typing import Self

import grpc
from aiohttp import web
from google.protobuf.message import Message
from judged.internal.v1 import status_pb2

from judged_server.api.interceptor import REQUEST_ID
from judged_server.api.status import PUSHBACK_TRAILER
from judged_server.http_api.json_mapping import status_json, to_json

JSON = "application/json"
SIGN_OF_LIFE_S = 15.0
"""How often a stream without events says that it is there, since proxies cut silent ones."""
_PIECE_BYTES = 1 << 16

_HTTP_STATUS: dict[int, int] = {
    code.value[0]: status
    for code, status in {
        grpc.StatusCode.INVALID_ARGUMENT: HTTPStatus.BAD_REQUEST,
        grpc.StatusCode.DEADLINE_EXCEEDED: HTTPStatus.GATEWAY_TIMEOUT,
        grpc.StatusCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
        grpc.StatusCode.RESOURCE_EXHAUSTED: HTTPStatus.TOO_MANY_REQUESTS,
        grpc.StatusCode.FAILED_PRECONDITION: HTTPStatus.BAD_REQUEST,
        grpc.StatusCode.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
        grpc.StatusCode.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    }.items()
}
"""Of the statuses that calls end with, as google/rpc/code.proto has it; all others are 500."""


class Reply:
    """Writes the answer to a request. Used in a `with`, whose end ends all that it began."""

    def __init__(self, request: web.Request, unread_s: float) -> None:
        self._request = request
        self._unread_s = unread_s
        self._events: web.StreamResponse | None = None
        self._alive: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        """Do nothing: what is to end is begun with the first event."""
        return self

    def __exit__(self, *_: object) -> None:
        if self._alive is not None:
            self._alive.cancel()

    async def write_event(self, message: Message) -> None:
        """Write a reply of a stream as an event, named as the field of its oneof that is set."""
        choices = message.DESCRIPTOR.oneofs
        name = message.WhichOneof(choices[0].name) if choices else None
        try:
            await self._write_event(str(name or "message"), to_json(message))
        except ConnectionError:  # the caller has gone, which ends the call as in gRPC
            raise _gone() from None

    async def _write_event(self, name: str, body: bytes) -> None:
        if self._events is None:
            headers = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
            self._events = web.StreamResponse(headers=headers)
            await self._events.prepare(self._request)
            self._alive = asyncio.create_task(_say_alive(self._events))
        await self._events.write(b"event: %b\ndata: %b\n\n" % (name.encode(), body))

    async def end(
        self, body: bytes, trailers: dict[str, str | bytes], status: int = HTTPStatus.OK
    ) -> web.StreamResponse:
        """End a stream, or write all of a reply."""
        if self._events is not None:
            await self._drained(self._events.write_eof())
            return self._events
        response = web.StreamResponse(status=status, headers=_headers(status, trailers))
        response.content_length = len(body)
        await response.prepare(self._request)
        for start in range(0, len(body), _PIECE_BYTES):
            await self._drained(response.write(body[start : start + _PIECE_BYTES]))
        await self._drained(response.write_eof())
        return response

    async def end_with(
        self, status: status_pb2.Status, trailers: dict[str, str | bytes]
    ) -> web.StreamResponse:
        """End the call with an error: a reply of that status, or the last event of a stream."""
        body = status_json(status)
        if self._events is not None:
            await self._drained(self._write_event("error", body))
        http = _HTTP_STATUS.get(status.code, HTTPStatus.INTERNAL_SERVER_ERROR)
        return await self.end(body, trailers, http)

    async def _drained(self, writing: Awaitable[None]) -> None:
        """Write; cut the connection where its caller does not read."""
        try:
            async with asyncio.timeout(self._unread_s):
                await writing
        except TimeoutError:
            if self._request.transport is not None:
                self._request.transport.abort()
            raise asyncio.CancelledError from None


async def _say_alive(events: web.StreamResponse) -> None:
    """Write a comment, which readers of events pass over, now and then."""
    with suppress(ConnectionError):  # the call itself finds that its caller has gone
        while True:
            await asyncio.sleep(SIGN_OF_LIFE_S)
            await events.write(b": working\n\n")


def _gone() -> asyncio.CancelledError:
    """Return what ends this task, as a cancel does."""
    if (task := asyncio.current_task()) is not None:
        task.cancel()
    return asyncio.CancelledError()


def _headers(status: int, trailers: dict[str, str | bytes]) -> dict[str, str]:
    found = {"Content-Type": JSON}
    request_id, pushback = trailers.get(REQUEST_ID), trailers.get(PUSHBACK_TRAILER)
    if isinstance(request_id, str):
        found[REQUEST_ID] = request_id
    if isinstance(pushback, str):
        found["Retry-After"] = str(math.ceil(int(pushback) / 1000))
    if status == HTTPStatus.UNAUTHORIZED:
        found["WWW-Authenticate"] = "Bearer"
    return found
