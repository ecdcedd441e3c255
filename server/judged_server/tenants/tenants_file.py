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
from typing import Any

import pydantic
from pydantic.dataclasses import dataclass as table

from judged_server.address import Address, AddressError
from judged_server.llm.config.file_tables import (
    STRICT,
    Place,
    number,
    read_toml,
    text,
    whole_number,
)
from judged_server.settings import SettingsError
from judged_server.tenant import Allowed, Tenant

PRIVATE = "private"
_NAME = "[a-z0-9][a-z0-9-]{0,62}"
NAME = re.compile(_NAME)
NAME_RULE = "small letters, digits and -, 63 at most"
MOST_WEIGHT = 100
_SHARED = re.compile(rf"shared:({_NAME})")


@table(frozen=True, config=STRICT)
class TenantSocket:
    """A Unix socket on which every call is a tenant's."""

    path: str = text("a path", ".+")
    owner: str = text("the name of a user", ".*", "")
    group: str = text("the name of a group", ".*", "")
    mode: str = text('permissions in octal, like "0660"', "0?[0-7]{3}", "0600")


@dataclass(frozen=True, slots=True)
class Tenants:
    """What the file says: the tenants by name, whose certificates are whose, and the sockets."""

    by_name: Mapping[str, Tenant]
    by_uri: Mapping[str, str]
    sockets: Mapping[str, tuple[TenantSocket, ...]]


def _names(rule: str) -> Any:  # noqa: ANN401 - it stands where a default does
    return pydantic.Field(None, description=rule)


@table(frozen=True, config=STRICT)
class _File:
    tenants: Any = pydantic.Field({}, description="tables")


@table(frozen=True, config=STRICT)
class _Table:
    judges: list[str] | None = _names("a list of judges")
    rubrics: list[str] | None = _names("a list of rubrics, by id")
    models: list[str] | None = _names("a list of models, by name")
    cache: str = text(f'"{PRIVATE}", or "shared:NAME"', f"{PRIVATE}|shared:{_NAME}", PRIVATE)
    per_day: float | None = number(1e-9, 1e9, None)
    per_month: float | None = number(1e-9, 1e9, None)
    weight: int = whole_number(1, MOST_WEIGHT, 1)
    tokens_per_second: float | None = number(1, 1e9, None)
    uris: list[str] | None = _names("a list of URIs of certificates")
    sockets: Any = ()


def read_tenants(path: Path, secret: bytes) -> Tenants:
    """Return what the file says; keys of caches are made from `secret`. Raises SettingsError."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"tenants {path} can't be read: {error.strerror}") from None
    return parse_tenants(read_toml(raw, str(path)), str(path), secret)


def parse_tenants(content: object, source: str, secret: bytes) -> Tenants:
    """Return what a TOML document says; `source` is named in errors. Raises SettingsError."""
    whole = Place(source)
    inner = whole.inner("tenants")
    tables = inner.table(whole.read(_File, content).tenants)
    by_name: dict[str, Tenant] = {}
    by_uri: dict[str, str] = {}
    sockets: dict[str, tuple[TenantSocket, ...]] = {}
    paths: set[str] = set()
    read_tables: dict[str, _Table] = {}
    for name, given in tables.items():
        if not NAME.fullmatch(name):
            raise inner.fault("a name", f"must be {NAME_RULE}")
        read_tables[name] = inner.inner(name).read(_Table, given)
    # The largest is 1 for those who share by it: nobody's turn is longer than without weights.
    largest = max((read.weight for read in read_tables.values()), default=1)
    for name, read in read_tables.items():
        place = inner.inner(name)
        by_name[name] = Tenant(
            name,
            _allowed(read, place),
            _domain_key(secret, name, read.cache),
            read.per_day,
            read.per_month,
            read.weight / largest,
            read.tokens_per_second,
        )
        for uri in read.uris or ():
            if by_uri.setdefault(uri, name) != name:
                raise place.fault("uris", f"has one of {by_uri[uri]} too; it can be of one only")
        own = []
        for at, socket in place.tables(tables[name], "sockets"):
            own.append(_socket(at, socket, paths))
        sockets[name] = tuple(own)
    return Tenants(by_name, by_uri, sockets)


def _allowed(read: _Table, place: Place) -> Allowed:
    if read.judges is not None and not read.judges:
        raise place.fault("judges", "must name one at least; leave it out for all")
    given = (
        None if each is None else tuple(each) for each in (read.judges, read.rubrics, read.models)
    )
    return Allowed(*given)


def _socket(place: Place, given: dict[str, Any], taken: set[str]) -> TenantSocket:
    socket = place.read(TenantSocket, given)
    try:
        path = str(Address.parse(f"unix:{socket.path}"))
    except AddressError as error:
        raise place.fault("path", str(error).removeprefix("listen: ")) from None
    if path in taken:
        raise place.fault("path", "is that of another socket of this file")
    taken.add(path)
    return socket


def _domain_key(secret: bytes, tenant: str, cache: str) -> bytes:
    shared = _SHARED.fullmatch(cache)
    domain = f"shared:{shared[1]}" if shared else f"tenant:{tenant}"
    return hmac.digest(secret, domain.encode(), hashlib.sha256)
