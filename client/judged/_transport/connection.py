"""The connection under a client: opened, closed, and the one loop that tries a message again.

When to try again is decided in `call`. Streams are opened again in `streams`, those of a scoring in
`_batching.score_stream`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import grpc

from judged import errors
from judged._inputs import need_kind
from judged._transport.access import Authorization, refuse_unsafe, tls_options
from judged._transport.call import CHUNKS_IN_FLIGHT, Attempts, Deadline, RetryBudget
from judged._transport.channel import (
    OPTIONS,
    forked,
    refuse_unusable,
    refuse_wrong,
    resolve,
    socket_path,
    used,
)
from judged._transport.status import Failure, to_error
from judged._transport.tls_channel import TlsChannel
from judged._transport.window import Window
from judged.credentials import Credentials, Tls, Token
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub
from judged.v1.statistics_service_pb2_grpc import StatisticsServiceStub

if TYPE_CHECKING:
    from judged.v1.judge_service_pb2_grpc import JudgeServiceAsyncStub
    from judged.v1.statistics_service_pb2_grpc import StatisticsServiceAsyncStub

    AsyncStubs = tuple[JudgeServiceAsyncStub, StatisticsServiceAsyncStub]
    _AsyncChannel = grpc.aio.Channel | TlsChannel[grpc.aio.Channel]

Reply = TypeVar("Reply")
Request = TypeVar("Request")
Part = TypeVar("Part")


class Connection:
    """A connection of the synchronous client."""

    def __init__(
        self,
        target: str | None = None,
        *,
        credentials: Credentials | None = None,
        channel: grpc.Channel | None = None,
    ) -> None:
        """Connect as `Client` does. Raises InvalidArgument for what can't be used."""
        self.target = resolve(target)
        self._owned = channel is None
        self._closed = False
        _check(self.target, credentials, given=channel is not None)
        self._tls: TlsChannel[grpc.Channel] | None = None
        if channel is None:
            refuse_unusable(was_closed=False)
            if isinstance(credentials, Tls):
                options = tls_options(credentials)
                open_ = partial(grpc.secure_channel, self.target, options=options)
                self._tls = TlsChannel(credentials, open_)
                channel = cast("grpc.Channel", self._tls)
            else:
                channel = grpc.insecure_channel(self.target, options=OPTIONS)
        used()
        self._channel = channel
        self._stubs = JudgeServiceStub(channel), StatisticsServiceStub(channel)
        self.budget = _budget(self.target, credentials)
        self._window = Window()

    @property
    def judging(self) -> JudgeServiceStub:
        """The calls of JudgeService. Raises ClientUnusable after `close`, and after some forks."""
        refuse_unusable(was_closed=self._closed)
        return self._stubs[0]

    @property
    def statistics(self) -> StatisticsServiceStub:
        """The calls of StatisticsService; as `judging`."""
        refuse_unusable(was_closed=self._closed)
        return self._stubs[1]

    def close(self) -> None:
        """Close the connection. Calls under way end with ClientUnusable, and so do later ones."""
        self._closed = True
        if self._owned and not forked():
            for channel in (self._channel,) if self._tls is None else self._tls.opened:
                channel.close()

    def call(self, method: Callable[..., Reply], request: object, deadline: Deadline) -> Reply:
        """Return the reply of the first try that is answered."""
        attempts = Attempts(deadline, self.budget, request)
        send = partial(self._try, method, request, attempts)
        return self._finish(send, send, attempts)

    def _try(self, method: Callable[..., Reply], request: object, attempts: Attempts) -> Reply:
        """Return the reply of one try, which waits for a slot in the window."""
        self._take_slot(attempts)
        with self._window.held():
            return method(request, timeout=attempts.timeout(), metadata=attempts.metadata)

    def _take_slot(self, attempts: Attempts) -> None:
        """Wait for a slot in the window; raises what `timeout` does when time is over."""
        while not self._window.take(attempts.timeout()):
            pass

    def send(
        self,
        method: grpc.UnaryUnaryMultiCallable[Request, Reply],
        request: Request,
        deadline: Deadline,
    ) -> InFlight[Reply]:
        """Send a message without waiting for its answer."""
        attempts = Attempts(deadline, self.budget, request)
        self._take_slot(attempts)
        try:
            timeout = attempts.timeout()
            future = method.future(request, timeout=timeout, metadata=attempts.metadata)
        except BaseException as error:
            self._window.release()
            if isinstance(error, ValueError):
                refuse_unusable(was_closed=self._closed)
            raise
        # When it is answered, not when that is read: who sends many waits here before reading any.
        future.add_done_callback(lambda _: self._window.release())
        again = partial(self._try, method, request, attempts)
        return InFlight(future.cancel, lambda: self._finish(future.result, again, attempts))

    def send_all(
        self,
        method: grpc.UnaryUnaryMultiCallable[Request, Reply],
        requests: Iterable[tuple[Part, Request]],
        deadline: Deadline,
        ahead: int = CHUNKS_IN_FLIGHT,
    ) -> Generator[tuple[Part, InFlight[Reply]], None, None]:
        """Yield what each message is about and its answer, in order, `ahead` of them under way.

        A message that finds no time left fails as if the server had not answered it in time.
        """
        sent: deque[tuple[Part, InFlight[Reply]]] = deque()
        try:
            for part, request in requests:
                refuse_unusable(was_closed=self._closed)
                try:
                    sent.append((part, self.send(method, request, deadline)))
                except errors.DeadlineExceeded as error:  # what was done before counts
                    sent.append((part, _failed(error)))
                if len(sent) >= ahead:
                    yield sent.popleft()
            while sent:
                yield sent.popleft()
        finally:
            for _, message in sent:
                message.cancel()

    def _finish(
        self, first: Callable[[], Reply], again: Callable[[], Reply], attempts: Attempts
    ) -> Reply:
        """Return the reply of the first try that is answered."""
        send = first
        while True:
            try:
                reply = send()
            except ValueError:  # gRPC's word for a channel that was closed
                refuse_unusable(was_closed=self._closed)
                raise
            except grpc.RpcError as failure:
                refuse_unusable(was_closed=self._closed)
                error = to_error(cast("Failure", failure), self.target)
                _note(self._window, error)
                for wait in attempts.waits(error):
                    time.sleep(wait)
                send = again
            else:
                self.budget.answered()
                self._window.answered()
                return reply


def _note(window: Window, error: errors.JudgedError) -> None:
    """Tell the window of a server that had no room."""
    if isinstance(error, errors.Overloaded) and error.retry_after is not None:
        window.turned_away()


@dataclass(frozen=True, slots=True)
class InFlight(Generic[Reply]):
    """A message that was sent. `finish` waits for its answer, retries included."""

    cancel: Callable[[], object]
    finish: Callable[[], Reply]


def _failed(error: errors.JudgedError) -> InFlight[Any]:
    """Return a message that was never sent."""

    def finish() -> None:
        raise error

    return InFlight(lambda: None, finish)


class AsyncConnection:
    """A connection of the asynchronous client."""

    def __init__(
        self,
        target: str | None = None,
        *,
        credentials: Credentials | None = None,
        channel: grpc.aio.Channel | None = None,
    ) -> None:
        """Connect as `AsyncClient` does. Raises InvalidArgument for what can't be used."""
        self.target = resolve(target)
        _check(self.target, credentials, given=channel is not None)
        self._tls = credentials if isinstance(credentials, Tls) else None
        self._given = (
            None if channel is None else (JudgeServiceStub(channel), StatisticsServiceStub(channel))
        )
        self._closed = False
        self._opened: dict[asyncio.AbstractEventLoop, tuple[_AsyncChannel, AsyncStubs]] = {}
        self.budget = _budget(self.target, credentials)
        self._window = Window()

    @property
    def judging(self) -> JudgeServiceAsyncStub:
        """The calls of JudgeService. Raises ClientUnusable after `close`, and after some forks."""
        return self._stubs()[0]

    @property
    def statistics(self) -> StatisticsServiceAsyncStub:
        """The calls of StatisticsService; as `judging`."""
        return self._stubs()[1]

    def _stubs(self) -> AsyncStubs:
        """Both services, over the channel of the running loop: one is opened for each."""
        refuse_unusable(was_closed=self._closed)
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if loop not in self._opened:
            for other in [other for other in self._opened if other.is_closed()]:
                del self._opened[other]
            channel: _AsyncChannel
            if self._tls is None:
                channel = grpc.aio.insecure_channel(self.target, options=OPTIONS)
            else:
                options = tls_options(self._tls)
                open_ = partial(grpc.aio.secure_channel, self.target, options=options)
                channel = TlsChannel(self._tls, open_)
            of_stubs = cast("grpc.aio.Channel", channel)
            stubs = JudgeServiceStub(of_stubs), StatisticsServiceStub(of_stubs)
            self._opened[loop] = channel, stubs
            used()
        return self._opened[loop][1]

    async def close(self) -> None:
        """Close the connection. Calls under way end with ClientUnusable, and so do later ones."""
        self._closed = True
        mine = self._opened.pop(asyncio.get_running_loop(), None)
        self._opened.clear()  # those of other loops close as they are let go
        if mine is not None and not forked():
            channel = mine[0]
            for each in channel.opened if isinstance(channel, TlsChannel) else (channel,):
                await each.close()

    async def call(
        self,
        method: Callable[..., Awaitable[Reply]],
        request: object,
        deadline: Deadline,
    ) -> Reply:
        """Return the reply of the first try that is answered."""
        attempts = Attempts(deadline, self.budget, request)
        while True:
            try:
                while not await self._window.take_soon(attempts.timeout()):
                    pass
                with self._window.held():
                    reply = await method(
                        request, timeout=attempts.timeout(), metadata=attempts.metadata
                    )
            except grpc.aio.UsageError:  # gRPC's word for a channel that was closed
                refuse_unusable(was_closed=self._closed)
                raise
            except grpc.aio.AioRpcError as failure:
                refuse_unusable(was_closed=self._closed)
                error = to_error(cast("Failure", failure), self.target)
                _note(self._window, error)
                for wait in attempts.waits(error):
                    await asyncio.sleep(wait)
            else:
                self.budget.answered()
                self._window.answered()
                return reply

    async def send_all(
        self,
        method: Callable[..., Awaitable[Reply]],
        requests: Iterable[tuple[Part, Request]],
        deadline: Deadline,
        ahead: int = CHUNKS_IN_FLIGHT,
    ) -> AsyncGenerator[tuple[Part, asyncio.Task[Reply]], None]:
        """Yield what each message is about and its answer, in order, `ahead` of them under way.

        To close it cancels what is under way.
        """
        sent: deque[tuple[Part, asyncio.Task[Reply]]] = deque()
        try:
            for part, request in requests:
                refuse_unusable(was_closed=self._closed)
                sent.append((part, asyncio.create_task(self.call(method, request, deadline))))
                await asyncio.sleep(0)  # sends it before the next is written
                if len(sent) >= ahead:
                    yield sent[0]
                    sent.popleft()
            while sent:
                yield sent[0]
                sent.popleft()
        finally:
            for _, task in sent:
                task.cancel()
            await asyncio.gather(*(task for _, task in sent), return_exceptions=True)


def _check(target: str, credentials: Credentials | None, *, given: bool) -> None:
    """Raise InvalidArgument for what can't go together; `given` says that the channel was."""
    if credentials is not None:
        what = "Token(...) or Tls(...) of judged.credentials"
        need_kind(credentials, "credentials", (Token, Tls), what)
    if not given:
        refuse_wrong(target)
        refuse_unsafe(target, credentials)
    elif credentials is not None:
        raise errors.InvalidArgument.of_field(
            "credentials", "a channel that is given has its own; leave out one of the two"
        )


def _budget(target: str, credentials: Credentials | None) -> RetryBudget:
    token = (
        credentials if isinstance(credentials, Token) or credentials is None else credentials.token
    )
    # gRPC tells a server which connection of TCP a call came by, and of a Unix socket nothing.
    is_socket = socket_path(target) is not None
    channel = (("x-judged-channel", secrets.token_hex(8)),) if is_socket else ()
    return RetryBudget(authorization=Authorization(token), channel=channel)
