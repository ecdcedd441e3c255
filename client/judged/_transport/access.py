"""How a channel reaches a server: its address, its settings, TLS and the token."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path

import grpc

from judged import errors
from judged.credentials import Credentials, File, Tls, Token, check_token

DEFAULT_TARGET = "127.0.0.1:8470"

OPTIONS: tuple[tuple[str, int | str], ...] = (
    # A name with several addresses is a service of several replicas: calls go to each in turn.
    ("grpc.lb_policy_name", "round_robin"),
    # Retries are this client's own loop: a service config can't tell a busy server from a message
    # that is too large.
    ("grpc.enable_retries", 0),
    # gRPC would take the proxy of http_proxy even to this machine, and without TLS it reads along.
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # gRPC's own pause between attempts to connect grows to two minutes, in which all calls fail.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.min_reconnect_backoff_ms", 5_000),
)


_LONGEST_SOCKET_PATH = 107
"""Bytes that a Unix socket's path may have."""
_OF_GRPC = re.compile(r"(dns|ipv4|ipv6|unix-abstract|vsock|xds|google-c2p):", re.IGNORECASE)
_HOST_PORT = re.compile(r"(\[[^]]+\]|[^:/]+):(?P<port>[0-9]{1,5})")
_LAST_PORT = 65_535


def refuse_wrong(target: str) -> None:
    """Raise InvalidArgument for an address that gRPC would not understand as it was meant.

    gRPC takes port 443 where there is none, a name for what stands before "://", and what is left
    of a port after a division.
    """
    if (path := socket_path(target)) is not None:
        right = 0 < len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH
    elif parts := _HOST_PORT.fullmatch(target):
        right = 0 < int(parts["port"]) <= _LAST_PORT
    else:
        right = bool(_OF_GRPC.match(target))
    if not right:
        how = f"write HOST:PORT without a scheme, as in {DEFAULT_TARGET}, or unix:PATH, of"
        rule = f"{target!r}: {how} {_LONGEST_SOCKET_PATH} bytes at most"
        raise errors.InvalidArgument.of_field("target", rule)


def socket_path(target: str) -> str | None:
    """Return the path of a Unix socket; None for other addresses."""
    if not target.startswith("unix:"):
        return None
    return target.removeprefix("unix:").removeprefix("//")


HINT = "is judged-server running there, with TLS on both sides or neither (Tls(...), --tls-ca)?"
"""What to look at when an address can't be reached: gRPC seldom tells a failed handshake."""


USED_BY: set[int] = set()
"""The processes that used gRPC, of this one and those that it was forked from.

Threads of gRPC do not survive a fork.
"""


def forked() -> bool:
    """Say whether this process was forked from one that had used gRPC: gRPC may hang here.

    Closed clients count: gRPC's threads end some time after a close, and nothing tells when. Of 600
    forks right behind a close 34 hung.
    """
    return bool(USED_BY - {os.getpid()})


Metadata = tuple[tuple[str, str], ...]


class Authorization:
    """The token of a client, as metadata of its calls. Safe to share between threads."""

    def __init__(self, token: Token | None) -> None:
        self._file = None if token is None or token.file is None else Path(token.file)
        self._metadata = _metadata(token.value) if token is not None and token.value else ()

    def metadata(self) -> Metadata:
        """Return the metadata; () without a token. Raises InvalidArgument for a bad file."""
        if self._file is not None:
            try:
                token = self._file.read_text("utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                if not self._metadata:
                    raise _unreadable("token file", self._file, error) from None
                # It is being replaced: the last one counts on.
            else:
                check_token(token, f"credentials: the token file {self._file}")
                self._metadata = _metadata(token)
        return self._metadata


def channel_credentials(tls: Tls) -> grpc.ChannelCredentials:
    """Return what gRPC makes a channel with. Raises InvalidArgument for files that can't be."""
    return grpc.ssl_channel_credentials(_pem(tls.ca), _pem(tls.key), _pem(tls.certificate))


def refuse_unsafe(target: str, credentials: Credentials | None) -> None:
    """Raise InvalidArgument for a token that would cross a network in the open.

    And for credentials that are none, or that the server has no use for.
    """
    if not isinstance(credentials, Token | Tls | None):
        given = type(credentials).__name__
        rule = f"must be Token(...) or Tls(...) of judged.credentials, not {given}"
    elif isinstance(credentials, Token) and not is_local(target):
        rule = (
            f"a token is not sent to {target} without TLS, where others could read it; use "
            "Tls(token=...), or --tls-ca with a command"
        )
    elif isinstance(credentials, Tls) and socket_path(target) is not None:
        rule = f"{target} is a Unix socket, which has no TLS; give the Token alone"
    elif isinstance(credentials, Tls) and "," in target and credentials.name is None:
        rule = (
            "a list of addresses has no name that certificates could have; give the one that all "
            "of theirs have, by Tls(name=...) or --tls-name"
        )
    else:
        return
    raise errors.InvalidArgument.of_field("credentials", rule)


def is_local(target: str) -> bool:
    """Say whether what is sent to an address stays on this machine, whatever a name may mean."""
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    host = target.rpartition(":")[0].rpartition("/")[2].removeprefix("ipv4:").removeprefix("ipv6:")
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _metadata(token: str) -> Metadata:
    return (("authorization", f"Bearer {token}"),)


def _pem(file: File | None) -> bytes | None:
    if file is None:
        return None
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise _unreadable("file", Path(file), error) from None
    if b"-----BEGIN" not in content:
        raise errors.InvalidArgument.of_field("credentials", f"{os.fspath(file)} is no PEM file")
    return content


def _unreadable(what: str, file: Path, error: Exception) -> errors.InvalidArgument:
    why = (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8"
    return errors.InvalidArgument.of_field("credentials", f"the {what} {file} can't be read: {why}")
