"""A certificate authority of a test: certificates for servers, and for clients by URI."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

LOOPBACK = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
BEGAN = timedelta(days=-30)


class Authority:
    """Signs certificates into PEM files of a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        own = self._builder(timedelta(days=9)).subject_name(self._name)
        own = own.public_key(self._key.public_key())
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.ca = folder / f"{name}.pem"
        self.ca.write_bytes(self._sign(own))

    def issue(
        self,
        name: str,
        *names: x509.GeneralName,
        begins_in: timedelta = BEGAN,
        ends_in: timedelta = timedelta(days=3),
        key: Any = None,
    ) -> tuple[Path, Path]:
        """Return the files of a certificate and of its key."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        leaf = (
            self._builder(ends_in, begins_in)
            .subject_name(x509.Name([]))
            .public_key(key.public_key())
        )
        leaf = leaf.add_extension(x509.SubjectAlternativeName(names), critical=True)
        files = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        files[0].write_bytes(self._sign(leaf))
        files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return files

    def server(self, name: str = "server", **times: timedelta) -> tuple[Path, Path]:
        """Return the files of a certificate for 127.0.0.1 and localhost."""
        return self.issue(name, LOOPBACK, x509.DNSName("localhost"), **times)

    def client(self, uri: str, name: str = "client", **ends: timedelta) -> tuple[Path, Path]:
        """Return the files of a certificate that names its holder by a URI."""
        return self.issue(name, x509.UniformResourceIdentifier(uri), **ends)

    def _builder(self, ends_in: timedelta, begins_in: timedelta = BEGAN) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        built = x509.CertificateBuilder().issuer_name(self._name)
        built = built.serial_number(x509.random_serial_number())
        return built.not_valid_before(now + begins_in).not_valid_after(now + ends_in)

    def _sign(self, builder: x509.CertificateBuilder) -> bytes:
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
