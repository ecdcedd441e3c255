"""How a channel reaches a server: its address, its settings, TLS and the token."""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import ssl
import threading
import time
from collections.abc import Sequence
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


Metadata = tuple[tuple[str, str], ...]

LOOKED_AT_EVERY_S = 1.0
"""How often the files are looked at, while there are calls."""

_log = logging.getLogger("judged")


class Authorization:
    """The token of a client, as metadata of its calls. Safe to share between threads."""

    def __init__(self, token: Token | None) -> None:
        self._file = None if token is None or token.file is None else Path(token.file)
        self._read: tuple[int, ...] | None = None
        self._metadata = _metadata(token.value) if token is not None and token.value else ()

    def metadata(self) -> Metadata:
        """Return the metadata; () without a token. Raises InvalidArgument for a bad file."""
        if self._file is not None:
            try:
                state = _state(self._file)
                if state != self._read:
                    self._metadata = _metadata(self._token(self._file))
                    self._read = state
            except (OSError, UnicodeDecodeError) as error:
                if not self._metadata:
                    raise _unreadable("token file", self._file, error) from None
                # It is being replaced: the last one counts on.
        return self._metadata

    @staticmethod
    def _token(file: Path) -> str:
        token = file.read_text("utf-8").strip()
        if not token:
            raise errors.InvalidArgument.of_field("credentials", f"the token file {file} is empty")
        check_token(token, f"credentials: the token file {file}")
        return token


def _channel_credentials(tls: Tls) -> grpc.ChannelCredentials:
    """Return what gRPC makes a channel with. Raises InvalidArgument for files that can't be."""
    _refuse_mismatch(tls)
    return grpc.ssl_channel_credentials(_pem(tls.ca), _pem(tls.key), _pem(tls.certificate))


def _state(file: File) -> tuple[int, ...]:
    """Return what differs once a file was written anew. Raises OSError."""
    found = Path(file).stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


def tls_state(tls: Tls) -> Sequence[object]:
    """Return what differs once a file of the credentials was written anew."""
    state: list[object] = []
    for file in (tls.ca, tls.certificate, tls.key):
        try:
            state.append(file and _state(file))
        except OSError as error:
            state.append(error.errno)
    return state


def refuse_unsafe(target: str, credentials: Credentials | None) -> None:
    """Raise InvalidArgument for a token that would cross a network in the open."""
    if isinstance(credentials, Token) and not is_local(target):
        raise errors.InvalidArgument.of_field(
            "credentials",
            f"a token is not sent to {target} without TLS, where others could read it; use "
            "Tls(token=...), or --tls-ca with a command",
        )
    if isinstance(credentials, Tls) and socket_path(target) is not None:
        raise errors.InvalidArgument.of_field(
            "credentials", f"{target} is a Unix socket, which has no TLS; give the Token alone"
        )


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


class Certificates:
    """What channels over TLS are made with, by the files of the moment. Safe to share by threads.

    gRPC for Python fixes the certificates of a channel, so another channel takes its place once the
    files have changed and can be used.
    """

    def __init__(self, tls: Tls) -> None:
        """Read the files; raises InvalidArgument for those that can't be used."""
        self._tls = tls
        self._lock = threading.Lock()
        self._state = tls_state(tls)
        self._looked_at = time.monotonic()
        self._credentials = _channel_credentials(tls)
        proxy = {} if tls.proxy is None else {"grpc.http_proxy": tls.proxy}
        self.options = {"grpc.enable_http_proxy": len(proxy), **proxy}
        """What a channel goes by: the proxy that is named, and no other."""

    def current(self) -> grpc.ChannelCredentials:
        """Return the credentials of the files as they are; the same while these are the same."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked_at >= LOOKED_AT_EVERY_S:
                self._looked_at = now
                self._renew()
            return self._credentials

    def _renew(self) -> None:
        state = tls_state(self._tls)
        if state == self._state:
            return
        self._state = state
        try:
            self._credentials = _channel_credentials(self._tls)
        except errors.InvalidArgument as error:  # until they are changed again
            _log.warning("%s; the certificate of before is shown on", error.message)


def _refuse_mismatch(tls: Tls) -> None:
    """Raise InvalidArgument for a certificate and a key that don't belong together.

    gRPC would fail every handshake with them, and not say why.
    """
    if tls.certificate is None or tls.key is None:
        return
    try:
        # A key with a password is refused rather than asked for at a terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(tls.certificate, tls.key, "")
    except ssl.SSLError:
        raise errors.InvalidArgument.of_field(
            "credentials",
            f"{tls.certificate} and {tls.key} are no certificate and its key, without a password",
        ) from None
    except OSError:
        return  # reading them says which can't be read
