"""The loops that send, asynchronous: a message until it is answered, a stream until all of it is.

When to try again is decided in `call`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import grpc

from judged import errors
from judged._transport.call import Deadline, Item, Stream
from judged._transport.connection import CLOSED, AsyncConnection
from judged._transport.primitives import async_result, async_send, async_sleep


async def async_call(
    connection: AsyncConnection, method: str, request: object, deadline: Deadline
) -> Any:  # noqa: ANN401 - the reply of the method
    """Return the reply of the first try that is answered; each waits for a slot in the window."""
    attempts = connection.attempts(deadline, request)
    while True:
        try:
            with connection.window.slot() as slot:
                await async_result(slot, attempts.timeout())
                reply = await async_send(
                    connection.method(method),
                    request,
                    timeout=attempts.timeout(),
                    metadata=attempts.metadata,
                )
        except TimeoutError:
            continue  # there is no time left
        except CLOSED:
            connection.need_open()
            raise
        except grpc.RpcError as failure:
            error = connection.error_of(failure)
            if isinstance(error, errors.Overloaded) and error.retry_after is not None:
                connection.window.turned_away()
            for wait in attempts.waits(error):
                await async_sleep(wait)
        else:
            connection.budget.answered()
            connection.window.answered()
            return reply


async def async_run_stream(
    connection: AsyncConnection, method: str, stream: Stream[Item], deadline: Deadline
) -> AsyncGenerator[Item, None]:
    """Yield what the replies bring; what breaks is opened again until everything is answered."""
    attempts = connection.attempts(deadline)
    while not stream.done:
        open_ = connection.method(method)  # each time: raises ClientUnusable after `close`
        replies: Any = None
        try:
            timeout, stream.progressed = attempts.timeout(), False
            replies = open_(stream.request(), timeout=timeout, metadata=attempts.metadata)
            async for reply in replies:
                connection.budget.answered()
                if (item := stream.take(reply)) is not None:
                    yield item
            stream.ended()
            attempts.begin()
        except (grpc.RpcError, errors.JudgedError) as failure:
            for wait in stream.waits(connection.error_of(failure), attempts):
                await async_sleep(wait)
        finally:
            if replies is not None:
                replies.cancel()
    for item in stream.rest():
        yield item
