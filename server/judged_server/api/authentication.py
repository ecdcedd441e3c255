"""Who calls, by what a call shows: a bearer token, a certificate, or the socket it comes by.

Each address that the server listens on has an authenticator of its own, since gRPC does not tell by
which one a call came. Calls without a valid credential are counted by address. At 256 bits guessing
tokens does not help; the count bounds what those cost who try, or who go on calling with a token
that has ended: after so many in a minute they are told when to come again, and leave no more lines
in the logs. A valid credential is always let in, so that nobody is locked out who shares an
address, for example behind a proxy.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network, ip_address
from urllib.parse import unquote

from judged_server import errors
from judged_server.api.certificates import uris_of
from judged_server.api.requests import Context, Metadata
from judged_server.telemetry import Logger
from judged_server.tenants.directory import FileDirectory, Identity

_HEADER = "authorization"
_NOBODY = (
    "this server wants to know who calls: send a token as metadata, authorization: Bearer TOKEN "
    "(judged: --token-file or JUDGED_TOKEN), which its operator makes with judged-server tenants"
)
_NO_TENANT = (
    "the client's certificate names no tenant of this server; its operator adds its URI to uris"
)
_NOT_ONE = (
    "the client's certificate has URIs of several tenants of this server; show one that names one"
)
_NOT_VALID = "the token is not valid, or not any more; ask the operator of the server for a new one"
WINDOW_S = 60.0
MOST_ADDRESSES = 4096
"""Addresses that are remembered; with so many, or after a minute, all are forgotten."""
_NETWORK_BITS = 64
"""What one caller has of IPv6 addresses."""

_log = Logger("tenants")


class FailedCalls:
    """Counts failed calls by address; `per_minute` may change. Used on one event loop."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Let an address make `per_minute` of them; 0 lets it make any number."""
        self.per_minute = per_minute
        self._clock = clock
        self._failed: Counter[str] = Counter()
        self._ends = 0.0

    def __len__(self) -> int:
        """Return how many addresses are remembered."""
        return len(self._failed)

    def note(self, peer: str) -> None:
        """Count a failed call of a peer, by gRPC's name of it.

        Raises AuthenticationLimit, which says when to come again, once there were too many.
        """
        address, now = address_of(peer), self._clock()
        if not self.per_minute or not address:
            return
        if self._ends <= now or len(self._failed) >= MOST_ADDRESSES:
            self._failed.clear()
            self._ends = now + WINDOW_S
        self._failed[address] += 1
        if self._failed[address] <= self.per_minute:
            return
        if self._failed[address] == self.per_minute + 1:
            _log.warning("failed calls limited", address=address, failed=self.per_minute)
        raise errors.AuthenticationLimit(self.per_minute, self._ends - now)


def address_of(peer: str) -> str:
    """Return the address in gRPC's name of a peer, "" for a Unix socket.

    Of IPv6 it is the network of 64 bits, all of which one caller may have.
    """
    family, _, rest = peer.partition(":")
    if family not in {"ipv4", "ipv6"}:
        return ""
    host = unquote(rest).rpartition(":")[0].strip("[]").partition("%")[0]
    address = ip_address(host)
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((int(address), _NETWORK_BITS), strict=False))


@dataclass(frozen=True)
class Authenticator:
    """Identifies the callers of one address.

    Every call is for one of `tenant`, where the address is a socket of its own. An address that
    `asks_certificates` lets nobody in without one.
    """

    directory: FileDirectory
    failed_calls: FailedCalls
    tenant: str = ""
    asks_certificates: bool = False

    def identify(self, metadata: Metadata, context: Context) -> Identity:
        """Return who calls; no message of a stranger is read before this.

        Raises Unauthenticated, also where two credentials disagree, and AuthenticationLimit instead
        where the caller's address had too many of these.
        """
        try:
            return self._agreed(metadata, context)
        except errors.Unauthenticated:
            self.failed_calls.note(context.peer())
            raise

    def _agreed(self, metadata: Metadata, context: Context) -> Identity:
        shown, other = self._by_token(metadata), None
        if self.tenant:
            other = self.directory.by_socket(self.tenant)
        elif self.asks_certificates:
            other = self._by_certificate(context)
        found = shown or other
        if found is None:
            raise errors.Unauthenticated(_NO_TENANT if self.asks_certificates else _NOBODY)
        if other is not None and other.tenant.name != found.tenant.name:
            raise errors.Unauthenticated(_NOT_VALID)
        return found

    def _by_token(self, metadata: Metadata) -> Identity | None:
        """Return whose token the metadata show, None for no token. Raises Unauthenticated."""
        shown = dict(metadata).get(_HEADER)
        if shown is None:
            return None
        scheme, _, token = str(shown).partition(" ")
        found = self.directory.by_token(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            raise errors.Unauthenticated(_NOT_VALID)
        return found

    def _by_certificate(self, context: Context) -> Identity | None:
        """Return whom a certificate names by a URI; gRPC has checked who signed it.

        Raises Unauthenticated where it names several.
        """
        shown = context.auth_context().get("x509_pem_cert", ())
        found = [self.directory.by_uri(uri) for pem in shown for uri in uris_of(pem)]
        tenants = {each.tenant.name: each for each in found if each is not None}
        if len(tenants) > 1:
            raise errors.Unauthenticated(_NOT_ONE)
        return next(iter(tenants.values()), None)


def revoked() -> errors.Unauthenticated:
    """Return the error of a call whose credential was revoked while it ran."""
    return errors.Unauthenticated(_NOT_VALID)
