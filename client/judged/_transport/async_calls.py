"""The loops that send, asynchronous: a message until it is answered, a stream until all of it is.

When to try again is decided in `call`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

import grpc

from judged._transport.call import Attempts, Deadline, Item, Stream
from judged._transport.connection import CLOSED, AsyncConnection
from judged._transport.primitives import async_send, async_sleep


async def async_call(
    connection: AsyncConnection,
    method: Callable[..., Any],
    request: object,
    deadline: Deadline,
) -> Any:  # noqa: ANN401 - the reply of the method
    """Return the reply of the first try that is answered; each waits for a slot in the window."""
    attempts, window = Attempts(deadline, connection.budget, request), connection.window
    while True:
        try:
            while not await window.async_take(attempts.timeout()):
                pass
            with window.held():
                reply = await async_send(
                    method, request, timeout=attempts.timeout(), metadata=attempts.metadata
                )
        except CLOSED:
            connection.need_open()
            raise
        except grpc.RpcError as failure:
            for wait in connection.waits(failure, attempts):
                await async_sleep(wait)
        else:
            connection.answered()
            return reply


async def async_run_stream(
    connection: AsyncConnection,
    method: Callable[[AsyncConnection], Callable[..., Any]],
    stream: Stream[Item],
) -> AsyncGenerator[Item, None]:
    """Yield what the replies bring; what breaks is opened again until everything is answered."""
    while not stream.done:
        open_ = method(connection)  # each time: raises ClientUnusable after `close`
        request, attempts = stream.request(), stream.attempts
        replies = open_(request, timeout=attempts.timeout(), metadata=attempts.metadata)
        try:
            async for reply in replies:
                if (item := stream.take(reply)) is not None:
                    yield item
            stream.ended()
        except grpc.RpcError as failure:
            for wait in stream.waits(connection.error_of(failure)):
                await async_sleep(wait)
        finally:
            replies.cancel()
