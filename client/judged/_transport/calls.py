# Generated from client/judged/_transport/async_calls.py by proto/sync.py. Do not edit.
"""The loops that send, synchronous: a message until it is answered, a stream until all of it is.

When to try again is decided in `call`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import grpc

from judged._transport.call import Attempts, Deadline, Item, Stream
from judged._transport.connection import CLOSED, Connection
from judged._transport.primitives import send, sleep


def call(
    connection: Connection,
    method: Callable[..., Any],
    request: object,
    deadline: Deadline,
) -> Any:  # noqa: ANN401 - the reply of the method
    """Return the reply of the first try that is answered; each waits for a slot in the window."""
    attempts, window = Attempts(deadline, connection.budget, request), connection.window
    while True:
        try:
            while not window.take(attempts.timeout()):
                pass
            with window.held():
                reply = send(
                    method, request, timeout=attempts.timeout(), metadata=attempts.metadata
                )
        except CLOSED:
            connection.need_open()
            raise
        except grpc.RpcError as failure:
            for wait in connection.waits(failure, attempts):
                sleep(wait)
        else:
            connection.answered()
            return reply


def run_stream(
    connection: Connection,
    method: Callable[[Connection], Callable[..., Any]],
    stream: Stream[Item],
) -> Generator[Item, None]:
    """Yield what the replies bring; what breaks is opened again until everything is answered."""
    while not stream.done:
        open_ = method(connection)  # each time: raises ClientUnusable after `close`
        request, attempts = stream.request(), stream.attempts
        replies = open_(request, timeout=attempts.timeout(), metadata=attempts.metadata)
        try:
            for reply in replies:
                if (item := stream.take(reply)) is not None:
                    yield item
            stream.ended()
        except grpc.RpcError as failure:
            for wait in stream.waits(connection.error_of(failure)):
                sleep(wait)
        finally:
            replies.cancel()
