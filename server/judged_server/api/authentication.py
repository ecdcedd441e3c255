"""Authenticates callers by token or certificate, and loads the server's own certificate.

The certificate can be replaced under load. gRPC fetches it before each handshake, on a thread of
its own; the HTTP port checks periodically. Open connections keep the old one. A file that can't be
used is reported, and the old certificate stays.

Each address that the server listens on has its own authenticator, since gRPC does not say on which
address a call arrived. Calls without a valid credential are counted by the caller's address. Tokens
have 256 bits and can't be guessed; the count bounds what failing callers cost. Above the limit per
minute they get a retry delay and are no longer logged. A valid credential is always accepted, so
that callers behind one proxy don't lock each other out.
"""

from __future__ import annotations

import ssl
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache, partial
from ipaddress import IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import grpc

from judged_server import errors
from judged_server.api.requests import Context, Metadata
from judged_server.settings import Settings, SettingsError, content_of
from judged_server.telemetry import Logger
from judged_server.tenants import FileDirectory, Identity
from judged_server.watched_files import WatchedFiles

PEM_FILES = ("certificate", "private_key", "client_ca", "metrics_client_ca")
"""The settings that name the certificate with its chain, its key, and the CAs of clients."""

_CURVES, _RSA_BITS = ("secp256r1", "secp384r1"), 2048
"""The keys that gRPC's TLS shows and accepts; with any other, no client could connect."""


class Loaded(NamedTuple):
    """A usable certificate, and when it expires."""

    configuration: grpc.ServerCertificateConfiguration
    ends: datetime


class Certificates(WatchedFiles[Loaded]):
    """The server's certificate, reloaded when its files change."""

    def __init__(self, settings: Settings) -> None:
        """Read the files that the settings name. Raises SettingsError for unusable ones."""
        self._asks_clients = settings.client_ca is not None
        files = [path for name in PEM_FILES if (path := getattr(settings, name))]
        super().__init__("certificate", files, lambda _: load(settings))
        self._taken = self.now

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials to open a gRPC port; with a CA, clients need a certificate."""
        return grpc.dynamic_ssl_server_credentials(
            self.now.configuration,
            self.fetch,  # type: ignore[arg-type]  # None, for no change, is missing in the stubs
            require_client_authentication=self._asks_clients,
        )

    def context(self, client_ca: Path | None) -> ssl.SSLContext:
        """Return the TLS context for an HTTP port, which verifies clients by `client_ca`.

        Reads the files each time. Raises OSError while they are being replaced.
        """
        certificate, private_key, *_ = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(certificate, private_key, password="")  # else OpenSSL prompts
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the certificate if it has changed, else None. gRPC calls this; must not raise.

        One look is enough: a key and certificate that match are not half written.
        """
        with self._lock:
            if (state := self._look()) != self._state:
                self._take(state)
            if self._taken is self.now:
                return None
            self._taken = self.now
            return self._taken.configuration


def load(settings: Settings) -> Loaded:
    """Return the certificate that the settings name. Raises SettingsError."""
    # Imported here and below because it slows the start, and only servers with TLS need it.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    read_chain = x509.load_pem_x509_certificates
    chain, (own, *_) = _parsed(
        settings, "certificate", read_chain, "is no PEM certificate; name one, with its chain"
    )
    key, private = _parsed(
        settings,
        "private_key",
        partial(load_pem_private_key, password=None),
        "is no PEM private key, or is encrypted; name that of the certificate, without a password",
    )
    certificate, private_key = settings.certificate, settings.private_key
    public = own.public_key()
    if private.public_key() != public:
        raise SettingsError(
            f"private_key {private_key}: is not the key of {certificate}; name two files that "
            "belong together"
        )
    curve = getattr(public, "curve", None)
    is_rsa = own.public_key_algorithm_oid == x509.PublicKeyAlgorithmOID.RSAES_PKCS1_v1_5
    if not (curve.name in _CURVES if curve else is_rsa and public.key_size >= _RSA_BITS):
        raise SettingsError(
            f"certificate {certificate}: gRPC or its clients refuse a key of this kind; make one "
            f"of P-256 or P-384, or RSA with {_RSA_BITS} bits or more"
        )
    ends = own.not_valid_after_utc
    if datetime.now(UTC) >= ends:
        raise SettingsError(f"certificate {certificate}: ended at {ends:%F %T} UTC; renew it")
    problem = "is no PEM certificate; name those that sign clients'"
    authorities = {
        name: _parsed(settings, name, read_chain, problem)[0]
        for name in PEM_FILES[2:]
        if getattr(settings, name) is not None
    }
    configuration = grpc.ssl_server_certificate_configuration(
        [(key, chain)], authorities.get("client_ca")
    )
    return Loaded(configuration, ends)


def _parsed(
    settings: Settings, name: str, parse: Callable[[bytes], Any], problem: str
) -> tuple[bytes, Any]:
    """Return the bytes of a setting's file, and what `parse` makes of them."""
    path: Path = getattr(settings, name)
    content = content_of(path, name)
    try:
        return content, parse(content)
    except (TypeError, ValueError):
        raise SettingsError(f"{name} {path}: {problem}") from None


@lru_cache(maxsize=1024)
def uris_of(pem: bytes) -> tuple[str, ...]:
    """Return the URIs of a certificate; none if one has a NUL or can't be read.

    gRPC's own parser cuts names at a NUL, so a certificate could pass for another tenant's.
    """
    from cryptography import x509  # noqa: PLC0415

    try:
        found = x509.load_pem_x509_certificate(pem).extensions
        names = found.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension):
        return ()
    return () if any("\0" in uri for uri in uris) else tuple(uris)


_HEADER = "authorization"
_NO_CREDENTIAL = (
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
"""Addresses counted at a time; at this number, or after a minute, all counts are reset."""
_NETWORK_BITS = 64
"""Prefix length of an IPv6 network, all of whose addresses one caller may have."""

_log = Logger("tenants")


@dataclass
class FailedCalls:
    """Counts failed calls by address. Used on one event loop.

    An address may make `per_minute` of them; 0 means any number.
    """

    per_minute: int
    clock: Callable[[], float] = time.monotonic
    _failed: Counter[str] = field(default_factory=Counter)
    _ends: float = 0.0

    def note(self, peer: str) -> None:
        """Count a failed call of a peer, given by gRPC's name for it.

        Raises AuthenticationLimit, with a retry delay, above the limit.
        """
        address, now = address_of(peer), self.clock()
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

    For IPv6 it is the /64 network, all of whose addresses one caller may have.
    """
    family, _, rest = peer.partition(":")
    if family not in {"ipv4", "ipv6"}:
        return ""
    host = unquote(rest).rpartition(":")[0].strip("[]")
    address = ip_address(host)
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((int(address), _NETWORK_BITS), strict=False))


@dataclass(frozen=True)
class Authenticator:
    """Identifies the callers of one address.

    With `asks_certificates` TLS requires client certificates, which may identify the caller too.
    """

    directory: FileDirectory
    failed_calls: FailedCalls
    asks_certificates: bool = False

    def identify(self, metadata: Metadata, context: Context) -> Identity:
        """Return the caller's identity. Runs before any message of the call is read.

        Raises Unauthenticated, also where token and certificate disagree; AuthenticationLimit
        once the caller's address has had too many of these.
        """
        try:
            return self._agreed(metadata, context)
        except errors.Unauthenticated:
            self.failed_calls.note(context.peer())
            raise

    def _agreed(self, metadata: Metadata, context: Context) -> Identity:
        shown = self._by_token(metadata)
        other = self._by_certificate(context) if self.asks_certificates else None
        found = shown or other
        if found is None:
            raise errors.Unauthenticated(_NO_TENANT if self.asks_certificates else _NO_CREDENTIAL)
        if other is not None and other.tenant.name != found.tenant.name:
            raise errors.Unauthenticated(_NOT_VALID)
        return found

    def _by_token(self, metadata: Metadata) -> Identity | None:
        """Return the identity of the token shown, None for no token. Raises Unauthenticated."""
        shown = dict(metadata).get(_HEADER)
        if shown is None:
            return None
        scheme, _, token = str(shown).partition(" ")
        found = self.directory.by_token(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            raise errors.Unauthenticated(_NOT_VALID)
        return found

    def _by_certificate(self, context: Context) -> Identity | None:
        """Return the identity that the certificate's URI names; TLS has verified the signature.

        Raises Unauthenticated where it names several tenants.
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
