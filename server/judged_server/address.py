"""Addresses to listen on: parses them, and tells which ones other machines can reach."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISSOCK


class AddressError(Exception):
    """An address that can't be used. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """A TCP address or a Unix socket."""

    host: str = ""
    port: int = 0
    path: Path | None = None

    @classmethod
    def parse(cls, text: str, setting: str = "listen") -> Address:
        """Return the address written as HOST:PORT, [IPV6]:PORT or unix:PATH in a setting."""
        if text.startswith("unix:"):
            path = text.removeprefix("unix:")
            if not path:
                raise AddressError(
                    f"{setting}: unix: needs a path, for example unix:/run/judged.sock"
                )
            return cls(path=Path(path).absolute())
        host, colon, port = text.rpartition(":")
        # int() accepts digits of any script; clients accept only ASCII.
        if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
            raise AddressError(
                f"{setting}: {text!r} is neither HOST:PORT, with a port from 0 to 65535, nor "
                "unix:PATH"
            )
        return cls(host=host.removeprefix("[").removesuffix("]") or "127.0.0.1", port=int(port))

    def __str__(self) -> str:
        """Return the address as gRPC and `--target` take it."""
        if self.path is not None:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.path is not None:
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def refuse_taken(self, setting: str = "listen") -> None:
        """Raise AddressError when another process listens on this Unix socket, or it is a file.

        gRPC unlinks an existing socket file even if a process listens on it, so it would silently
        take over from a running server.
        """
        if self.path is None:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            try:
                if not S_ISSOCK(self.path.stat().st_mode):
                    raise AddressError(f"{setting}: {self.path} is no socket; pick another path")
                probe.connect(str(self.path))
            except OSError:  # nothing is there, or binding says why it can't be used
                return
        raise AddressError(
            f"{setting}: another server listens on unix:{self.path}; stop it or pick a path"
        )

    def remove(self) -> None:
        """Remove the file of the Unix socket, if it is one."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


@contextmanager
def socket_mode(mode: str) -> Iterator[None]:
    """Give Unix sockets that are made in a `with` these permissions, in octal."""
    mask = os.umask(0o777 & ~int(mode, 8))
    try:
        yield
    finally:
        os.umask(mask)
