"""Credentials of a client: TLS, a client certificate, a token.

Client("unix:/run/judged.sock", credentials=Token(file="/run/secrets/judged"))
Client("judge.example:8470", credentials=Tls(token=Token(file="/run/secrets/judged")))
Client("judge.example:8470", credentials=Tls("ca.pem", "client.pem", "client.key"))
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

from judged import errors

File = str | os.PathLike[str]

_NAME = re.compile(r"[A-Za-z0-9.-]+", re.ASCII)
_PROXY = re.compile(r"http://([^\s/@]+@)?(\[[0-9A-Fa-f:.]+\]|[^\s/@:]+):[0-9]{1,5}/?", re.ASCII)


@dataclass(frozen=True)
class Token:
    """A bearer token: its value, or a file that has it, which is read again for every call.

    Without TLS it is sent only to this machine: over a Unix socket or to a loopback address.
    """

    value: str = field(default="", repr=False)
    file: File | None = None

    def __post_init__(self) -> None:
        if bool(self.value) == (self.file is not None):
            raise errors.InvalidArgument.of_field(
                "credentials", "a Token is made of a value, or of file=, and not of both"
            )
        if self.value:
            check_token(self.value, "credentials")


@dataclass(frozen=True)
class Tls:
    """TLS to the server, in PEM files.

    `ca` has the certificates of the authorities to trust; by default, those that come with gRPC.
    `certificate` and `key` are the client's own, for servers that ask for one (mTLS). All are read
    when a client is made. `proxy` is the HTTP proxy to use, as http://HOST:PORT; the environment's
    proxy is ignored. `name` is the name to expect in the server's certificate, if the target has no
    usable one: a list of addresses, or a forwarded port.
    """

    ca: File | None = None
    certificate: File | None = None
    key: File | None = None
    token: Token | None = None
    proxy: str | None = field(default=None, repr=False)  # it may hold a password
    name: str | None = None

    def __post_init__(self) -> None:
        if self.name is not None and not _NAME.fullmatch(self.name):
            rule = "Tls(name=...) is a name of a certificate, without a port"
        elif self.proxy is not None and not _PROXY.fullmatch(self.proxy):
            rule = "Tls(proxy=...) is written as http://HOST:PORT"
        elif (self.certificate is None) != (self.key is None):
            rule = "Tls(certificate=..., key=...) go together; give both, or neither"
        else:
            return
        raise errors.InvalidArgument.of_field("credentials", rule)


Credentials = Token | Tls


def check_token(token: str, source: str) -> None:
    """Raise InvalidArgument for an invalid token; the message does not quote it."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise errors.InvalidArgument.of_field(
            source, "a token is one word of visible ASCII characters; was it copied whole?"
        )
