"""Where the server listens: parsing, and who can reach it."""

from __future__ import annotations

import errno
import ipaddress
import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

LONGEST_SOCKET_PATH = 107
"""Bytes that the kernel takes."""


class AddressError(Exception):
    """The address can't be used. The message says what to do."""


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
            absolute = Path(path).absolute()
            if (length := len(os.fsencode(absolute))) > LONGEST_SOCKET_PATH:
                raise AddressError(
                    f"{setting}: the path {absolute} has {length} bytes, and a Unix socket's may "
                    f"have {LONGEST_SOCKET_PATH}; pick a shorter one"
                )
            return cls(path=absolute)
        host, colon, port = text.rpartition(":")
        # int() takes the digits of every script, of which no client knows all but these.
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
        """Raise AddressError when nobody can listen here, or another process does.

        gRPC does not tell why it can't listen. And it unlinks a socket file that it finds, whether
        or not somebody listens on it, and would silently take over from a running server.
        """
        if self.path is None:
            self._refuse_taken_port(setting)
            return
        if not self.path.parent.is_dir():
            raise AddressError(
                f"{setting}: there is no folder {self.path.parent} for the socket; make it, or "
                "pick another path"
            )
        if not os.access(self.path.parent, os.W_OK):
            raise AddressError(
                f"{setting}: the folder {self.path.parent} can't be written to, for the socket; "
                "let the server's user write to it, or pick another path"
            )
        if not self.path.exists():
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            try:
                probe.connect(str(self.path))
            except OSError:
                return
        raise AddressError(
            f"{setting}: another server listens on unix:{self.path}; stop it or pick a path"
        )

    def _refuse_taken_port(self, setting: str) -> None:
        try:
            self._bind_once()
        except OSError as error:
            step = "name an address of this machine with"
            if error.errno == errno.EADDRINUSE:
                step = "stop what listens there, or set"
            raise AddressError(
                f"{setting}: can't listen on {self}: {error.strerror}; {step} "
                f"--{setting.replace('_', '-')}"
            ) from None

    def _bind_once(self) -> None:
        """Raise OSError when none of the addresses that a name may have can be bound."""
        failed: OSError | None = None
        for family, kind, _, _, where in socket.getaddrinfo(
            self.host, self.port, type=socket.SOCK_STREAM
        ):
            try:
                with socket.socket(family, kind) as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(where)
                    return
            except OSError as error:
                failed = error
        if failed is not None:
            raise failed


def share_socket(path: Path, mode: str, group: str, owner: str = "") -> None:
    """Give a Unix socket its mode, in octal, its group and its owner, "" for that of the process.

    Raises AddressError.
    """
    try:
        if group:
            shutil.chown(path, group=group)
        # The owner last: whoever is not root has no more to say then.
        path.chmod(int(mode, 8))
        if owner:
            shutil.chown(path, user=owner)
    except LookupError as error:
        raise AddressError(
            f"{path}: socket_owner or socket_group: {error}; see getent passwd and getent group"
        ) from None
    except OSError as error:
        raise AddressError(
            f"{path}: its owner, group or mode can't be set: {error.strerror}; the server's user "
            "must be in the group, and only root can give a socket to another owner"
        ) from None
