"""What surrounds every call: request id, deadline, access log line, and one guard.

Wraps the handlers once, at registration, rather than standing in a chain of interceptors that is
walked anew for every call. `status` says what a domain error means.

What this is for (each was seen with plain grpc.aio handlers): an uncaught exception sends its
text to the caller; a CancelledError that nobody asked for leaves the caller hanging until its own
deadline; bytes that do not parse fail as UNKNOWN before any handler runs.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from judged_server import errors
from judged_server.api.status import WireError, internal_fault, to_wire
from judged_server.telemetry import access

REQUEST_ID = "x-request-id"
_PROCESS, _NUMBERS = secrets.token_hex(12), itertools.count(1)
_PLAIN_ID = re.compile(r"[\x21-\x7e]{1,128}")

Context = grpc.aio.ServicerContext[Any, Any]
UnaryHandler = Callable[[Any, Context], Awaitable[Any]]
StreamHandler = Callable[[Any, Context], AsyncGenerator[Any, None] | Awaitable[None]]

_DRAINING = "the server is shutting down; another replica may answer"
_DRAINED_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds a call may take: when it sets no deadline, and at most."""

    default_s: float
    max_unary_s: float
    max_stream_s: float

    def allowed(self, context: Context, maximum: float) -> float:
        """Return the seconds a call still has, whoever enforces them."""
        asked = context.time_remaining()
        return self.default_s if asked is None else min(asked, maximum)

    def imposed(self, context: Context, maximum: float) -> float | None:
        """Return the seconds to enforce here; None when gRPC enforces the caller's own."""
        asked = context.time_remaining()
        if asked is None:
            return self.default_s
        return maximum if asked > maximum else None


_STATUS_S = 1.0
"""How long a call waits for its status to be taken."""


class _Unparsable:
    """Stands for a request whose bytes did not parse."""


_UNPARSABLE = _Unparsable()


# By default 0: were gRPC to parse messages in another context some day, calls would still work.
_received: ContextVar[int] = ContextVar("received", default=0)


def received_bytes() -> int:
    """Return the size of the message that the call in work received (last).

    A message does not know its size: it would be written anew to tell it.
    """
    return _received.get()


def _lenient(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def parse(raw: bytes) -> Any:  # noqa: ANN401 - any request message
        _received.set(len(raw))
        try:
            return deserialize(raw)
        except (DecodeError, UnicodeDecodeError, ValueError):
            return _UNPARSABLE

    return parse


def _or_bytes(serialize: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Let handlers return a reply's bytes too."""

    def write(reply: Any) -> bytes:  # noqa: ANN401 - any reply message
        return reply if type(reply) is bytes else serialize(reply)

    return write


def _parsed(request: Any) -> Any:  # noqa: ANN401 - any request message
    if request is _UNPARSABLE:
        raise errors.MalformedMessage(
            "the bytes are not this call's request message, or a string in it is not UTF-8"
        )
    return request


async def _each_parsed(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        yield _parsed(request)


_metadata: ContextVar[Sequence[tuple[str, str | bytes]]] = ContextVar("metadata", default=())


def _callers_id() -> str | None:
    for key, value in _metadata.get():
        if key == REQUEST_ID and isinstance(value, str) and _PLAIN_ID.fullmatch(value):
            return value
    return None


def _failure(error: BaseException) -> WireError:
    """Return what the caller is told; re-raise what is not a failure of the call."""
    if isinstance(error, errors.JudgedError):
        return to_wire(error)
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise error
        # Nobody cancelled this call: a cancelled child leaked. Swallowing it here is what keeps
        # the caller from waiting for a reply that never comes.
    elif isinstance(error, grpc.aio.AbortError | KeyboardInterrupt | SystemExit):
        raise error
    return to_wire(internal_fault(error))


class CallInterceptor:
    """Wraps method handlers. One instance serves a whole server."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._in_work = 0
        self._idle: asyncio.Event | None = None  # only while somebody waits for it
        self._draining = False

    def drain(self) -> None:
        """Turn away every call with a limit from now on; those in work go on."""
        self._draining = True

    async def wait_idle(self) -> None:
        """Return when no call with a limit is in work; watchers of health do not count."""
        if self._in_work:
            self._idle = self._idle or asyncio.Event()
            await self._idle.wait()

    def unary(self, method: str, inner: UnaryHandler, *, limited: bool = True) -> UnaryHandler:
        """Return a handler that keeps the promises of this module around `inner`."""
        maximum = self._deadlines.max_unary_s

        def body(request: Any, context: Context) -> Awaitable[Any]:  # noqa: ANN401 - any message
            if self._draining and limited:
                raise errors.Draining(_DRAINING, _DRAINED_AFTER_S)
            work = inner(_parsed(request), context)
            limit = self._deadlines.imposed(context, maximum) if limited else None
            return work if limit is None else _within(limit, work)

        return self._around(method, body, counted=limited)

    def stream(self, method: str, inner: StreamHandler, *, limited: bool = True) -> UnaryHandler:
        """Return the same for a handler that yields replies, or writes them by itself."""

        async def body(request: Any, context: Context) -> None:  # noqa: ANN401 - any message
            limit = self._deadlines.imposed(context, self._deadlines.max_stream_s)
            if self._draining and limited:
                raise errors.Draining(_DRAINING, _DRAINED_AFTER_S)
            checked = _each_parsed(request) if hasattr(request, "__aiter__") else _parsed(request)
            async with _Expiring(limit if limited else None):
                replies = inner(checked, context)
                if isinstance(replies, Awaitable):  # a handler that writes by itself
                    await replies
                    return
                # Closed here and now, so that what it started never outlives the call.
                async with aclosing(replies):
                    async for reply in replies:
                        await context.write(reply)

        return self._around(method, body, counted=limited)

    def _around(self, method: str, body: UnaryHandler, *, counted: bool) -> UnaryHandler:
        async def call(request: Any, context: Context) -> Any:  # noqa: ANN401 - any message
            started = time.perf_counter()
            request_id = _callers_id()
            code = "CANCELLED"
            if counted:
                self._in_work += 1
            if request_id is None:
                request_id = f"{_PROCESS}-{next(_NUMBERS):x}"
                # Not to a caller who knows it: a trailer takes a fiftieth of a small call.
                context.set_trailing_metadata(((REQUEST_ID, request_id),))
            try:
                reply = await body(request, context)
            except BaseException as error:  # noqa: BLE001 - nothing may get past this
                wire = _failure(error)
                code = wire.code.name
                trailers = (*wire.trailers, (REQUEST_ID, request_id))
                try:
                    async with asyncio.timeout(_STATUS_S):
                        await context.abort(wire.code, wire.message, trailers)
                except TimeoutError:
                    # The status waits behind replies that the caller does not read. The call ends
                    # here all the same; gRPC hands over what it has when it is asked for.
                    raise asyncio.CancelledError from None
            else:
                code = "OK"
                return reply
            finally:
                if counted:
                    self._in_work -= 1
                    if self._idle is not None and not self._in_work:
                        self._idle.set()
                        self._idle = None
                access.call(method, code, time.perf_counter() - started, request_id, context)

        return call


async def _within(limit: float, work: Awaitable[Any]) -> Any:  # noqa: ANN401 - any message
    async with _Expiring(limit):
        return await work


class _Expiring:
    """asyncio.timeout whose expiry is a DeadlineExceeded."""

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._timeout = asyncio.timeout(limit)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise errors.DeadlineExceeded(
                f"the call was stopped after {self._limit:g} s; set a deadline, send less, "
                "or stream it"
            ) from None


class _Handlers(grpc.GenericRpcHandler):
    """Finds the handlers of a service, and notes the metadata of the call they are for.

    gRPC has them here, and would read them anew for whoever asks the context. It looks for the
    handler in the task that then runs it.
    """

    def __init__(self, service: str, handlers: Mapping[str, Any]) -> None:
        self._handlers = {f"/{service}/{name}": handler for name, handler in handlers.items()}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:  # noqa: ANN401
        """Return the handler of a method; None for those of other services."""
        handler = self._handlers.get(handler_call_details.method)
        if handler is not None:
            _metadata.set(handler_call_details.invocation_metadata or ())
        return handler


class InterceptingRegistrar:
    """Stands in for a server where generated code registers handlers, and wraps each of them."""

    def __init__(
        self, server: grpc.aio.Server, interceptor: CallInterceptor, *, limited: bool = True
    ) -> None:
        self._server = server
        self._interceptor = interceptor
        self._limited = limited

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Ignore the unwrapped handlers; the next call brings the same ones by name."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Register every handler of a service, wrapped."""
        wrapped = {
            name: self._wrap(f"/{service}/{name}", handler) for name, handler in handlers.items()
        }
        self._server.add_generic_rpc_handlers((_Handlers(service, wrapped),))

    def _wrap(self, method: str, handler: Any) -> Any:  # noqa: ANN401 - grpc's named tuple
        make: Callable[..., Any]
        if handler.unary_unary is not None:
            make = grpc.unary_unary_rpc_method_handler
            call = self._interceptor.unary(method, handler.unary_unary, limited=self._limited)
        elif handler.unary_stream is not None:
            make = grpc.unary_stream_rpc_method_handler
            call = self._interceptor.stream(method, handler.unary_stream, limited=self._limited)
        else:
            make = grpc.stream_stream_rpc_method_handler
            call = self._interceptor.stream(method, handler.stream_stream, limited=self._limited)
        return make(
            call, _lenient(handler.request_deserializer), _or_bytes(handler.response_serializer)
        )
