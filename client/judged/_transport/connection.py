"""The connection under a client: opened, closed, and the one loop that tries a message again.

When to try again is decided in `call`; the streams of a scoring, which go on instead of starting
over, are in `_batching.score_stream`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar, cast

import grpc

from judged._transport.call import Attempts, Deadline, RetryBudget
from judged._transport.channel import (
    OPTIONS,
    closed,
    forked_open,
    opened,
    refuse_unusable,
    refuse_wrong,
    resolve,
)
from judged._transport.status import Failure, to_error
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

if TYPE_CHECKING:
    from judged.v1.judge_service_pb2_grpc import JudgeServiceAsyncStub

Reply = TypeVar("Reply")
Request = TypeVar("Request")


class Connection:
    """A connection of the synchronous client."""

    def __init__(self, target: str | None = None, *, channel: grpc.Channel | None = None) -> None:
        """Connect to `target` ("HOST:PORT", "unix:PATH"), else JUDGED_TARGET, else the default.

        `channel` takes the place of a connection of our own, for TLS or tests; it is not closed.
        """
        self.target = resolve(target)
        self._owned = channel is None
        self._closed = False
        if channel is None:
            refuse_wrong(self.target)
            refuse_unusable(was_closed=False)
            channel = grpc.insecure_channel(self.target, options=OPTIONS)
        opened(self)
        self._channel = channel
        self._stub_of_channel = JudgeServiceStub(channel)
        self._budget = RetryBudget()

    @property
    def _stub(self) -> JudgeServiceStub:
        """The calls. Raises ClientUnusable after `close`, and after some forks."""
        refuse_unusable(was_closed=self._closed)
        return self._stub_of_channel

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Calls under way end with ClientUnusable, and so do later ones."""
        self._closed = True
        closed(self)
        if self._owned and not forked_open():
            self._channel.close()

    def _call(self, method: Callable[..., Reply], request: object, deadline: Deadline) -> Reply:
        attempts = Attempts(deadline, self._budget, request)

        def send() -> Reply:
            return method(request, timeout=attempts.timeout(), metadata=attempts.metadata)

        return self._finish(send, send, attempts)

    def _send(
        self,
        method: grpc.UnaryUnaryMultiCallable[Request, Reply],
        request: Request,
        deadline: Deadline,
    ) -> InFlight[Reply]:
        """Send a message without waiting for its answer."""
        attempts = Attempts(deadline, self._budget, request)
        timeout = attempts.timeout()
        try:
            future = method.future(request, timeout=timeout, metadata=attempts.metadata)
        except ValueError:
            refuse_unusable(was_closed=self._closed)
            raise

        def again() -> Reply:
            return method(request, timeout=attempts.timeout(), metadata=attempts.metadata)

        return InFlight(future.cancel, lambda: self._finish(future.result, again, attempts))

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
                for wait in attempts.waits(error):
                    time.sleep(wait)
                send = again
            else:
                self._budget.answered()
                return reply


@dataclass(frozen=True, slots=True)
class InFlight(Generic[Reply]):
    """A message that was sent. `finish` waits for its answer, retries included."""

    cancel: Callable[[], object]
    finish: Callable[[], Reply]


class AsyncConnection:
    """A connection of the asynchronous client."""

    def __init__(
        self, target: str | None = None, *, channel: grpc.aio.Channel | None = None
    ) -> None:
        """Connect to `target` ("HOST:PORT", "unix:PATH"), else JUDGED_TARGET, else the default.

        `channel` takes the place of a connection of our own, for TLS or tests; it is not closed.
        """
        self.target = resolve(target)
        if channel is None:
            refuse_wrong(self.target)
        self._given = None if channel is None else JudgeServiceStub(channel)
        self._closed = False
        self._opened: dict[
            asyncio.AbstractEventLoop, tuple[grpc.aio.Channel, JudgeServiceAsyncStub]
        ] = {}
        self._budget = RetryBudget()

    @property
    def _stub(self) -> JudgeServiceAsyncStub:
        """The calls, over a channel that belongs to the running loop: one is opened for each.

        Raises ClientUnusable after `close`, and after some forks.
        """
        refuse_unusable(was_closed=self._closed)
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if loop not in self._opened:
            for other in [other for other in self._opened if other.is_closed()]:
                del self._opened[other]
            channel = grpc.aio.insecure_channel(self.target, options=OPTIONS)
            self._opened[loop] = channel, JudgeServiceStub(channel)
            opened(self)
        return self._opened[loop][1]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. Calls under way end with ClientUnusable, and so do later ones."""
        self._closed = True
        closed(self)
        mine = self._opened.pop(asyncio.get_running_loop(), None)
        self._opened.clear()  # those of other loops close as they are let go
        if mine is not None and not forked_open():
            await mine[0].close()

    async def _call(
        self,
        method: Callable[..., Awaitable[Reply]],
        request: object,
        deadline: Deadline,
    ) -> Reply:
        """Return the reply of the first try that is answered."""
        attempts = Attempts(deadline, self._budget, request)
        while True:
            try:
                reply = await method(
                    request, timeout=attempts.timeout(), metadata=attempts.metadata
                )
            except grpc.aio.UsageError:  # gRPC's word for a channel that was closed
                refuse_unusable(was_closed=self._closed)
                raise
            except grpc.aio.AioRpcError as failure:
                refuse_unusable(was_closed=self._closed)
                error = to_error(cast("Failure", failure), self.target)
                for wait in attempts.waits(error):
                    await asyncio.sleep(wait)
            else:
                self._budget.answered()
                return reply
