"""Reads the tenants file and the tokens file, and finds the tenant of a credential.

A token has 256 random bits, so that its SHA-256 does not reveal it and needs no salt. The tokens
file also contains the secret from which the keys of the tenants' caches are derived.

[tenants.search]
judges = ["token_overlap", "semantic"]       # without the key: all
rubrics = ["faithfulness"]
models = ["careful", "all-minilm-l6-v2"]
cache = "shared:research"                    # without the key: private
weight = 3                                   # share of a busy server; without the key: 1
tokens_per_second = 5000                     # limit of the work that it sends
uris = ["spiffe://example.org/search"]       # of its certificates
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

from judged._files import replace_text
from pydantic import AwareDatetime, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as table

from judged_server.llm.config import STRICT, matching, read
from judged_server.settings import SettingsError, content_of, read_toml
from judged_server.tenant import Allowed, Tenant
from judged_server.watched_files import WatchedFiles

PREFIX = "judged_"
"""Prefix of every token, so that secret scanners find published ones."""


_Hash = Annotated[str, matching("[0-9a-f]{64}", "64 hexadecimal digits")]


@table(frozen=True)
class StoredToken:
    """A token as stored: its tenant, its hash, and its validity in UTC."""

    tenant: str
    sha256: _Hash
    created: AwareDatetime
    ends: AwareDatetime | None = None

    @property
    def id(self) -> str:
        """Short id for display: the beginning of its hash."""
        return self.sha256[:8]

    def live(self, now: datetime) -> bool:
        """Return whether the token is valid."""
        return self.ends is None or now < self.ends


@table(frozen=True)
class TokenFile:
    """The content of the tokens file."""

    secret: _Hash = field(repr=False)
    tokens: tuple[StoredToken, ...] = ()
    version: Literal[1] = 1

    def __post_init__(self) -> None:
        """Raise ValueError for a token that is there twice, so does not identify its caller."""
        if len({each.sha256 for each in self.tokens}) < len(self.tokens):
            raise ValueError("a token is there twice")

    def of(self, tenant: str, now: datetime) -> list[StoredToken]:
        """Return the valid tokens of a tenant, oldest first."""
        return [each for each in self.tokens if each.tenant == tenant and each.live(now)]

    def with_new(
        self, tenant: str, now: datetime, keeps: timedelta, ends: datetime | None = None
    ) -> tuple[TokenFile, str]:
        """Return the file with a new token of a tenant, and the token, which is not stored.

        The tenant's newest existing token ends after `keeps`, older ones end now.
        """
        token = PREFIX + secrets.token_urlsafe(32)
        live, until = self.of(tenant, now), now + keeps
        changed = {each.sha256: replace(each, ends=now) for each in live[:-1]}
        for newest in live[-1:]:
            changed[newest.sha256] = replace(newest, ends=min(until, newest.ends or until))
        tokens = [changed.get(each.sha256, each) for each in self.tokens]
        tokens.append(StoredToken(tenant, hash_of(token), now, ends))
        return replace(self, tokens=tuple(tokens)), token

    def without(self, tenant: str, id_: str = "") -> TokenFile:
        """Return the file without the tokens of a tenant, or those that start with `id_`."""
        kept = (
            each
            for each in self.tokens
            if each.tenant != tenant or (id_ and not each.sha256.startswith(id_))
        )
        return replace(self, tokens=tuple(kept))


_FILE = TypeAdapter(TokenFile)


def hash_of(token: str) -> str:
    """Return the hash that is stored for a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def tokens_beside(tenants: Path) -> Path:
    """Return the path of the tokens file of a tenants file. Raises SettingsError for a folder."""
    if os.path.isdir(tenants):  # noqa: PTH112 - Path.is_dir raises for what may not be read
        raise SettingsError(f"tenants {tenants} is a folder; name the file in it")
    return tenants.with_name(f"{tenants.stem}.tokens.json")


def read_tokens(path: Path) -> TokenFile:
    """Read a tokens file. Raises SettingsError."""
    next_step = "judged-server tenants add makes it, and the server's user must be able to read it"
    raw = content_of(path, "tokens", next_step=next_step)
    try:
        return _FILE.validate_json(raw)
    except ValidationError:
        raise SettingsError(
            f"tokens {path}: is not as this release of judged writes it; restore it, or remove it "
            "and make new tokens"
        ) from None


@contextmanager
def changing(path: Path) -> Iterator[list[TokenFile]]:
    """Lock the file, yield a list with its content, and write the list's first item back.

    Expired tokens are dropped. Other writers wait. Raises SettingsError.
    """
    try:
        with _locked(path.with_name(f".{path.name}.lock")):
            box = [read_tokens(path) if path.exists() else TokenFile(secrets.token_hex(32))]
            yield box
            now = datetime.now(UTC)
            live = [each for each in box[0].tokens if each.live(now)]
            content = _FILE.dump_json(replace(box[0], tokens=tuple(live)), indent=1)
            replace_text(path, f"{content.decode()}\n", 0o600)
    except OSError as error:
        folder = "" if path.parent.is_dir() else f"; make its folder {path.parent}"
        raise SettingsError(f"tokens {path} can't be written: {error.strerror}{folder}") from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock on a file with mode 0600: any user who can open it could lock it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with suppress(PermissionError):  # owned by another user, but writable for this one
            os.fchmod(handle, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


PRIVATE = "private"
_NAME = "[a-z0-9][a-z0-9-]{0,62}"
NAME = re.compile(_NAME)
NAME_RULE = "small letters, digits and -, 63 at most"
MOST_WEIGHT = 100


_Names = list[str] | None


@dataclass(frozen=True, slots=True)
class Tenants:
    """The content of the tenants file: tenants by name, and their names by certificate URI."""

    by_name: Mapping[str, Tenant]
    by_uri: Mapping[str, str]


@table(frozen=True, config=STRICT)
class _Table:
    judges: Annotated[_Names, Field(min_length=1)] = None
    rubrics: _Names = None
    models: _Names = None
    cache: Annotated[
        str, matching(f"{PRIVATE}|shared:{_NAME}", f'"{PRIVATE}", or "shared:NAME"')
    ] = PRIVATE
    per_day: Annotated[float | None, Field(ge=1e-9, le=1e9)] = None
    per_month: Annotated[float | None, Field(ge=1e-9, le=1e9)] = None
    weight: Annotated[int, Field(ge=1, le=MOST_WEIGHT)] = 1
    tokens_per_second: Annotated[float | None, Field(ge=1, le=1e9)] = None
    uris: _Names = None


@table(frozen=True, config=STRICT)
class _File:
    tenants: dict[str, _Table] = Field(default_factory=dict)


def read_tenants(path: Path, secret: str = "") -> Tenants:
    """Read a tenants file; cache keys are derived from `secret`. Raises SettingsError."""
    content = read_toml(content_of(path, "tenants"), str(path))
    return parse_tenants(content, str(path), secret)


def parse_tenants(content: object, source: str, secret: str = "") -> Tenants:
    """Parse the TOML document of a tenants file. Raises SettingsError, which names `source`."""
    tables: dict[str, _Table] = read(_File, content, source).tenants
    by_name: dict[str, Tenant] = {}
    by_uri: dict[str, str] = {}
    # The largest weight is scaled to 1, so that no turn is longer than without weights.
    largest = max((given.weight for given in tables.values()), default=1)
    for name, given in tables.items():
        if not NAME.fullmatch(name):
            raise SettingsError(f"{source}: tenants: a name must be {NAME_RULE}")
        place = f"{source}: tenants: {name}"
        names = (
            None if each is None else tuple(each)
            for each in (given.judges, given.rubrics, given.models)
        )
        by_name[name] = Tenant(
            name,
            Allowed(*names),
            _domain_key(secret, name, given.cache),
            given.per_day,
            given.per_month,
            given.weight / largest,
            given.tokens_per_second,
        )
        for uri in given.uris or ():
            if by_uri.setdefault(uri, name) != name:
                raise SettingsError(
                    f"{place}: uris has one of {by_uri[uri]} too; it can be of one only"
                )
    return Tenants(by_name, by_uri)


def _domain_key(secret: str, tenant: str, cache: str) -> bytes:
    domain = f"tenant:{tenant}" if cache == PRIVATE else cache
    return hmac.digest(bytes.fromhex(secret), domain.encode(), hashlib.sha256)


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """A tenant and its credential: the hash of a token, or a certificate's URI.

    There is one object per credential until the files change.
    """

    tenant: Tenant
    token: str = field(default="", repr=False)
    uri: str = ""

    @property
    def credential(self) -> str:
        """The credential's name for display; never the token itself."""
        return f"token {self.token[:8]}" if self.token else self.uri


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The two files as read, and the identities by credential."""

    tenants: Tenants
    by_token: dict[str, tuple[StoredToken, Identity]]
    by_uri: dict[str, Identity]


class FileDirectory(WatchedFiles[_Snapshot]):
    """Finds identities by credential in the two files, which are watched for changes."""

    def __init__(self, path: Path, check: Callable[[Tenant], object] = lambda _: None) -> None:
        """Read the files. Raises SettingsError, as `check` does for an invalid tenant."""
        files = path, tokens_beside(path)

        def read(before: _Snapshot | None) -> _Snapshot:
            tokens = read_tokens(files[1])
            if before is not None:  # a revoked token must end while the other file is bad, too
                self.now = _snapshot(before.tenants, tokens)
            tenants = read_tenants(path, tokens.secret)
            for tenant in tenants.by_name.values():
                check(tenant)
            if before is not None and before.tenants.by_name and not tenants.by_name:
                raise SettingsError(f"tenants {path}: has no tenant any more")
            return _snapshot(tenants, tokens)

        super().__init__("tenants", files, read)

    def by_token(self, token: str) -> Identity | None:
        """Return the identity of a token; takes one SHA-256 and one look-up.

        The timing of a look-up can reveal only hashes, which callers can't choose.
        """
        return self._of_token(hash_of(token))

    def by_uri(self, uri: str) -> Identity | None:
        """Return the identity of a certificate's URI."""
        return self.now.by_uri.get(uri)

    def counts(self, identity: Identity) -> bool:
        """Return whether a credential is still valid for the same tenant."""
        token = identity.token
        now = self._of_token(token) if token else self.by_uri(identity.uri)
        return now is not None and now.tenant.name == identity.tenant.name

    def _of_token(self, sha256: str) -> Identity | None:
        found = self.now.by_token.get(sha256)
        if found is None:
            return None
        stored, identity = found
        return identity if stored.ends is None or stored.live(datetime.now(UTC)) else None


def _snapshot(tenants: Tenants, tokens: TokenFile) -> _Snapshot:
    named = tenants.by_name
    return _Snapshot(
        tenants,
        {
            each.sha256: (each, Identity(named[each.tenant], token=each.sha256))
            for each in tokens.tokens
            if each.tenant in named
        },
        {uri: Identity(named[name], uri=uri) for uri, name in tenants.by_uri.items()},
    )
