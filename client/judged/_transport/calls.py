# Generated from client/judged/_transport/async_calls.py by proto/sync.py. Do not edit.
"""The synchronous send loops: retry a message, or a stream, until it is fully answered.

`call` decides when to retry.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import grpc

from judged import errors
from judged._transport.call import Deadline, Item, Stream
from judged._transport.connection import CLOSED, Connection
from judged._transport.primitives import send, sleep, slot


def call(connection: Connection, method: str, request: object, deadline: Deadline) -> Any:  # noqa: ANN401 - the reply of the method
    """Send a message, with retries, and return the reply; each try waits for a slot."""
    attempts = connection.attempts(deadline, request)
    while True:
        try:
            here = connection.here()
            with slot(here.window, attempts.timeout()):
                reply = send(
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
            sleep(attempts.wait_after(connection.error_of(failure)))
        else:
            connection.patience.answered()
            return reply


def run_stream(
    connection: Connection, method: str, stream: Stream[Item], deadline: Deadline
) -> Generator[Item, None]:
    """Yield the items of the replies; reopen a broken stream until everything is answered."""
    attempts = connection.attempts(deadline)
    while not stream.done:
        open_ = connection.here().methods[method]  # on every try: raises once the client is closed
        replies: Any = None
        try:
            timeout, stream.progressed = attempts.timeout(), False
            replies = open_(stream.request(), timeout=timeout, metadata=attempts.metadata)
            for reply in replies:
                connection.patience.answered()
                if (item := stream.take(reply)) is not None:
                    yield item
            stream.ended()
            attempts.begin()
        except (grpc.RpcError, errors.JudgedError) as failure:
            sleep(stream.wait_after(connection.error_of(failure), attempts))
        finally:
            if replies is not None:
                replies.cancel()
    for item in stream.rest():
        yield item
