"""The connection under a client: opened, closed, and the one loop that tries a message again.

Owns what `client` and `aio` do below their methods, once for each. When to try again is decided in
`_call`; the streams of a scoring, which go on instead of starting over, are in `_score_stream`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Never, Self, TypeVar, cast

import grpc

from judged import _channel
from judged._call import Attempts, Deadline, RetryBudget
from judged._status import Failure, to_error
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

Reply = TypeVar("Reply")
Request = TypeVar("Request")


class _Closed:
    """Stands for the calls of a client that is closed."""

    def __getattr__(self, name: str) -> Never:
        raise RuntimeError("the client is closed; make another, or call it before it is closed")


class Connection:
    """A connection of the synchronous client."""

    def __init__(self, target: str | None = None, *, channel: grpc.Channel | None = None) -> None:
        """Connect to `target` ("HOST:PORT", "unix:PATH"), else JUDGED_TARGET, else the default.

        `channel` takes the place of a connection of our own, for TLS or tests; it is not closed.
        """
        self.target = _channel.resolve(target)
        self._owned = channel is None
        self._channel = channel or grpc.insecure_channel(self.target, options=_channel.OPTIONS)
        self._stub = JudgeServiceStub(self._channel)
        self._budget = RetryBudget()

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
        """Close the connection."""
        if self._owned:
            self._channel.close()
            self._stub = cast("JudgeServiceStub", _Closed())

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
        future = method.future(request, timeout=attempts.timeout(), metadata=attempts.metadata)

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
            except grpc.RpcError as failure:
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
        self.target = _channel.resolve(target)
        self._owned = channel is None
        self._channel = channel or grpc.aio.insecure_channel(self.target, options=_channel.OPTIONS)
        self._stub = JudgeServiceStub(self._channel)
        self._budget = RetryBudget()

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
        """Close the connection."""
        if self._owned:
            await self._channel.close()
            self._stub = cast("Any", _Closed())

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
            except grpc.aio.AioRpcError as failure:
                error = to_error(cast("Failure", failure), self.target)
                for wait in attempts.waits(error):
                    await asyncio.sleep(wait)
            else:
                self._budget.answered()
                return reply
