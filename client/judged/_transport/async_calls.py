"""The asynchronous send loops: retry a message, or a stream, until it is fully answered.

`call` decides when to retry.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import grpc

from judged import errors
from judged._transport.call import Deadline, Item, Stream
from judged._transport.connection import CLOSED, AsyncConnection
from judged._transport.primitives import async_send, async_sleep, async_slot


async def async_call(
    connection: AsyncConnection, method: str, request: object, deadline: Deadline
) -> Any:  # noqa: ANN401 - the reply of the method
    """Send a message, with retries, and return the reply; each try waits for a slot."""
    attempts = connection.attempts(deadline, request)
    while True:
        try:
            here = connection.here()
            async with async_slot(here.window, attempts.timeout()):
                reply = await async_send(
                    here.methods[method],
                    request,
                    timeout=attempts.timeout(),
                    metadata=attempts.metadata,
                )
        except TimeoutError:
            continue  # the deadline is over: `timeout` raises
        except CLOSED:
            connection.need_open()
            raise
        except grpc.RpcError as failure:
            await async_sleep(attempts.wait_after(connection.error_of(failure)))
        else:
            connection.patience.answered()
            return reply


async def async_run_stream(
    connection: AsyncConnection, method: str, stream: Stream[Item], deadline: Deadline
) -> AsyncGenerator[Item, None]:
    """Yield the items of the replies; reopen a broken stream until everything is answered."""
    attempts = connection.attempts(deadline)
    while not stream.done:
        open_ = connection.here().methods[method]  # on every try: raises once the client is closed
        replies: Any = None
        try:
            timeout, stream.progressed = attempts.timeout(), False
            replies = open_(stream.request(), timeout=timeout, metadata=attempts.metadata)
            async for reply in replies:
                connection.patience.answered()
                if (item := stream.take(reply)) is not None:
                    yield item
            stream.ended()
            attempts.begin()
        except (grpc.RpcError, errors.JudgedError) as failure:
            await async_sleep(stream.wait_after(connection.error_of(failure), attempts))
        finally:
            if replies is not None:
                replies.cancel()
    for item in stream.rest():
        yield item
