"""One call by HTTP, from its request to its reply.

The handlers are those that gRPC has, called with a context that stands for gRPC's: a call is let
in, limited, counted, logged and ended alike, whichever way it comes.
"""

from __future__ import annotations

import asyncio
import math
import re
import ssl
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, NoReturn

import grpc
from aiohttp import web
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from judged.internal.v1 import status_pb2

from judged_server import errors
from judged_server.api.requests import REQUEST_ID, Reader, callers_id
from judged_server.api.status import PUSHBACK_TRAILER, STATUS_TRAILER, to_wire
from judged_server.http_api.json_mapping import count_values, read_message, status_json, to_json
from judged_server.scheduling.concurrency import run_by_size

JSON = "application/json"
SIGN_OF_LIFE_S = 15.0
"""How often a stream without events says that it is there, since proxies cut silent ones."""
_PIECE_BYTES = 1 << 16
_TIMEOUT = "grpc-timeout"
_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
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

Trailers = tuple[tuple[str, str | bytes], ...]


class HttpCall:
    """A call over a request of aiohttp, with the part of gRPC's context that handlers use."""

    def __init__(
        self, request: web.Request, method: MethodDescriptor, max_bytes: int, unread_s: float
    ) -> None:
        """Take how large its message may be, and how long a reply may stay unread."""
        self._request = request
        self._method = method
        self._max_bytes = max_bytes
        self._unread_s = unread_s
        parse = partial(read_message, kind=method.input_type, max_bytes=max_bytes)
        self.reader = Reader(parse, count_values)
        self._is_read = False
        self._trailers: dict[str, str | bytes] = {}
        self._ends: float | None = None
        self._events: web.StreamResponse | None = None
        self._alive: asyncio.Task[None] | None = None

    async def answer(self, handler: Any) -> web.StreamResponse:  # noqa: ANN401 - gRPC's
        """Let gRPC's handler work, and write its reply, or its error."""
        body, handle = b"", handler.stream_stream or handler.stream_unary
        try:
            if (asked := _seconds(self._request.headers.get(_TIMEOUT))) is not None:
                self._ends = asyncio.get_running_loop().time() + asked
            async with asyncio.timeout(self.time_remaining()):
                reply = await handle(None, self)
                if not (self._method.server_streaming or STATUS_TRAILER in self._trailers):
                    if isinstance(reply, bytes):  # written already, for the wire of gRPC
                        reply = GetMessageClass(self._method.output_type).FromString(reply)
                    body = await run_by_size(reply.ByteSize(), to_json, reply)
        except (TimeoutError, errors.JudgedError) as error:
            late = errors.DeadlineExceeded(
                "the time of grpc-timeout is over; allow more, or send less"
            )
            told = error if isinstance(error, errors.JudgedError) else late
            self.set_trailing_metadata(to_wire(told).trailers)
            if (theirs := callers_id(self.invocation_metadata())) is not None:
                self._trailers[REQUEST_ID] = theirs
        finally:
            if self._alive is not None:
                self._alive.cancel()
        return await self._end(body)

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the headers as metadata. Bytes that are no UTF-8 stand as if they were Latin-1."""
        return tuple(
            (name.lower(), value.encode("utf-8", "surrogateescape").decode("latin-1"))
            for name, value in self._request.headers.items()
        )

    def time_remaining(self) -> float | None:
        """Return the seconds that the caller still waits; None when it did not say."""
        if self._ends is None:
            return None
        return max(0.0, self._ends - asyncio.get_running_loop().time())

    def peer(self) -> str:
        """Return the connection, as gRPC names those of its own."""
        transport = self._request.transport
        name = None if transport is None else transport.get_extra_info("peername")
        if transport is None or not isinstance(name, tuple):
            return f"unix:{id(transport)}"
        host, port = name[:2]
        return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"

    def auth_context(self) -> Mapping[str, list[bytes]]:
        """Return the client's certificate; TLS has checked who signed it."""
        tls = self._request.get_extra_info("ssl_object")
        shown = None if tls is None else tls.getpeercert(binary_form=True)
        return {"x509_pem_cert": [ssl.DER_cert_to_PEM_cert(shown).encode()]} if shown else {}

    def set_trailing_metadata(self, trailers: Trailers) -> None:
        """Note what is sent with the reply."""
        self._trailers.update(trailers)

    async def abort(self, _: grpc.StatusCode, __: str, trailers: Trailers) -> NoReturn:
        """End the call with the status of the trailers. Raises AbortError."""
        self.set_trailing_metadata(trailers)
        raise grpc.aio.AbortError("Locally aborted.")

    async def read(self) -> Any:  # noqa: ANN401 - bytes, or gRPC's EOF
        """Return the JSON of the call; it is received now, and only up to the limit.

        Raises LimitExceeded, InvalidField for a body of another kind, and MalformedMessage.
        """
        if self._is_read:
            return grpc.aio.EOF
        self._is_read = True
        request, most = self._request, self._max_bytes
        if not request.body_exists:
            return b""
        if request.content_type != JSON:
            raise errors.InvalidField("content-type", f"must be {JSON}; with curl, say --json")
        coding = request.headers.get("content-encoding", "identity").lower()
        if coding not in {"identity", "gzip"}:
            raise errors.InvalidField("content-encoding", "must be gzip, or left out")
        size, found = request.content_length or 0, bytearray()
        try:
            while size <= most and (part := await request.content.readany()):
                found += part
                size = max(size, len(found))
        except web.RequestPayloadError:
            raise errors.MalformedMessage("the body ended before its end") from None
        if size > most:
            raise errors.LimitExceeded("message", "bytes", most, size)
        return bytes(found)

    async def write(self, message: Message) -> None:
        """Write a reply of a stream as an event, named as the field of its oneof that is set."""
        choices = message.DESCRIPTOR.oneofs
        name = message.WhichOneof(choices[0].name) if choices else None
        try:
            await self._write_event(str(name or "message"), to_json(message))
        except ConnectionError:  # the caller has gone, which ends this task as in gRPC
            if (task := asyncio.current_task()) is not None:
                task.cancel()
            raise asyncio.CancelledError from None

    async def _write_event(self, name: str, body: bytes) -> None:
        if self._events is None:
            headers = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
            self._events = web.StreamResponse(headers=headers)
            await self._events.prepare(self._request)
            self._alive = asyncio.create_task(_say_alive(self._events))
        await self._events.write(b"event: %b\ndata: %b\n\n" % (name.encode(), body))

    async def _end(self, body: bytes) -> web.StreamResponse:
        """Write all of a reply, or of an error; end a stream, with an error as its last event."""
        raw, status = self._trailers.get(STATUS_TRAILER), int(HTTPStatus.OK)
        if isinstance(raw, bytes):
            ended = status_pb2.Status.FromString(raw)
            body = status_json(ended)
            status = _HTTP_STATUS.get(ended.code, HTTPStatus.INTERNAL_SERVER_ERROR)
        if self._events is not None:
            if body:
                await self._drained(self._write_event("error", body))
            await self._drained(self._events.write_eof())
            return self._events
        response = web.StreamResponse(status=status, headers=_headers(status, self._trailers))
        response.content_length = len(body)
        await response.prepare(self._request)
        for start in range(0, len(body), _PIECE_BYTES):
            await self._drained(response.write(body[start : start + _PIECE_BYTES]))
        await self._drained(response.write_eof())
        return response

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


def _seconds(asked: str | None) -> float | None:
    """Return the seconds that a header of gRPC's form allows. Raises InvalidField."""
    if asked is None:
        return None
    found = re.fullmatch(r"([0-9]{1,8})([HMSmun])", asked)
    if found is None:
        raise errors.InvalidField(
            _TIMEOUT, "must be up to 8 digits and a unit: H, M or S, or m for thousandths: 30S"
        )
    return int(found[1]) * _UNITS[found[2]]


def _headers(status: int, trailers: Mapping[str, str | bytes]) -> dict[str, str]:
    found = {"Content-Type": JSON}
    request_id, pushback = trailers.get(REQUEST_ID), trailers.get(PUSHBACK_TRAILER)
    if isinstance(request_id, str):
        found[REQUEST_ID] = request_id
    if isinstance(pushback, str):
        found["Retry-After"] = str(math.ceil(int(pushback) / 1000))
    if status == HTTPStatus.UNAUTHORIZED:
        found["WWW-Authenticate"] = "Bearer"
    return found
