"""Who calls, by what a call shows: a bearer token, a certificate, or the socket it comes by.

Each address that the server listens on has an authenticator of its own, since gRPC does not tell by
which one a call came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc

from judged_server import errors
from judged_server.api.failed_calls import FailedCalls
from judged_server.tenants.directory import FileDirectory, Identity

Metadata = Sequence[tuple[str, str | bytes]]
Context = grpc.aio.ServicerContext[Any, Any]

_HEADER = "authorization"
_SCHEME = "bearer "
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


class Authenticator:
    """Tells who calls by one address."""

    def __init__(
        self,
        directory: FileDirectory,
        failed_calls: FailedCalls,
        *,
        tenant: str = "",
        asks_certificates: bool = False,
    ) -> None:
        """Take every call for one of `tenant`, where the address is a socket of its own.

        With `asks_certificates` the address lets nobody in without one.
        """
        self._directory = directory
        self._failed_calls = failed_calls
        self._tenant = tenant
        self._asks_certificates = asks_certificates

    def by_metadata(self, metadata: Metadata) -> Identity | errors.Unauthenticated | None:
        """Return who shows a token, the error of a bad one; None where the call shows none.

        It is known before the message is read, so that those of strangers never are.
        """
        for key, value in metadata:
            if key != _HEADER:
                continue
            if not isinstance(value, str) or value[: len(_SCHEME)].lower() != _SCHEME:
                return errors.Unauthenticated(_NOT_VALID)
            found = self._directory.by_token(value[len(_SCHEME) :].strip())
            return errors.Unauthenticated(_NOT_VALID) if found is None else found
        if self._tenant:
            return self._directory.by_socket(self._tenant)
        return None if self._asks_certificates else errors.Unauthenticated(_NOBODY)

    def identify(
        self, shown: Identity | errors.Unauthenticated | None, context: Context
    ) -> Identity:
        """Return who calls. Raises Unauthenticated, also where two credentials disagree.

        And AuthenticationLimit instead, where the caller's address had too many of these.
        """
        try:
            return self._agreed(shown, context)
        except errors.Unauthenticated:
            self._failed_calls.note(context.peer())
            raise

    def _agreed(
        self, shown: Identity | errors.Unauthenticated | None, context: Context
    ) -> Identity:
        if isinstance(shown, errors.Unauthenticated):
            raise shown
        other = None
        if self._tenant:
            other = self._directory.by_socket(self._tenant)
        elif self._asks_certificates:
            other = self._by_certificate(context)
        if shown is None:
            if other is None:
                raise errors.Unauthenticated(_NO_TENANT if self._asks_certificates else _NOBODY)
            return other
        if other is not None and other.tenant.name != shown.tenant.name:
            raise errors.Unauthenticated(_NOT_VALID)
        return shown

    def _by_certificate(self, context: Context) -> Identity | None:
        """Return whom a certificate names by a URI; gRPC has checked who signed it.

        Raises Unauthenticated where it names several.
        """
        # Imported here: only a server with TLS has loaded it.
        from judged_server.api.listening.certificates import uris_of  # noqa: PLC0415

        shown = context.auth_context().get("x509_pem_cert", ())
        found = [self._directory.by_uri(uri) for pem in shown for uri in uris_of(pem)]
        tenants = {each.tenant.name: each for each in found if each is not None}
        if len(tenants) > 1:
            raise errors.Unauthenticated(_NOT_ONE)
        return next(iter(tenants.values()), None)


def revoked() -> errors.Unauthenticated:
    """Return the error of a call whose credential was revoked while it ran."""
    return errors.Unauthenticated(_NOT_VALID)
