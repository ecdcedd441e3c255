"""The file in which an operator says who the tenants are and what each of them may.

[tenants.search]
judges = ["token_overlap", "semantic"]       # without the key: all
rubrics = ["faithfulness"]
models = ["careful", "all-minilm-l6-v2"]
cache = "shared:research"                    # else private
weight = 3                                   # of its share of what is busy, else 1
tokens_per_second = 5000                     # of work that it sends
uris = ["spiffe://example.org/search"]       # of certificates
sockets = [{ path = "/run/judged/search.sock", owner = "search", group = "search", mode = "0600" }]
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass as table

from judged_server.address import Address, AddressError
from judged_server.llm.config.file_tables import STRICT, matching, read, read_toml
from judged_server.settings import SettingsError
from judged_server.tenant import Allowed, Tenant

PRIVATE = "private"
_NAME = "[a-z0-9][a-z0-9-]{0,62}"
NAME = re.compile(_NAME)
NAME_RULE = "small letters, digits and -, 63 at most"
MOST_WEIGHT = 100
_SHARED = re.compile(rf"shared:({_NAME})")


_Names = list[str] | None


@table(frozen=True, config=STRICT)
class TenantSocket:
    """A Unix socket on which every call is a tenant's."""

    path: str
    owner: str = ""
    group: str = ""
    mode: Annotated[str, matching("0?[0-7]{3}", 'permissions in octal, like "0660"')] = "0600"


@dataclass(frozen=True, slots=True)
class Tenants:
    """What the file says: the tenants by name, whose certificates are whose, and the sockets."""

    by_name: Mapping[str, Tenant]
    by_uri: Mapping[str, str]
    sockets: Mapping[str, tuple[TenantSocket, ...]]


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
    sockets: tuple[TenantSocket, ...] = ()


@table(frozen=True, config=STRICT)
class _File:
    tenants: dict[str, _Table] = Field(default_factory=dict)


def read_tenants(path: Path, secret: str) -> Tenants:
    """Return what the file says; keys of caches are made from `secret`. Raises SettingsError."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"tenants {path} can't be read: {error.strerror}") from None
    return parse_tenants(read_toml(raw, str(path)), str(path), secret)


def parse_tenants(content: object, source: str, secret: str) -> Tenants:
    """Return what a TOML document says; `source` is named in errors. Raises SettingsError."""
    tables: dict[str, _Table] = read(_File, content, source).tenants
    by_name: dict[str, Tenant] = {}
    by_uri: dict[str, str] = {}
    sockets: dict[str, tuple[TenantSocket, ...]] = {}
    paths: set[str] = set()
    # The largest is 1 for those who share by it: nobody's turn is longer than without weights.
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
        for at, socket in enumerate(given.sockets):
            _check_path(socket.path, f"{place}: sockets[{at}]", paths)
        sockets[name] = given.sockets
    return Tenants(by_name, by_uri, sockets)


def _check_path(given: str, place: str, taken: set[str]) -> None:
    try:
        path = str(Address.parse(f"unix:{given}"))
    except AddressError as error:
        raise SettingsError(f"{place}: path {str(error).removeprefix('listen: ')}") from None
    if path in taken:
        raise SettingsError(f"{place}: path is that of another socket of this file")
    taken.add(path)


def _domain_key(secret: str, tenant: str, cache: str) -> bytes:
    shared = _SHARED.fullmatch(cache)
    domain = f"shared:{shared[1]}" if shared else f"tenant:{tenant}"
    return hmac.digest(bytes.fromhex(secret), domain.encode(), hashlib.sha256)
