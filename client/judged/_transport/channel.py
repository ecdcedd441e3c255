"""The settings of a channel: where to, and what gRPC must not do by itself."""

from __future__ import annotations

import os
import re
from pathlib import Path

from judged import errors

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


LONGEST_SOCKET_PATH = 107
"""Bytes that a Unix socket's path may have."""
_WRONG_SCHEME = re.compile(r"(https?|grpcs?|tcp)://(.*)", re.IGNORECASE)
_OF_GRPC = re.compile(r"(dns|ipv4|ipv6|unix-abstract|vsock|xds|google-c2p):", re.IGNORECASE)
_HOST_PORT = re.compile(r"(\[[^]]+\]|[^:/]+):(?P<port>[0-9]+)")
_LAST_PORT = 65_535


def resolve(target: str | None) -> str:
    """Return the address to call: the one given, else JUDGED_TARGET, else the default port."""
    chosen = target or os.environ.get("JUDGED_TARGET") or DEFAULT_TARGET
    return chosen.strip()


def refuse_wrong(target: str) -> None:
    """Raise InvalidArgument for an address that gRPC would not understand as it was meant."""
    if (wrong := fault(target)) is not None:
        raise errors.InvalidArgument.of_field("target", f"{target!r}: {wrong}")


def fault(target: str) -> str | None:
    """Return what is wrong with the form of an address, and how to write it; None when it is right.

    gRPC takes port 443 where there is none, and a name for what stands before "://".
    """
    if scheme := _WRONG_SCHEME.fullmatch(target):
        rest = scheme[2].rstrip("/")
        return f"write HOST:PORT without {scheme[1]}://, as in {rest or DEFAULT_TARGET}"
    if (path := socket_path(target)) is not None:
        length = len(os.fsencode(path))
        most = f"needs a path of 1 to {LONGEST_SOCKET_PATH} bytes, as in unix:/run/judged.sock"
        return None if 0 < length <= LONGEST_SOCKET_PATH else f"{most}; this one has {length}"
    if _OF_GRPC.match(target):
        return None
    if parts := _HOST_PORT.fullmatch(target):
        # gRPC would call the port that is left after a division.
        right = 0 < int(parts["port"][:10]) <= _LAST_PORT
        return None if right else f"a port is a number from 1 to {_LAST_PORT}"
    if ":" not in target or target.endswith("]"):
        return f"has no port; write HOST:PORT, as in {target}:8470, or unix:PATH"
    return f"write HOST:PORT, as in {DEFAULT_TARGET}, or unix:PATH"


def socket_path(target: str) -> str | None:
    """Return the path of a Unix socket; None for other addresses."""
    if not target.startswith("unix:"):
        return None
    return target.removeprefix("unix:").removeprefix("//")


_OTHER_CA = "CERTIFICATE_VERIFY_FAILED"
_NO_TLS = "WRONG_VERSION_NUMBER"
_CLOSED = re.compile("socket closed|connection reset|broken pipe", re.IGNORECASE)
_HTTP_1 = "http1.x server"


def hint(target: str, message: str = "") -> str:
    """Return what to look at when an address can't be reached, and gRPC says this of it.

    A handshake that failed on the server's side looks like any connection that was closed.
    """
    if _OTHER_CA in message:
        return (
            "TLS? the server's certificate is not of an authority that is trusted here, is for "
            "another name, or has expired; name its CA with Tls(ca=...) or --tls-ca"
        )
    if _NO_TLS in message:
        return "TLS? the server there speaks none; leave out Tls(...) and --tls-ca"
    if _CLOSED.search(message):
        return (
            "TLS? a server that wants it closes what comes without: use Tls(...) or --tls-ca, and "
            "where it asks for a client's certificate one that it trusts"
        )
    if _HTTP_1 in message:
        return "a server of HTTP is there, not one of gRPC; name the address of its --listen"
    path = socket_path(target)
    if path is not None and not Path(path).parent.is_dir():
        return f"there is no folder {Path(path).parent}; is this the server's --listen?"
    return "is judged-server running there?"


def fails_by_tls(message: str) -> bool:
    """Say whether gRPC tells of a handshake that this side broke off, and always will."""
    return _OTHER_CA in message or _NO_TLS in message


_used = False
_forked = False


def used() -> None:
    """Note that this process uses gRPC from now on, whose threads do not survive a fork."""
    global _used  # noqa: PLW0603 - a fact of the process
    _used = True


def forked() -> bool:
    """Say whether this process was forked from one that had used gRPC: gRPC may hang here.

    Closed clients count: gRPC's threads end some time after a close, and nothing tells when. Of 600
    forks right behind a close 34 hung.
    """
    return _forked


def refuse_unusable(*, was_closed: bool) -> None:
    """Raise ClientUnusable for a client that was closed, or in a fork that gRPC may hang in."""
    if was_closed:
        raise errors.ClientUnusable(
            "the client is closed; make another, or call it before it is closed"
        )
    if _forked:
        raise errors.ClientUnusable(
            "this process was forked after a client had been made, and gRPC may hang in it for "
            "ever; make clients after the fork only, or start processes by spawn or forkserver"
        )


def _after_fork() -> None:
    global _forked  # noqa: PLW0603 - a fact of the process
    _forked = _used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
