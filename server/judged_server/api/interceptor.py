"""Wraps every call: authentication, request id, deadline, access log line, error handling.

`handlers` wraps the methods of a service once. `status` maps domain errors to gRPC statuses.

It prevents three faults seen with plain grpc.aio handlers: an uncaught exception sends its text to
the caller; a stray CancelledError leaves the caller hanging until its own deadline; bytes that do
not parse fail as UNKNOWN before any handler runs.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from judged_server import errors, telemetry
from judged_server.api.authentication import Authenticator, revoked
from judged_server.api.requests import (
    REQUEST_ID,
    Call,
    Context,
    Reader,
    Receiver,
    callers_id,
    count_fields,
)
from judged_server.api.status import WireError, to_wire, wire_error
from judged_server.scheduling.concurrency import INLINE_BYTES
from judged_server.settings import Settings
from judged_server.telemetry import Logger, taken
from judged_server.tenant import SENDER, TENANT, Sender
from judged_server.tenants import FileDirectory

WORK_CLASS = "x-judged-class"
"""Metadata key of a call that may wait behind interactive ones; the value is "batch"."""
CHANNEL_ID = "x-judged-channel"
"""Metadata key of a channel's random id of 64 bits or more: it tells apart Unix socket clients."""
_PROCESS, _NUMBERS = secrets.token_hex(12), itertools.count(1)

Handler = Callable[[Any, Context], Any]

_QUIET = errors.AuthenticationLimit.reason
"""Logged as debug, as health checks are: unauthenticated callers must not fill the disk."""
_STATUS_S = 1.0
"""How long a call waits for gRPC to send its status."""
QUIET_S, LONGEST_QUIET_S = 0.1, 3.0
"""An idle drain ends after QUIET_S without a new call, or after LONGEST_QUIET_S at most."""
_DRAINING, _DRAINED_AFTER_S = "the server is shutting down; another replica may answer", 1.0
_COPIES = 2
"""The copies of a reply until it is sent: in Python and in gRPC."""
_LOOK_S = 0.01
"""How often a drain checks for calls in work."""
_CLOCKS_APART_S = 0.02
"""A cancelled call with less time left than this was ended by its caller's deadline."""

_log, _calls = Logger("tenants"), Logger("call")


@dataclass(eq=False)
class CallInterceptor:
    """Wraps method handlers and tracks the calls in work. One instance serves a whole server."""

    settings: Settings
    receiver: Receiver
    _draining: bool = False
    _calls: dict[asyncio.Task[Any] | None, Call] = field(default_factory=dict)
    _begun: int = 0

    @property
    def in_work(self) -> int:
        """The number of calls in work. Health watchers are not counted: they never finish."""
        return sum(call.counted for call in self._calls.values())

    def drain(self) -> None:
        """Reject new calls except health checks from now on; calls in work go on."""
        self._draining = True

    async def wait_idle(self) -> None:
        """Return when no counted call is in work."""
        while self.in_work:  # noqa: ASYNC110 - used only in a drain
            await asyncio.sleep(_LOOK_S)

    async def wait_quiet(self) -> None:
        """Return once idle with no new call for QUIET_S, or LONGEST_QUIET_S after going idle.

        So calls that gRPC has received but not begun are rejected as draining. Their clients
        retry later than QUIET_S.
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
        """End all calls in work with Draining; return when they have ended, or after `grace_s`."""
        for call in self._calls.values():
            if call.counted:
                call.stop(errors.Draining(_DRAINING, _DRAINED_AFTER_S))
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self.wait_idle()

    def recheck(self, directory: FileDirectory) -> None:
        """End the calls in work whose credential is no longer valid."""
        for call in self._calls.values():
            if call.identity is None or call.ended_by or directory.counts(call.identity):
                continue
            call.stop(revoked())

    def handlers(
        self,
        service: ServiceDescriptor,
        servicer: object,
        callers: Authenticator | None = None,
        *,
        limited: bool = True,
    ) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """Return gRPC's handlers of a service, by method name.

        The methods of `servicer` take a message, or an iterator of those received, and the `Call`.
        Without `callers` no credential is needed. With `limited=False` calls get no deadline from
        the server, and a drain does not wait for them.
        """
        found = {}
        for method in service.methods:
            if (inner := getattr(servicer, method.name, None)) is None:
                continue
            # All requests are streams to gRPC, since only a stream's handler decides when the
            # message is received: after authentication.
            make: Callable[..., Any] = grpc.stream_unary_rpc_method_handler
            if method.client_streaming or method.server_streaming:
                make = grpc.stream_stream_rpc_method_handler
            handle = self._around(method, inner, callers, limited=limited)
            found[method.name] = make(handle, None, _written_bytes)
        return found

    def _around(
        self,
        method: MethodDescriptor,
        inner: Callable[[Any, Call], Any],
        callers: Authenticator | None,
        *,
        limited: bool,
    ) -> Handler:
        """Return a handler that begins a call, admits it, runs `inner`, and ends it."""
        many, streams = method.client_streaming, method.server_streaming
        receive = self.receiver.first if limited else self.receiver.strangers
        kind: Any = GetMessageClass(method.input_type)
        of_grpc = Reader(kind.FromString, partial(count_fields, kind=method.input_type))

        async def handle(requests: AsyncIterator[Any], context: Context) -> Any:  # noqa: ANN401
            call = self._begin(method, context, counted=limited)
            try:
                if callers is not None:
                    call.identity = callers.identify(call.metadata, context)
                    call.tenant = call.identity.tenant
                    TENANT.set(call.tenant)
                if limited:
                    self._admit(call, method)
                async with asyncio.timeout(call.limit_s) as call.timeout:
                    reader = getattr(context, "reader", of_grpc)  # an HTTP call has its own
                    message: Any
                    if many:
                        message = self.receiver.each(requests, reader, call)
                    else:
                        message = await receive(context.read, reader, call)
                    work, reply = inner(message, call), None
                    if streams:
                        await self._write_all(call, work)
                    else:
                        reply = _written_bytes(await work)
                        await self._hold(reply, call)
            except BaseException as error:
                wire = _failure(call, error)
                if wire is None:
                    raise
                # Frames hold the request; a reference cycle would keep it until a rare full GC.
                error.__traceback__ = error.__context__ = None
                await self._refuse(call, wire)
                return None  # gRPC knows that the call was aborted
            else:
                call.code = "OK"
                return reply
            finally:
                self._end(call)

        return handle

    async def _write_all(self, call: Call, replies: AsyncGenerator[Any, None]) -> None:
        """Write the replies of a stream.

        Raises DeadlineExceeded when the caller stops reading.
        """
        unread_s = self.settings.max_unread_s
        # Closed at once, so that the tasks it started never outlive the call.
        async with aclosing(replies):
            async for reply in replies:
                writing = await self._writing(reply, call)
                try:
                    async with asyncio.timeout(unread_s):
                        await writing
                except TimeoutError:
                    raise errors.DeadlineExceeded(
                        f"no reply was read for {unread_s:g} s; read them as they come"
                    ) from None

    async def _hold(self, reply: bytes, call: Call) -> None:
        """Reserve the memory of a large reply until it is sent, in place of that of the request.

        Waits for room. Raises Overloaded.
        """
        if len(reply) > INLINE_BYTES:
            call.room.close()
            wait = self.receiver.admission.wait_for_room
            call.room = await wait(len(reply) * _COPIES, call.sender)

    async def _writing(self, reply: Message, call: Call) -> Awaitable[None]:
        """Return the write of a stream's reply, once there is room for it. Raises Overloaded.

        gRPC keeps a reply that is not read, also after the call has ended.
        """
        size = reply.ByteSize()
        if size <= INLINE_BYTES:
            return call.context.write(reply)
        wait = self.receiver.admission.wait_for_room
        room = await wait(size * _COPIES, call.sender, call.kept)

        def sent(written: asyncio.Future[None]) -> None:
            room.close()
            if not written.cancelled():
                written.exception()  # else asyncio logs it as never retrieved

        writing = asyncio.ensure_future(call.context.write(reply))
        writing.add_done_callback(sent)
        return asyncio.shield(writing)

    def _begin(self, method: MethodDescriptor, context: Context, *, counted: bool) -> Call:
        """Register a new call, and give it an id if its caller gave none."""
        name = f"/{method.containing_service.full_name}/{method.name}"
        metadata: Any = context.invocation_metadata() or ()
        request_id = callers_id(metadata)
        if request_id is None:
            request_id = f"{_PROCESS}-{next(_NUMBERS):x}"
            # Only for callers that sent no id: a trailer takes 2% of the time of a small call.
            context.set_trailing_metadata(((REQUEST_ID, request_id),))
        task, started = asyncio.current_task(), time.perf_counter()
        call = Call(name, context, metadata, request_id, counted, started, task)
        if counted and telemetry.tracer is not None:
            call.span = telemetry.tracer.call(name, metadata)
        if task is not None:
            task.add_done_callback(lambda _: call.room.close())  # once the reply has been sent
        self._calls[task] = call
        self._begun += counted
        return call

    def _admit(self, call: Call, method: MethodDescriptor) -> None:
        """Set the sender and the deadline of a call. Raises Draining."""
        settings, many = self.settings, method.client_streaming
        streams = many or method.server_streaming
        maximum_s = settings.max_stream_deadline_s if streams else settings.max_unary_deadline_s
        call.sender = _sender(call, is_batch=many)
        SENDER.set(call.sender)
        if self._draining:
            raise errors.Draining(_DRAINING, _DRAINED_AFTER_S)
        asked_s = call.context.time_remaining()
        left_s = min(settings.default_deadline_s if asked_s is None else asked_s, maximum_s)
        if left_s != asked_s:  # else gRPC enforces the caller's own deadline
            call.limit_s = left_s
        call.deadline = asyncio.get_running_loop().time() + left_s

    async def _refuse(self, call: Call, wire: WireError) -> None:
        """Send the status of a call that failed."""
        telemetry.note("refusals", 1, wire.reason)
        call.code, call.reason = wire.code.name, wire.reason
        trailers = (*wire.trailers, (REQUEST_ID, call.request_id))
        try:
            async with asyncio.timeout(_STATUS_S):
                await call.context.abort(wire.code, wire.message, trailers)
        except grpc.aio.AbortError as aborted:
            # gRPC stores the error in the call; its frames would make a reference cycle.
            aborted.__traceback__ = aborted.__context__ = None
        except Exception:  # noqa: BLE001 - gRPC's own, or the time is over
            # The status can't be sent before the replies that the caller has not read.
            raise asyncio.CancelledError from None

    def _end(self, call: Call) -> None:
        """Unregister a call that has ended; record it in metrics, trace and log."""
        took = time.perf_counter() - call.started
        self._calls.pop(call.task, None)
        if call.code == "CANCELLED":
            left_s = call.deadline - asyncio.get_running_loop().time()
            call.code = "DEADLINE_EXCEEDED" if left_s < _CLOCKS_APART_S else call.code
        tenant = call.tenant.name
        method = call.method.rpartition("/")[2]
        telemetry.note("calls", 1, method, call.code, tenant)
        telemetry.note("call_seconds", took, method)
        if call.span is not None:
            call.span(call.code, call.reason, call.request_id, tenant)
        spent = None if call.cost_tracker is None else call.cost_tracker.report()
        facts: dict[str, object] = {
            "method": call.method,
            "code": call.code,
            "request_id": call.request_id,
            **taken(spent),
        }
        if call.identity is not None:
            facts |= {"tenant": tenant, "credential": call.identity.credential}
        is_quiet = not call.counted or call.reason == _QUIET
        _calls.log("debug" if is_quiet else "info", "call", ms=round(took * 1e6) / 1e3, **facts)


def _failure(call: Call, error: BaseException) -> WireError | None:
    """Return the error to send for what ended a call; None for a cancellation."""
    if call.ended_by is not None and call.task is not None and call.task.cancelling():
        call.task.uncancel()
        return to_wire(call.ended_by)
    if isinstance(error, TimeoutError) and call.timeout is not None and call.timeout.expired():
        return to_wire(
            errors.DeadlineExceeded(
                f"the call was stopped after {call.limit_s:g} s; set a deadline, send less, "
                "or stream it"
            )
        )
    return wire_error(error)


def _sender(call: Call, *, is_batch: bool) -> Sender:
    """Return the sender of a call: its tenant, or its connection where there are no tenants."""
    is_batch = is_batch or (WORK_CLASS, "batch") in call.metadata
    name = call.tenant.name or call.context.peer()
    if name == "unix:":
        # gRPC does not tell apart connections of a Unix socket. Callers without an id share a turn.
        name = f"unix:#{callers_id(call.metadata, CHANNEL_ID) or ''}"
    return Sender(name, call.tenant.weight, is_batch)


def _written_bytes(reply: Any) -> bytes:  # noqa: ANN401 - a message, or one already serialized
    written: bytes = reply if type(reply) is bytes else reply.SerializeToString()
    return written
