"""What credentials mean for a channel and for each of its calls."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

import grpc

from judged import errors
from judged._transport.channel import OPTIONS, socket_path
from judged.credentials import Credentials, File, Tls, Token, check_token

Metadata = tuple[tuple[str, str], ...]


class Authorization:
    """The token of a client, as metadata of its calls. Safe to share between threads."""

    def __init__(self, token: Token | None) -> None:
        self._file = None if token is None or token.file is None else Path(token.file)
        self._read: tuple[int, int] | None = None
        self._metadata = _metadata(token.value) if token is not None and token.value else ()

    def metadata(self) -> Metadata:
        """Return the metadata; () without a token. Raises InvalidArgument for a bad file."""
        if self._file is not None:
            try:
                found = self._file.stat()
                state = (found.st_mtime_ns, found.st_ino)
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


def channel_credentials(tls: Tls) -> grpc.ChannelCredentials:
    """Return what gRPC makes a channel with. Raises InvalidArgument for files that can't be."""
    return grpc.ssl_channel_credentials(_pem(tls.ca), _pem(tls.key), _pem(tls.certificate))


def tls_options(tls: Tls) -> tuple[tuple[str, int | str], ...]:
    """Return the options of a channel over TLS: by the proxy that is named, and by no other."""
    if tls.proxy is None:
        return OPTIONS
    named = dict(OPTIONS) | {"grpc.enable_http_proxy": 1, "grpc.http_proxy": tls.proxy}
    return tuple(named.items())


def tls_state(tls: Tls) -> tuple[object, ...]:
    """Return what differs once a file of the credentials was written anew."""
    state: list[object] = []
    for file in (tls.ca, tls.certificate, tls.key):
        try:
            found = None if file is None else Path(file).stat()
        except OSError as error:
            state.append(error.errno)
        else:
            state.append(found and (found.st_mtime_ns, found.st_size, found.st_ino))
    return tuple(state)


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
