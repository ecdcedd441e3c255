"""A TCP proxy that can cut its connections: at once, or when the next bytes of a reply come.

It can also take no new ones for a while.

What was cut off reached the server, and its answer never the client.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class CuttingProxy:
    """A running proxy. `drop_when` is asked before bytes go back: a yes cuts in their place."""

    address: str = ""
    drop_when: Callable[[], bool] | None = None
    is_down: bool = False
    dropped: int = 0
    _upstream: str = ""
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop | None = None

    def cut(self) -> None:
        """Cut all connections now; new ones are taken."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._cut)

    def _cut(self) -> None:
        self.dropped += 1
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            writer.transport.abort()
            return
        host, port = self._upstream.rsplit(":", 1)
        there, back = await asyncio.open_connection(host, int(port))
        self._open |= {writer, back}
        try:
            with suppress(OSError):
                await asyncio.gather(self._pump(reader, back), self._answer(there, writer))
        finally:
            self._open -= {writer, back}
            writer.close()
            back.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            if self.drop_when is not None and self.drop_when():
                self._cut()
                return
            writer.write(data)
            await writer.drain()
        writer.transport.abort()


@contextmanager
def cutting_proxy(upstream: str) -> Iterator[CuttingProxy]:
    """Yield a proxy before `upstream`, on a thread of its own."""
    proxy = CuttingProxy(_upstream=upstream)
    started, loop, over = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        proxy._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(proxy._serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        proxy.address = f"{host}:{port}"
        started.set()
        await over.wait()
        server.close()
        for writer in list(proxy._open):
            writer.transport.abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert started.wait(10)
        yield proxy
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)
        loop.close()
