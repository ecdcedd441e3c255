"""Who shows a credential: the tenants and their tokens, read again when their files change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from judged_server.settings import SettingsError
from judged_server.tenant import Tenant
from judged_server.tenants.tenants_file import Tenants, read_tenants
from judged_server.tenants.token_file import (
    StoredToken,
    TokenFile,
    hash_of,
    read_tokens,
    tokens_beside,
)
from judged_server.watched_files import WatchedFiles


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """A tenant, and what says so: the hash of a token, a certificate's URI, or else its socket.

    There is one for each credential as long as the files are as they are.
    """

    tenant: Tenant
    token: str = field(default="", repr=False)
    uri: str = ""

    @property
    def credential(self) -> str:
        """What people call the credential; never a token."""
        return f"token {self.token[:8]}" if self.token else self.uri or "socket"


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The two files as they were read, and who shows what."""

    tenants: Tenants
    by_token: dict[str, tuple[StoredToken, Identity]]
    by_uri: dict[str, Identity]
    by_socket: dict[str, Identity]


class FileDirectory(WatchedFiles[_Snapshot]):
    """The directory of two files."""

    def __init__(self, path: Path, check: Callable[[Tenant], object] = lambda _: None) -> None:
        """Read the files. Raises SettingsError, as `check` does for a tenant that can't be."""
        files = path, tokens_beside(path)

        def read(before: _Snapshot | None) -> _Snapshot:
            found = _read(*files, check)
            if before is not None and before.tenants.by_name and not found.tenants.by_name:
                raise SettingsError(f"tenants {path}: has no tenant any more")
            return found

        super().__init__("tenants", files, read)

    @property
    def tenants(self) -> Tenants:
        """What the file of tenants says."""
        return self.now.tenants

    def by_token(self, token: str) -> Identity | None:
        """Return who shows a token; one SHA-256 and one look-up.

        How long a look-up takes tells of hashes, which nobody can choose.
        """
        return self._of_token(hash_of(token))

    def by_uri(self, uri: str) -> Identity | None:
        """Return who shows a certificate with a URI."""
        return self.now.by_uri.get(uri)

    def by_socket(self, tenant: str) -> Identity | None:
        """Return who calls on a socket of a tenant."""
        return self.now.by_socket.get(tenant)

    def counts(self, identity: Identity) -> bool:
        """Say whether a credential that was good still is, for the same tenant."""
        if identity.token:
            now = self._of_token(identity.token)
        elif identity.uri:
            now = self.by_uri(identity.uri)
        else:
            now = self.by_socket(identity.tenant.name)
        return now is not None and now.tenant.name == identity.tenant.name

    def _of_token(self, sha256: str) -> Identity | None:
        found = self.now.by_token.get(sha256)
        if found is None:
            return None
        stored, identity = found
        return identity if stored.ends is None or stored.live(datetime.now(UTC)) else None


def _read(path: Path, tokens_path: Path, check: Callable[[Tenant], object]) -> _Snapshot:
    try:
        tokens = read_tokens(tokens_path)
    except FileNotFoundError:
        raise SettingsError(
            f"tokens {tokens_path}: there is no such file; run judged-server --tenants {path} "
            "tenants add NAME"
        ) from None
    _refuse_shared(tokens, tokens_path)
    tenants = read_tenants(path, tokens.secret)
    named = tenants.by_name
    for tenant in named.values():
        check(tenant)
    return _Snapshot(
        tenants,
        {
            each.sha256: (each, Identity(named[each.tenant], token=each.sha256))
            for each in tokens.tokens
            if each.tenant in named
        },
        {uri: Identity(named[name], uri=uri) for uri, name in tenants.by_uri.items()},
        {name: Identity(tenant) for name, tenant in named.items()},
    )


def _refuse_shared(tokens: TokenFile, path: Path) -> None:
    """Raise SettingsError for a token of two tenants: who calls could not be told."""
    owners: dict[str, str] = {}
    for each in tokens.tokens:
        other = owners.setdefault(each.sha256, each.tenant)
        if other != each.tenant:
            raise SettingsError(
                f"tokens {path}: {other} and {each.tenant} have the same token; run tenants revoke "
                "and tenants rotate for one of them"
            )
