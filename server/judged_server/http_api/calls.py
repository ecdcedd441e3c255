"""The calls of the contract as paths, and one call from its request to its reply.

The handlers are those that gRPC has, found by the same names and called with the same metadata: a
call is let in, limited, counted, logged and ended alike, whichever way it comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any

import grpc
from aiohttp import web
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from judged_server import errors
from judged_server.api.interceptor import REQUEST_ID, callers_id
from judged_server.api.status import to_wire
from judged_server.http_api.call_context import HttpContext
from judged_server.http_api.json_mapping import read_message, to_json
from judged_server.http_api.replies import Reply

PREFIX = "/v1/"


def methods_of(services: Iterable[ServiceDescriptor]) -> dict[str, MethodDescriptor]:
    """Return the calls of services by their paths."""
    return {f"{PREFIX}{method.name}": method for service in services for method in service.methods}


def full_name(method: MethodDescriptor) -> str:
    """Return the name of a call in gRPC."""
    return f"/{method.containing_service.full_name}/{method.name}"


class HttpCalls:
    """Makes calls of requests. Stands where generated code expects a server to register with."""

    def __init__(self, max_message_bytes: int, unread_s: float) -> None:
        """Take how large a message may be, and how long a reply may stay unread."""
        self._max_bytes = max_message_bytes
        self._unread_s = unread_s
        self._finders: list[grpc.GenericRpcHandler] = []

    def add_generic_rpc_handlers(self, finders: Iterable[grpc.GenericRpcHandler]) -> None:
        """Take those that find handlers, as a server of gRPC does."""
        self._finders.extend(finders)

    async def answer(self, method: MethodDescriptor, request: web.Request) -> web.StreamResponse:
        """Make the call and write its reply, or its error."""
        kind = method.input_type
        read = partial(read_message, kind=kind, max_bytes=self._max_bytes)
        with Reply(request, self._unread_s) as reply:
            context = HttpContext(request, read, self._max_bytes, reply.write_event)
            body = b""
            try:
                context.start_clock()
                body = await _written(await self._call(method, context))
            except errors.JudgedError as error:
                context.set_trailing_metadata(to_wire(error).trailers)
                if (theirs := callers_id(context.metadata)) is not None:
                    context.set_trailing_metadata(((REQUEST_ID, theirs),))
            if context.status is not None:
                return await reply.end_with(context.status, context.trailers)
            return await reply.end(body, context.trailers)

    async def _call(self, method: MethodDescriptor, context: HttpContext) -> Message | None:
        """Return the reply of a unary call; None once all of a stream is written.

        None too where the handler ended the call with a status. Raises DeadlineExceeded where the
        caller's deadline did, which gRPC itself would see to.
        """
        details: Any = SimpleNamespace(
            method=full_name(method), invocation_metadata=context.metadata
        )
        found: Any = next(filter(None, (finder.service(details) for finder in self._finders)))
        is_stream = method.server_streaming
        handler = found.stream_stream if is_stream else found.stream_unary
        try:
            async with asyncio.timeout(context.time_remaining()):
                reply = await handler(None, context)
        except TimeoutError:
            raise errors.DeadlineExceeded(
                "the time of grpc-timeout is over; allow more, or send less"
            ) from None
        if is_stream or context.status is not None:
            return None
        if isinstance(reply, bytes):  # written already, for the wire of gRPC
            return GetMessageClass(method.output_type).FromString(reply)
        found_reply: Message = reply
        return found_reply


async def _written(message: Message | None) -> bytes:
    if message is None:
        return b""
    return await asyncio.to_thread(to_json, message)
