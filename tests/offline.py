"""Runs a command that has no network but loopback: `python -m tests.offline pytest tests/unit`.

The kernel denies it (a network namespace of its own, Linux only), so that it holds for gRPC's C
core and for every process that the command starts, whatever it is written in: a connection to
anything but loopback is "unreachable", a name other than localhost does not resolve. Unix sockets
work.
Where the kernel allows no namespace, the command runs with the network as it is, and says so.
`JUDGED_TESTS_NETWORK` tells the command which of the two it got.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

NETWORK = "JUDGED_TESTS_NETWORK"
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # CLONE_NEWUSER, CLONE_NEWNET of linux/sched.h
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP


def deny_network() -> None:
    """Leave this process and its children loopback and Unix sockets. Raises OSError."""
    if sys.platform != "linux":
        raise OSError("only Linux has network namespaces")
    user, group = os.getuid(), os.getgid()
    try:
        _unshare(_NEW_NETWORK)
    except PermissionError:  # not root: then as the root of a user namespace, with the same ids
        _unshare(_NEW_USER | _NEW_NETWORK)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _raise_loopback()


def _unshare(flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _raise_loopback() -> None:
    """Set the interface `lo` up: in a new namespace it is down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(any_socket, _GET_FLAGS, asked), 16)
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags | _UP))


def main(command: list[str]) -> None:
    """Become the command."""
    try:
        deny_network()
        os.environ[NETWORK] = "denied"
    except OSError as error:
        os.environ[NETWORK] = "open"
        print(f"tests.offline: the network stays open: {error}", file=sys.stderr)
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
