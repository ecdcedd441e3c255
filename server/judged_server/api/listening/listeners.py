"""The addresses that a server listens on: its own, and the Unix sockets of its tenants.

Each has a gRPC server of its own over the same handlers, since gRPC does not tell a handler by
which socket a call came.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

from judged_server.address import Address, AddressError, share_socket
from judged_server.api.authentication import Authenticator

if TYPE_CHECKING:  # its import brings a library that most servers never need
    from judged_server.api.listening.certificates import Certificates


@dataclass(frozen=True, slots=True)
class Listener:
    """An address, who may open its socket, and who calls by it: everybody, without `callers`."""

    address: Address
    socket_mode: str = "0660"
    socket_owner: str = ""
    socket_group: str = ""
    callers: Authenticator | None = None
    certificates: Certificates | None = None


class Listeners:
    """The gRPC servers of some listeners. Used on one event loop."""

    def __init__(
        self,
        options: tuple[tuple[str, int], ...],
        register: Callable[[grpc.aio.Server, Authenticator | None], object],
    ) -> None:
        """`options` are gRPC's; `register` adds handlers to a server, for its address's callers."""
        self._options = options
        self._register = register
        self._servers: list[grpc.aio.Server] = []
        self.addresses: list[Address] = []

    async def open(self, listeners: list[Listener]) -> None:
        """Listen on every address; raises AddressError. `addresses` has them with their ports."""
        for listener in listeners:
            server = grpc.aio.server(options=self._options)
            self._register(server, listener.callers)
            self._servers.append(server)
            self.addresses.append(_bind(server, listener))
        for server in self._servers:
            await server.start()

    async def close(self, grace_s: float) -> None:
        """Take no more calls; end those that are left after some seconds."""
        await asyncio.gather(*(server.stop(grace_s) for server in self._servers))
        self.remove_sockets()

    def remove_sockets(self) -> None:
        """Remove the files that say that a server is here."""
        for address in self.addresses:
            if address.path is not None:
                address.path.unlink(missing_ok=True)


def _bind(server: grpc.aio.Server, listener: Listener) -> Address:
    address = listener.address
    # Nobody else's from the moment the socket exists; owner, group and mode follow.
    mask = os.umask(0o177) if address.path is not None else None
    try:
        if listener.certificates is None:
            port = server.add_insecure_port(str(address))
        else:
            port = server.add_secure_port(str(address), listener.certificates.credentials())
    except RuntimeError:
        raise AddressError(
            f"can't listen on {address}; is another server there, or is the path not writable?"
        ) from None
    finally:
        if mask is not None:
            os.umask(mask)
    if address.path is None:
        return Address(address.host, port)
    share_socket(address.path, listener.socket_mode, listener.socket_group, listener.socket_owner)
    return address
