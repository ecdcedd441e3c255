"""The certificate that the server shows, read again when its files change.

gRPC asks for it before each handshake, on a thread of its own, and keeps what it has when it gets
nothing new; the port of HTTP looks whether it is another. So a certificate can be replaced under
load: connections that stand keep theirs. One that can't be used changes nothing, and is reported.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from judged_server.settings import SettingsError
from judged_server.watched_files import WatchedFiles


class CertificateFiles(NamedTuple):
    """PEM files: the certificate with its chain, its key, and who signs clients' (None: nobody)."""

    certificate: Path
    private_key: Path
    client_ca: Path | None = None


class Loaded(NamedTuple):
    """A certificate that can be used, and when it ends."""

    configuration: grpc.ServerCertificateConfiguration
    ends: datetime


class Certificates(WatchedFiles[Loaded]):
    """The certificate of a server."""

    def __init__(self, files: CertificateFiles) -> None:
        """Read the files. Raises SettingsError when they can't be used."""
        self._pem = files
        paths = (files.certificate, files.private_key, files.client_ca)
        super().__init__("certificate", [path for path in paths if path], lambda _: load(files))
        self._taken = self.now

    def credentials(self) -> grpc.ServerCredentials:
        """Return what a port is opened with. Clients need a certificate where there is a CA."""
        return grpc.dynamic_ssl_server_credentials(
            self.now.configuration,
            self.fetch,  # type: ignore[arg-type]  # None, for no change, is missing in the stubs
            require_client_authentication=self._pem.client_ca is not None,
        )

    def context(self) -> ssl.SSLContext:
        """Return the same for a server that is not gRPC's: the files as they are now.

        Raises OSError while they are being replaced.
        """
        files, context = self._pem, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(files.certificate, files.private_key, password="")  # never ask
        if files.client_ca is not None:
            context.load_verify_locations(files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """Return a new certificate; None while there is none. It is gRPC's, and must not raise.

        One look is enough here: a key and a certificate that belong together are not half written.
        """
        with self._lock:
            if (state := self._look()) != self._state:
                self._take(state)
            if self._taken is self.now:
                return None
            self._taken = self.now
            return self._taken.configuration


def load(files: CertificateFiles) -> Loaded:
    """Return the certificate of the files. Raises SettingsError."""
    # Imported here, as below: it costs start-up time, and only a server with TLS needs it.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    certificate = f"certificate {files.certificate}"
    read_chain = x509.load_pem_x509_certificates
    chain, (own, *_) = _parsed(
        files.certificate,
        read_chain,
        f"{certificate}: is no PEM certificate; name one, with its chain",
    )
    key, private = _parsed(
        files.private_key,
        partial(load_pem_private_key, password=None),
        f"private_key {files.private_key}: is no PEM private key, or is encrypted; name that of "
        "the certificate, without a password",
    )
    if private.public_key() != own.public_key():
        raise SettingsError(
            f"private_key {files.private_key}: is not the key of {files.certificate}; name two "
            "files that belong together"
        )
    now, begins, ends = datetime.now(UTC), own.not_valid_before_utc, own.not_valid_after_utc
    if now >= ends:
        raise SettingsError(f"{certificate}: ended at {ends:%F %T} UTC; renew it")
    if now < begins:
        raise SettingsError(
            f"{certificate}: begins at {begins:%F %T} UTC, and here it is {now:%F %T}; set this "
            "machine's clock, or wait"
        )
    authorities = None
    if files.client_ca is not None:
        client_ca = f"client_ca {files.client_ca}"
        authorities, signers = _parsed(
            files.client_ca,
            read_chain,
            f"{client_ca}: is no PEM certificate; name those that sign clients'",
        )
        if all(each.not_valid_after_utc <= now for each in signers):
            raise SettingsError(f"{client_ca}: has ended, so no client would be let in; renew it")
    configuration = grpc.ssl_server_certificate_configuration([(key, chain)], authorities)
    return Loaded(configuration, ends)


def _parsed(path: Path, parse: Callable[[bytes], Any], problem: str) -> tuple[bytes, Any]:
    """Return what a file holds, and what it stands for."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(
            f"{path}: can't be read: {error.strerror}; name a PEM file that the server may read"
        ) from None
    try:
        return content, parse(content)
    except (TypeError, ValueError):
        raise SettingsError(problem) from None


@lru_cache(maxsize=1024)
def uris_of(pem: bytes) -> tuple[str, ...]:
    """Return the URIs of a certificate, none where one has a NUL or can't be read.

    Read here, since gRPC's own ends at a NUL: a name that somebody else signed would be a tenant's.
    """
    from cryptography import x509  # noqa: PLC0415

    try:
        found = x509.load_pem_x509_certificate(pem).extensions
        names = found.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension):
        return ()
    return () if any("\0" in uri for uri in uris) else tuple(uris)
