"""A name server on this machine, for names with several addresses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from socketserver import BaseRequestHandler, UDPServer

_ADDRESS_OF_4_BYTES = b"\0\1\0\1"
"""The type A and the class IN, with which a question ends."""


@contextmanager
def name_server(addresses: Sequence[str]) -> Iterator[str]:
    """Yield the address of a name server for which every name has these addresses."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            query, channel = self.request
            question = query[12 : query.index(b"\0", 12) + 5]
            known = addresses if question.endswith(_ADDRESS_OF_4_BYTES) else ()
            head = query[:2] + b"\x81\x80\0\1" + len(known).to_bytes(2) + bytes(4)
            # Each record: the name by its place in the query, its kind, 60 s to live, 4 bytes.
            start = b"\xc0\x0c" + _ADDRESS_OF_4_BYTES + b"\0\0\0\x3c\0\4"
            records = (start + socket.inet_aton(each) for each in known)
            channel.sendto(head + question + b"".join(records), self.client_address)

    with UDPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield "{}:{}".format(*server.server_address)
        server.shutdown()
