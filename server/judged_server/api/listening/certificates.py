"""The certificate that the server shows, read again when its files change.

gRPC asks for it before each handshake, on a thread of its own, and keeps what it has when it gets
nothing new; the port of HTTP looks at its version. So a certificate can be replaced under load:
connections that stand keep theirs. One that can't be used changes nothing, and is reported.
"""

from __future__ import annotations

import ssl
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from judged_server.settings import SettingsError
from judged_server.telemetry import logger

SETTLES_S = 1.0
"""How long files that don't go together may be in the middle of being replaced."""

_log = logger("certificate")


class CertificateFault(Exception):
    """The files can't be used. The message names the file and says what is wrong."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM files: the certificate with its chain, its key, and who signs clients' (None: nobody)."""

    certificate: Path
    private_key: Path
    client_ca: Path | None = None

    def state(self) -> tuple[object, ...]:
        """Return what differs once one of them was written anew. Raises OSError."""
        found = [
            path.stat() for path in (self.certificate, self.private_key, self.client_ca) if path
        ]
        return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in found)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A certificate that can be used, and when it ends."""

    configuration: grpc.ServerCertificateConfiguration
    ends: datetime


class Certificates:
    """The certificate of a server. Safe to use on any thread.

    `failures` counts the times that the files stayed in a state that can't be used, and `problem`
    says what is wrong with them now, "" for nothing.
    """

    def __init__(self, files: CertificateFiles, settles_s: float = SETTLES_S) -> None:
        """Read the files, which may go together no more for `settles_s` seconds later on.

        Raises SettingsError when they can't be used.
        """
        self._files = files
        self._settles_s = settles_s
        self._lock = threading.Lock()
        self._bad_since: float | None = None
        self.failures = 0
        self.problem = ""
        try:
            self._state: tuple[object, ...] | None = files.state()
            self._loaded = load(files)
        except (CertificateFault, OSError) as error:
            raise SettingsError(_named(error)) from None
        self._taken = self._loaded

    @property
    def ends(self) -> datetime:
        """When the present certificate ends, in UTC."""
        return self._loaded.ends

    def credentials(self) -> grpc.ServerCredentials:
        """Return what a port is opened with. Clients need a certificate where there is a CA."""
        return grpc.dynamic_ssl_server_credentials(
            self._loaded.configuration,
            self.fetch,  # type: ignore[arg-type]  # None, for no change, is missing in the stubs
            require_client_authentication=self._files.client_ca is not None,
        )

    @property
    def version(self) -> object:
        """What differs once there is a new certificate."""
        return self._loaded

    def context(self) -> ssl.SSLContext:
        """Return the same for a server that is not gRPC's: the files as they are now.

        Raises OSError while they are being replaced.
        """
        files, context = self._files, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(files.certificate, files.private_key, password="")  # never ask
        if files.client_ca is not None:
            context.load_verify_locations(files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def refresh(self) -> bool:
        """Read the files if they have changed; say whether they can be used. Raises nothing."""
        with self._lock:
            self._look()
            return not self.problem

    def fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """Return a new certificate; None while there is none. It is gRPC's, and must not raise."""
        with self._lock:
            self._look()
            if self._taken is self._loaded:
                return None
            self._taken = self._loaded
            return self._loaded.configuration

    def _look(self) -> None:
        try:
            state = self._files.state()
            if state == self._state:
                return
            loaded = load(self._files)
            if self._files.state() != state:
                return  # it is being written; look again the next time
        except Exception as error:  # noqa: BLE001 - whatever is in a file, the old one serves on
            self._state = None  # once the files are as before again, that is a change too
            self._note(_named(error))
            return
        self._state, self._loaded = state, loaded
        self._bad_since, self.problem = None, ""
        _log.info("certificate replaced", ends=loaded.ends.isoformat())

    def _note(self, problem: str) -> None:
        """Report a problem once, when it is no step of a replacement."""
        now = time.monotonic()
        if self._bad_since is None:
            self._bad_since = now
        if now - self._bad_since < self._settles_s or problem == self.problem:
            return
        self.failures += 1
        self.problem = problem
        _log.error(
            "bad certificate",
            problem=problem,
            next_step="mend the files; the certificate of before is shown on",
            ends=self._loaded.ends.isoformat(),
        )


def load(files: CertificateFiles) -> Loaded:
    """Return the certificate of the files. Raises CertificateFault, or OSError."""
    chain, key = files.certificate.read_bytes(), files.private_key.read_bytes()
    try:
        own = x509.load_pem_x509_certificates(chain)[0]
    except ValueError:
        raise CertificateFault(
            f"certificate {files.certificate}: is no PEM certificate; name one, with its chain"
        ) from None
    try:
        private = load_pem_private_key(key, password=None)
    except TypeError:
        raise CertificateFault(
            f"private_key {files.private_key}: is encrypted; store it without a password"
        ) from None
    except ValueError:
        raise CertificateFault(
            f"private_key {files.private_key}: is no PEM private key; name that of the certificate"
        ) from None
    if private.public_key() != own.public_key():
        raise CertificateFault(
            f"private_key {files.private_key}: is not the key of {files.certificate}; name two "
            "files that belong together"
        )
    now, begins, ends = datetime.now(UTC), own.not_valid_before_utc, own.not_valid_after_utc
    if not begins <= now < ends:
        when = f"ended at {ends:%F %T} UTC; renew it"
        if now < begins:
            when = (
                f"begins at {begins:%F %T} UTC, and here it is {now:%F %T}; set this machine's "
                "clock, or wait"
            )
        raise CertificateFault(f"certificate {files.certificate}: {when}")
    authorities = None
    if files.client_ca is not None:
        authorities = files.client_ca.read_bytes()
        try:
            signers = x509.load_pem_x509_certificates(authorities)
        except ValueError:
            raise CertificateFault(
                f"client_ca {files.client_ca}: is no PEM certificate; name those that sign clients'"
            ) from None
        if all(each.not_valid_after_utc <= now for each in signers):
            raise CertificateFault(
                f"client_ca {files.client_ca}: has ended, so no client would be let in; renew it"
            )
    configuration = grpc.ssl_server_certificate_configuration([(key, chain)], authorities)
    return Loaded(configuration, ends)


@lru_cache(maxsize=1024)
def uris_of(pem: bytes) -> tuple[str, ...]:
    """Return the URIs of a certificate, none where one has a NUL or can't be read.

    Read here, since gRPC's own ends at a NUL: a name that somebody else signed would be a tenant's.
    """
    try:
        found = x509.load_pem_x509_certificate(pem).extensions
        names = found.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension):
        return ()
    return () if any("\0" in uri for uri in uris) else tuple(uris)


def _named(error: Exception) -> str:
    """Return what is wrong; never what is in a file."""
    if isinstance(error, CertificateFault):
        return str(error)
    if isinstance(error, OSError):
        return (
            f"{error.filename}: can't be read: {error.strerror}; name a PEM file that the server "
            "may read"
        )
    return f"can't be read: {type(error).__name__}"
