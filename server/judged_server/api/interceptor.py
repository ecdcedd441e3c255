"""What surrounds every call: who calls, request id, deadline, access log line, and one guard.

Wraps the handlers once, at registration. `status` says what a domain error means.

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
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import grpc

from judged_server import errors, recorder, tracing
from judged_server.api.authentication import Authenticator, revoked
from judged_server.api.listening.receiving import Receiver
from judged_server.api.status import WireError, to_wire, wire_error
from judged_server.audit import AuditLog, CallNotes, call_notes
from judged_server.telemetry import access, logger
from judged_server.tenant import Sender, current_tenant, send_as, serve
from judged_server.tenants.directory import FileDirectory, Identity

REQUEST_ID = "x-request-id"
WORK_CLASS = "x-judged-class"
"""Metadata of a call that may wait behind interactive ones: the value is "batch"."""
CHANNEL_ID = "x-judged-channel"
"""Metadata that tells callers on a Unix socket apart: chance of 64 bits or more, one a channel."""
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
QUIET_S, LONGEST_QUIET_S = 0.1, 3.0
"""How long no call must come, at the end of a drain, and how long that is waited for."""
_DRAINING, _DRAINED_AFTER_S = "the server is shutting down; another replica may answer", 1.0
_CLOCKS_APART_S = 0.02
"""What may be left of a call's time, by our clock, when its caller's deadline has ended it."""

_log = logger("tenants")


def or_bytes(serialize: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Let handlers return a reply's bytes too."""

    def write(reply: Any) -> bytes:  # noqa: ANN401 - any reply message
        return reply if type(reply) is bytes else serialize(reply)

    return write


_metadata: ContextVar[Sequence[tuple[str, str | bytes]]] = ContextVar("metadata", default=())
_shown: ContextVar[Shown] = ContextVar("shown", default=None)


def callers_id(metadata: Sequence[tuple[str, str | bytes]], header: str = REQUEST_ID) -> str | None:
    """Return the id that a caller gave its call in the metadata; None for none that may be one."""
    for key, value in metadata:
        if key == header and isinstance(value, str) and _PLAIN_ID.fullmatch(value):
            return value
    return None


@dataclass(slots=True)
class _Call:
    """A call in work, and how it has ended once it has."""

    method: str
    started: float
    request_id: str
    counted: bool
    task: asyncio.Task[Any] | None
    span: tracing.CallSpan | None
    notes: CallNotes | None
    identity: Identity | None = None
    limit_s: float | None = None
    timeout: asyncio.Timeout | None = None
    ended_by: errors.JudgedError | None = None
    code: str = "CANCELLED"
    reason: str = ""

    def stop(self, why: errors.JudgedError) -> None:
        """End it; this is what its caller is told."""
        self.ended_by = why
        if self.task is not None:
            self.task.cancel()

    def failure(self, error: BaseException) -> WireError | None:
        """Return what its caller is told of what ended it; None for a cancel."""
        if self.ended_by is not None and self.task is not None and self.task.cancelling():
            self.task.uncancel()
            return to_wire(self.ended_by)
        if isinstance(error, TimeoutError) and self.timeout is not None and self.timeout.expired():
            return to_wire(
                errors.DeadlineExceeded(
                    f"the call was stopped after {self.limit_s:g} s; set a deadline, send less, "
                    "or stream it"
                )
            )
        return wire_error(error)


class CallInterceptor:
    """Wraps method handlers, and knows the calls in work. One instance serves a whole server."""

    def __init__(
        self, deadlines: Deadlines, receiver: Receiver, audit_log: AuditLog | None = None
    ) -> None:
        self._deadlines = deadlines
        self._receiver = receiver
        self._audit_log = audit_log
        self._draining = False
        self._calls: dict[asyncio.Task[Any] | None, _Call] = {}
        self._begun = 0
        self._idle: asyncio.Event | None = None  # only while somebody waits for it

    @property
    def in_work(self) -> int:
        """The calls with a limit that are in work; who watches our health would watch for ever."""
        return sum(call.counted for call in self._calls.values())

    def drain(self) -> None:
        """Turn away every call with a limit from now on; those in work go on."""
        self._draining = True

    async def wait_idle(self) -> None:
        """Return when no call with a limit is in work."""
        if self.in_work:
            self._idle = self._idle or asyncio.Event()
            await self._idle.wait()

    async def wait_quiet(self) -> None:
        """Return when none is in work and none has come for QUIET_S, or after LONGEST_QUIET_S.

        So those that gRPC has received and not begun hear that the server drains, and whoever has
        heard it comes back later than that.
        """
        await self.wait_idle()
        ends = time.monotonic() + LONGEST_QUIET_S
        while True:
            begun = self._begun
            await asyncio.sleep(QUIET_S)
            await self.wait_idle()
            if begun == self._begun or time.monotonic() > ends:
                return

    async def cut_short(self, grace_s: float) -> None:
        """End all calls in work as drained; return when they have ended, or after `grace_s`."""
        for call in self._calls.values():
            if call.counted:
                call.stop(errors.Draining(_DRAINING, _DRAINED_AFTER_S))
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self.wait_idle()

    def recheck(self, directory: FileDirectory) -> None:
        """End the calls in work whose credential does not count any more."""
        ended: Counter[str] = Counter()
        for call in self._calls.values():
            if call.identity is None or call.ended_by or directory.counts(call.identity):
                continue
            call.stop(revoked())
            ended[call.identity.tenant.name] += 1
        for tenant, calls in ended.items():
            _log.info("calls ended", tenant=tenant, calls=calls)

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
        maximum_s = self._deadlines.max_unary_s if limited else None
        receive = self._receiver.first if limited else self._receiver.strangers

        async def body(_: object, context: Context) -> Any:  # noqa: ANN401 - any message
            return await inner(await receive(context.read), context)

        return self._around(method, body, authenticator, maximum_s, is_batch=False)

    def stream(
        self,
        method: str,
        inner: StreamHandler,
        *,
        many: bool,
        limited: bool = True,
        authenticator: Authenticator | None = None,
    ) -> UnaryHandler:
        """Return the same for one that yields or writes replies; `many`: to many requests."""
        maximum_s = self._deadlines.max_stream_s if limited else None
        receive = self._receiver.first if limited else self._receiver.strangers

        async def body(requests: AsyncIterator[Any], context: Context) -> None:
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

        return self._around(method, body, authenticator, maximum_s, is_batch=many)

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
        maximum_s: float | None,
        *,
        is_batch: bool,
    ) -> UnaryHandler:
        """Return the handler around `body`: a call begins, is let in, works, and ends here.

        Without a maximum it has no limit, nor is it counted.
        """

        async def call(request: Any, context: Context) -> Any:  # noqa: ANN401 - any message
            begun = self._begin(method, context, counted=maximum_s is not None)
            try:
                if authenticator is not None:
                    begun.identity = authenticator.identify(_shown.get(), context)
                    serve(begun.identity.tenant)
                if maximum_s is not None:
                    send_as(_sender(context, is_batch=is_batch))
                    self._check_draining()
                    begun.limit_s = self._deadlines.imposed(context, maximum_s)
                async with asyncio.timeout(begun.limit_s) as begun.timeout:
                    reply = await body(request, context)
            except BaseException as error:
                wire = begun.failure(error)
                if wire is None:
                    raise
                # Frames hold the request, and a cycle of them would be found by a rare collection.
                error.__traceback__ = error.__context__ = None
                await self._refuse(begun, context, wire)
                return None  # gRPC knows that the call was aborted
            else:
                begun.code = "OK"
                return reply
            finally:
                self._end(begun, context)

        return call

    def _begin(self, method: str, context: Context, *, counted: bool) -> _Call:
        """Note a call that begins, and give it an id."""
        read: Any = _metadata.get if counted else context.invocation_metadata  # health: no finder
        request_id = callers_id(read() or ())
        if request_id is None:
            request_id = f"{_PROCESS}-{next(_NUMBERS):x}"
            # Not to a caller who knows it: a trailer takes a fiftieth of a small call.
            context.set_trailing_metadata(((REQUEST_ID, request_id),))
        span = notes = None
        if counted and tracing.active is not None:
            span = tracing.active.call(method, _metadata.get())
        if self._audit_log is not None:
            call_notes.set(notes := CallNotes())
        task, started = asyncio.current_task(), time.perf_counter()
        call = _Call(method, started, request_id, counted, task, span, notes)
        self._calls[task] = call
        self._begun += counted
        return call

    def _check_draining(self) -> None:
        if self._draining:
            raise errors.Draining(_DRAINING, _DRAINED_AFTER_S)

    async def _refuse(self, call: _Call, context: Context, wire: WireError) -> None:
        """Send the status of a call that failed."""
        if recorder.active is not None:
            recorder.active.refusal(wire.reason)
        call.code, call.reason = wire.code.name, wire.reason
        trailers = (*wire.trailers, (REQUEST_ID, call.request_id))
        try:
            async with asyncio.timeout(_STATUS_S):
                await context.abort(wire.code, wire.message, trailers)
        except grpc.aio.AbortError as aborted:
            # gRPC keeps it in the call, and so the call in itself, if it names these frames.
            aborted.__traceback__ = aborted.__context__ = None
        except TimeoutError:
            # It waits behind replies that nobody reads; gRPC hands it over when it is asked for.
            raise asyncio.CancelledError from None

    def _end(self, call: _Call, context: Context) -> None:
        """Forget a call that has ended, and tell those who count, trace and log."""
        took = time.perf_counter() - call.started
        self._calls.pop(call.task, None)
        if self._idle is not None and not self.in_work:
            self._idle.set()
            self._idle = None
        if call.code == "CANCELLED" and self._deadlines.allowed(context, 1.0) < _CLOCKS_APART_S:
            call.code = "DEADLINE_EXCEEDED"
        tenant = credential = ""
        if call.identity is not None:
            tenant, credential = call.identity.tenant.name, call.identity.credential
        if recorder.active is not None:
            recorder.active.call(call.method, call.code, tenant, took)
        if call.span is not None:
            call.span.end(call.code, call.reason, call.request_id, tenant)
        if call.reason == _LEAVES_NO_LINE:
            return
        spent = access.call(call.method, call.code, took, call.request_id, tenant, context)
        if self._audit_log is not None and call.notes is not None:
            self._audit_log.call(
                call.method, call.code, call.request_id, tenant, credential, call.notes, spent
            )


def _sender(context: Context, *, is_batch: bool) -> Sender:
    """Return who has sent a call: its tenant, or its connection where there are no tenants."""
    tenant, metadata = current_tenant(), _metadata.get()
    is_batch = is_batch or (WORK_CLASS, "batch") in metadata
    name = tenant.name or context.peer()
    if name == "unix:":
        # gRPC does not tell connections of a Unix socket apart. Who sends no id shares a turn.
        name = f"unix:#{callers_id(metadata, CHANNEL_ID) or ''}"
    return Sender(name, tenant.weight, is_batch)


class HandlerFinder(grpc.GenericRpcHandler):
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
