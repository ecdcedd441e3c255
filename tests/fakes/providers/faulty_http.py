"""An HTTP server that misbehaves on purpose: each connection is a socket and a script of bytes.

A behaviour gets a Connection and does what it likes with it: answer, answer by halves, say nothing,
reset. Nothing here knows HTTP beyond finding the end of a request.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass
class Connection:
    """One connection, after a whole request has been read from it."""

    request: bytes
    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def closed(self) -> None:
        """Return once the other side has closed the connection."""
        with suppress(ConnectionError):
            while await self._reader.read(1 << 16):
                pass

    def reset(self) -> None:
        """Close with a TCP reset in place of an orderly end."""
        raw = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._writer.transport.abort()


Behaviour = Callable[[Connection], Awaitable[None]]


@dataclass
class FaultyHttp:
    """A running server. Connections are closed when their behaviour returns."""

    behaviour: Behaviour
    url: str = ""
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            request = await _whole_request(reader)
            self.requests.append(request)
            await self.behaviour(Connection(request, reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    async def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _whole_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return head + await reader.readexactly(length)


@asynccontextmanager
async def faulty_http(
    behaviour: Behaviour, tls: ssl.SSLContext | None = None
) -> AsyncIterator[FaultyHttp]:
    """A server on a port of its own, for as long as the block runs."""
    faulty = FaultyHttp(behaviour)
    server = await asyncio.start_server(faulty.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    faulty.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield faulty
    finally:
        server.close()
        await faulty.stop()
        await server.wait_closed()


def reply(
    body: bytes, status: str = "200 OK", *headers: str, kind: str = "application/json"
) -> bytes:
    """A whole response with a Content-Length."""
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
    ]
    return "\r\n".join((*lines, "", "")).encode() + body


def chunked(body: bytes, size: int = 16) -> bytes:
    """A whole response in chunks."""
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (*parts, b""))


def completion(text: str = "YES") -> bytes:
    """The body of a good answer."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    return json.dumps({"model": "m-1", "choices": [choice], "usage": usage}).encode()


def always(response: bytes) -> Behaviour:
    """Answer every request with the same bytes, then close."""

    async def behave(connection: Connection) -> None:
        await connection.send(response)

    return behave
