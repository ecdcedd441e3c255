"""An HTTP proxy as http_proxy names one: it tunnels what says CONNECT, and keeps what it reads."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class ConnectProxy:
    """A running proxy: its URL, and every byte that callers sent through it, in order."""

    url: str
    read: bytearray = field(default_factory=bytearray)

    def serve(self, listener: socket.socket) -> None:
        """Serve until the listener is closed."""
        with suppress(OSError):
            while True:
                caller, _ = listener.accept()
                threading.Thread(target=self._tunnel, args=(caller,), daemon=True).start()

    def _tunnel(self, caller: socket.socket) -> None:
        with caller, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head and (part := caller.recv(1 << 16)):
                self.read += part
                head += part
            words = head.split(maxsplit=2)
            if words[:1] != [b"CONNECT"]:
                return
            host, _, port = words[1].decode().rpartition(":")
            with socket.create_connection((host.strip("[]"), int(port))) as server:
                caller.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                threading.Thread(target=_pump, args=(server, caller), daemon=True).start()
                while part := caller.recv(1 << 16):
                    self.read += part
                    server.sendall(part)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(1 << 16):
            sink.sendall(part)


@contextmanager
def connect_proxy() -> Iterator[ConnectProxy]:
    """Yield a proxy on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = ConnectProxy(f"http://127.0.0.1:{listener.getsockname()[1]}")
        threading.Thread(target=proxy.serve, args=(listener,), daemon=True).start()
        yield proxy
        listener.shutdown(socket.SHUT_RDWR)
