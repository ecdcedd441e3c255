"""Who shows a credential: the tenants and their tokens, read again when their files change."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from judged_server.settings import SettingsError
from judged_server.telemetry import logger
from judged_server.tenant import Tenant
from judged_server.tenants.tenants_file import Tenants, read_tenants
from judged_server.tenants.token_file import (
    StoredToken,
    TokenFile,
    hash_of,
    read_tokens,
    tokens_beside,
)

_log = logger("tenants")


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """A tenant, and what says so: the hash of a token, a certificate's URI, or else its socket.

    There is one for each credential as long as the files are as they are.
    """

    tenant: Tenant
    token: bytes = field(default=b"", repr=False)
    uri: str = ""

    @property
    def credential(self) -> str:
        """What people call the credential; never a token."""
        return f"token {self.token.hex()[:8]}" if self.token else self.uri or "socket"


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The two files as they were read, and who shows what."""

    tenants: Tenants
    by_token: dict[bytes, tuple[StoredToken, Identity]]
    by_uri: dict[str, Identity]
    by_socket: dict[str, Identity]


class FileDirectory:
    """The directory of two files. Lookups are for any thread, and touch no disk.

    `failures` counts the times that the files could not be used, `problem` says what is wrong with
    them now, "" for nothing.
    """

    def __init__(self, path: Path, check: Callable[[Tenant], object] = lambda _: None) -> None:
        """Read the files. Raises SettingsError, as `check` does for a tenant that can't be."""
        self._check = check
        self._path = path
        self._tokens = tokens_beside(path)
        self._lock = threading.Lock()
        self.failures = 0
        self.problem = ""
        self._state = self._before = self._look()
        self._now = self._read()

    @property
    def tenants(self) -> Tenants:
        """What the file of tenants says."""
        return self._now.tenants

    def by_token(self, token: str) -> Identity | None:
        """Return who shows a token; one SHA-256 and one look-up.

        How long a look-up takes tells of hashes, which nobody can choose.
        """
        return self._of_token(hash_of(token))

    def by_uri(self, uri: str) -> Identity | None:
        """Return who shows a certificate with a URI."""
        return self._now.by_uri.get(uri)

    def by_socket(self, tenant: str) -> Identity | None:
        """Return who calls on a socket of a tenant."""
        return self._now.by_socket.get(tenant)

    def counts(self, identity: Identity) -> bool:
        """Say whether a credential that was good still is, for the same tenant."""
        if identity.token:
            now = self._of_token(identity.token)
        elif identity.uri:
            now = self.by_uri(identity.uri)
        else:
            now = self.by_socket(identity.tenant.name)
        return now is not None and now.tenant.name == identity.tenant.name

    def refresh(self) -> bool:
        """Read the files if they have changed; say whether what is served is what they say.

        They count once two looks have found the same, since they may be half written. What can't be
        read changes nothing, nor does a file without any tenant, and is reported. Raises nothing of
        the files' own.
        """
        with self._lock:
            state, before = self._look(), self._before
            self._before = state
            if state == self._state:
                self.problem = ""
                return True
            if state != before:
                return False
            try:
                now = self._read()
            except SettingsError as error:
                problem = str(error)
            except Exception as error:  # noqa: BLE001 - the old ones serve on, and it looks again
                problem = f"{type(error).__name__}: {error}"
            else:
                if self._look() != state:
                    return False
                if now.tenants.by_name or not self._now.tenants.by_name:
                    self._now, self._state, self.problem = now, state, ""
                    _log.info(
                        "tenants read", tenants=len(now.tenants.by_name), tokens=len(now.by_token)
                    )
                    return True
                problem = f"tenants {self._path}: has no tenant any more"
            if problem != self.problem:
                self.failures += 1
                self.problem = problem
                _log.error(
                    "bad tenants",
                    problem=problem,
                    next_step="mend the file; what it said before holds on",
                )
            return False

    def _of_token(self, sha256: bytes) -> Identity | None:
        found = self._now.by_token.get(sha256)
        if found is None:
            return None
        stored, identity = found
        return identity if stored.ends is None or stored.live(datetime.now(UTC)) else None

    def _look(self) -> tuple[object, ...]:
        """Return what the files hold, or why they can't be read."""
        state: list[object] = []
        for path in (self._path, self._tokens):
            try:
                state.append(path.read_bytes())
            except OSError as error:
                state.append(error.errno)
        return tuple(state)

    def _read(self) -> _Snapshot:
        try:
            tokens = read_tokens(self._tokens)
        except FileNotFoundError:
            raise SettingsError(
                f"tokens {self._tokens}: there is no such file; run judged-server --tenants "
                f"{self._path} tenants add NAME"
            ) from None
        _refuse_shared(tokens, self._tokens)
        tenants = read_tenants(self._path, tokens.secret)
        named = tenants.by_name
        for tenant in named.values():
            self._check(tenant)
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
    owners: dict[bytes, str] = {}
    for each in tokens.tokens:
        other = owners.setdefault(each.sha256, each.tenant)
        if other != each.tenant:
            raise SettingsError(
                f"tokens {path}: {other} and {each.tenant} have the same token; run tenants revoke "
                "and tenants rotate for one of them"
            )
