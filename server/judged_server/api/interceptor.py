"""What surrounds every call: who calls, request id, deadline, access log line, and one guard.

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
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import grpc

from judged_server import errors, recorder, tracing
from judged_server.api.authentication import Authenticator, LiveCalls, revoked
from judged_server.api.calls_in_work import CallsInWork, draining
from judged_server.api.listening.receiving import Receiver, lenient
from judged_server.api.status import WireError, internal_fault, to_wire
from judged_server.audit import AuditLog, CallNotes, begin_notes
from judged_server.telemetry import UsageReport, access
from judged_server.tenant import Sender, current_tenant, send_as, serve
from judged_server.tenants.directory import Identity

REQUEST_ID = "x-request-id"
WORK_CLASS = "x-judged-class"
"""Metadata of a call that may wait behind interactive ones: the value is "batch"."""
_PROCESS, _NUMBERS = secrets.token_hex(12), itertools.count(1)
_PLAIN_ID = re.compile(r"[\x21-\x7e]{1,128}")

Context = grpc.aio.ServicerContext[Any, Any]
Shown = Identity | errors.Unauthenticated | None
"""Whom the metadata of a call shows."""
UnaryHandler = Callable[[Any, Context], Awaitable[Any]]
StreamHandler = Callable[[Any, Context], AsyncGenerator[Any, None] | Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds a call may take: when it sets no deadline, at most, and while nobody reads."""

    default_s: float
    max_unary_s: float
    max_stream_s: float
    unread_s: float = 30.0

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


_LEAVES_NO_LINE = errors.AuthenticationLimit.reason
"""Strangers who go on and on fill no disk."""
_STATUS_S = 1.0
"""How long a call waits for its status to be taken."""


def _or_bytes(serialize: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Let handlers return a reply's bytes too."""

    def write(reply: Any) -> bytes:  # noqa: ANN401 - any reply message
        return reply if type(reply) is bytes else serialize(reply)

    return write


_metadata: ContextVar[Sequence[tuple[str, str | bytes]]] = ContextVar("metadata", default=())


_shown: ContextVar[Shown] = ContextVar("shown", default=None)


def _callers_id() -> str | None:
    for key, value in _metadata.get():
        if key == REQUEST_ID and isinstance(value, str) and _PLAIN_ID.fullmatch(value):
            return value
    return None


def _begin_span(method: str) -> tracing.CallSpan | None:
    return None if tracing.active is None else tracing.active.call(method, _metadata.get())


def _end_span(
    span: tracing.CallSpan | None, code: str, reason: str, request_id: str, tenant: str
) -> None:
    if span is not None:
        span.end(code, reason, request_id, tenant)


def _wants_batch() -> bool:
    return any(key == WORK_CLASS and value == "batch" for key, value in _metadata.get())


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

    def __init__(
        self, deadlines: Deadlines, receiver: Receiver, audit_log: AuditLog | None = None
    ) -> None:
        self._deadlines = deadlines
        self._receiver = receiver
        self._audit_log = audit_log
        self._draining = False
        self.calls = CallsInWork()
        self.live_calls = LiveCalls()

    @property
    def in_work(self) -> int:
        """The calls with a limit that are in work."""
        return len(self.calls)

    def drain(self) -> None:
        """Turn away every call with a limit from now on; those in work go on."""
        self._draining = True

    def unary(
        self,
        method: str,
        inner: UnaryHandler,
        *,
        limited: bool = True,
        authenticator: Authenticator | None = None,
    ) -> UnaryHandler:
        """Return a handler that keeps the promises of this module around `inner`.

        Without an authenticator it serves everybody. The handler is one of a stream of requests,
        since only such a one decides when gRPC receives the message: after it knows who calls.
        """
        maximum = self._deadlines.max_unary_s
        receive = self._receiver.first if limited else self._receiver.unbounded

        async def body(_: object, context: Context) -> Any:  # noqa: ANN401 - any message
            if self._draining and limited:
                raise draining()
            limit = self._deadlines.imposed(context, maximum) if limited else None
            if limit is None:
                return await inner(await receive(context.read), context)
            async with _Expiring(limit):
                return await inner(await receive(context.read), context)

        return self._around(method, body, authenticator, counted=limited, is_batch=False)

    def stream(
        self,
        method: str,
        inner: StreamHandler,
        *,
        many: bool,
        limited: bool = True,
        authenticator: Authenticator | None = None,
    ) -> UnaryHandler:
        """Return the same for a handler that yields replies, or writes them by itself.

        `many` says that it takes a stream of requests.
        """
        receive = self._receiver.first if limited else self._receiver.unbounded

        async def body(requests: AsyncIterator[Any], context: Context) -> None:
            limit = self._deadlines.imposed(context, self._deadlines.max_stream_s)
            if self._draining and limited:
                raise draining()
            async with _Expiring(limit if limited else None):
                if many:
                    replies = inner(self._receiver.each(requests), context)
                else:
                    replies = inner(await receive(context.read), context)
                if isinstance(replies, Awaitable):  # a handler that writes by itself
                    await replies
                    return
                # Closed here and now, so that what it started never outlives the call.
                async with aclosing(replies):
                    async for reply in replies:
                        await self._written(context, reply)

        return self._around(method, body, authenticator, counted=limited, is_batch=many)

    async def _written(self, context: Context, reply: object) -> None:
        """Write a reply of a stream; raises DeadlineExceeded where nobody reads them any more."""
        try:
            async with asyncio.timeout(self._deadlines.unread_s):
                await context.write(reply)
        except TimeoutError:
            raise errors.DeadlineExceeded(
                f"no reply was read for {self._deadlines.unread_s:g} s; read them as they come"
            ) from None

    def _around(
        self,
        method: str,
        body: UnaryHandler,
        authenticator: Authenticator | None,
        *,
        counted: bool,
        is_batch: bool,
    ) -> UnaryHandler:
        async def call(request: Any, context: Context) -> Any:  # noqa: ANN401 - any message
            started = time.perf_counter()
            request_id = _callers_id()
            code, reason = "CANCELLED", ""
            identity: Identity | None = None
            span = _begin_span(method) if counted else None
            task = self.calls.begin() if counted else None
            notes = None if self._audit_log is None else begin_notes()
            if request_id is None:
                request_id = f"{_PROCESS}-{next(_NUMBERS):x}"
                # Not to a caller who knows it: a trailer takes a fiftieth of a small call.
                context.set_trailing_metadata(((REQUEST_ID, request_id),))
            try:
                if authenticator is not None:
                    identity = self._identified(authenticator, context)
                if counted:
                    send_as(_sender(context, is_batch=is_batch))
                reply = await body(request, context)
            except BaseException as error:  # noqa: BLE001 - nothing may get past this
                wire = _failure(self._ended_here(task) or error)
                recorder.active.refusal(wire.reason)
                reason = wire.reason
                # Frames hold the request, and a cycle of them would be found by a rare collection.
                error.__traceback__ = error.__context__ = None
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
                    self.calls.end(task)
                took, tenant = time.perf_counter() - started, self._ended(identity)
                recorder.active.call(method, code, tenant, took)
                _end_span(span, code, reason, request_id, tenant)
                if reason != _LEAVES_NO_LINE:
                    spent = access.call(method, code, took, request_id, tenant, context)
                    self._audit(method, code, request_id, identity, notes, spent)

        return call

    def _audit(
        self,
        method: str,
        code: str,
        request_id: str,
        identity: Identity | None,
        notes: CallNotes | None,
        spent: UsageReport | None,
    ) -> None:
        """Write of a call that has ended, where there is an audit log."""
        if self._audit_log is not None and notes is not None:
            tenant = "" if identity is None else identity.tenant.name
            shown = "" if identity is None else identity.credential
            self._audit_log.call(method, code, request_id, tenant, shown, notes, spent)

    def _identified(self, authenticator: Authenticator, context: Context) -> Identity:
        """Return who calls, for whom the rest of the call then is. Raises Unauthenticated."""
        identity = authenticator.identify(_shown.get(), context)
        serve(identity.tenant)
        self.live_calls.begin(identity)
        return identity

    def _ended_here(self, task: asyncio.Task[Any] | None) -> errors.JudgedError | None:
        """Return why the server itself has ended a call; None where it has not."""
        if self.live_calls.take_back():
            return revoked()
        return draining() if self.calls.take_back(task) else None

    def _ended(self, identity: Identity | None) -> str:
        """Return the tenant of a call that ends, "" for none."""
        if identity is None:
            return ""
        self.live_calls.end(identity)
        return identity.tenant.name


def _sender(context: Context, *, is_batch: bool) -> Sender:
    """Return who has sent a call: its tenant, or its connection where there are no tenants."""
    tenant = current_tenant()
    return Sender(tenant.name or context.peer(), tenant.weight, is_batch or _wants_batch())


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

    def __init__(
        self, service: str, handlers: Mapping[str, Any], authenticator: Authenticator | None
    ) -> None:
        self._authenticator = authenticator
        self._handlers = {f"/{service}/{name}": handler for name, handler in handlers.items()}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:  # noqa: ANN401
        """Return the handler of a method; None for those of other services."""
        handler = self._handlers.get(handler_call_details.method)
        if handler is not None:
            metadata = handler_call_details.invocation_metadata or ()
            _metadata.set(metadata)
            if self._authenticator is not None:
                _shown.set(self._authenticator.by_metadata(metadata))
        return handler


class Registry(Protocol):
    """Takes what finds handlers, as a server of gRPC does."""

    def add_generic_rpc_handlers(self, finders: Iterable[grpc.GenericRpcHandler], /) -> None:
        """Look for handlers with these too."""
        ...


class InterceptingRegistrar:
    """Stands in for a server where generated code registers handlers, and wraps each of them."""

    def __init__(
        self,
        server: Registry,
        interceptor: CallInterceptor,
        *,
        limited: bool = True,
        authenticator: Authenticator | None = None,
    ) -> None:
        self._server = server
        self._interceptor = interceptor
        self._limited = limited
        self._authenticator = authenticator

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Ignore the unwrapped handlers; the next call brings the same ones by name."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Register every handler of a service, wrapped."""
        wrapped = {
            name: self._wrap(f"/{service}/{name}", handler) for name, handler in handlers.items()
        }
        self._server.add_generic_rpc_handlers((_Handlers(service, wrapped, self._authenticator),))

    def _wrap(self, method: str, handler: Any) -> Any:  # noqa: ANN401 - grpc's named tuple
        make: Callable[..., Any]
        how: dict[str, Any] = {"limited": self._limited, "authenticator": self._authenticator}
        if handler.unary_unary is not None:
            make = grpc.stream_unary_rpc_method_handler
            call = self._interceptor.unary(method, handler.unary_unary, **how)
        else:
            make = grpc.stream_stream_rpc_method_handler
            many = handler.unary_stream is None
            inner = handler.stream_stream if many else handler.unary_stream
            call = self._interceptor.stream(method, inner, many=many, **how)
        return make(
            call, lenient(handler.request_deserializer), _or_bytes(handler.response_serializer)
        )
