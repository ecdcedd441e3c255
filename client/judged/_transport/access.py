"""What credentials mean for a channel, whose files may be replaced, and for each of its calls."""

from __future__ import annotations

import ipaddress
import logging
import os
import ssl
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import grpc

from judged import errors
from judged._transport.channel import socket_path
from judged.credentials import Credentials, File, Tls, Token, check_token

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
