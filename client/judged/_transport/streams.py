"""The loop of a stream: what breaks is opened again until everything is answered.

What each try sends, and when there is another, is up to the stream: see `_batching.judge_stream`
and `_batching.evaluate_stream`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from typing import Any, Protocol, TypeVar, cast

import grpc

from judged._transport.call import Attempts
from judged._transport.connection import AsyncConnection, Connection
from judged._transport.status import Failure, to_error
from judged.errors import JudgedError

Item_co = TypeVar("Item_co", covariant=True)
_Open = Callable[..., Any]


class Stream(Protocol[Item_co]):
    """What is sent and taken in over all tries."""

    attempts: Attempts

    @property
    def done(self) -> bool:
        """Whether everything is answered."""

    def messages(self) -> Iterator[object]:
        """Return what the next try sends."""

    def take(self, reply: Any) -> Item_co | None:  # noqa: ANN401 - a message of this stream
        """Return what a reply brings to the caller, if anything."""

    def ended(self) -> None:
        """Note that the server ended the stream. Raises an error when it should not have."""

    def waits(self, error: JudgedError) -> Iterator[float]:
        """Return the waits in seconds before the next try; they raise the error for none."""


def run_stream(
    connection: Connection, method: Callable[[Connection], _Open], stream: Stream[Item_co]
) -> Generator[Item_co, None, None]:
    """Yield what the replies of a synchronous method bring."""
    while not stream.done:
        open_ = method(connection)  # each time: raises ClientUnusable after `close`
        messages, attempts = stream.messages(), stream.attempts
        replies = open_(messages, timeout=attempts.timeout(), metadata=attempts.metadata)
        try:
            for reply in replies:
                if (item := stream.take(reply)) is not None:
                    yield item
            stream.ended()
        except grpc.RpcError as failure:
            for wait in stream.waits(to_error(cast("Failure", failure), connection.target)):
                time.sleep(wait)
        finally:
            replies.cancel()


async def run_async_stream(
    connection: AsyncConnection,
    method: Callable[[AsyncConnection], _Open],
    stream: Stream[Item_co],
) -> AsyncGenerator[Item_co, None]:
    """Yield what the replies of an asynchronous method bring; as `run_stream`."""
    while not stream.done:
        open_ = method(connection)  # each time: raises ClientUnusable after `close`
        messages, attempts = stream.messages(), stream.attempts
        replies = open_(messages, timeout=attempts.timeout(), metadata=attempts.metadata)
        try:
            async for reply in replies:
                if (item := stream.take(reply)) is not None:
                    yield item
            stream.ended()
        except grpc.aio.AioRpcError as failure:
            for wait in stream.waits(to_error(cast("Failure", failure), connection.target)):
                await asyncio.sleep(wait)
        finally:
            replies.cancel()
