"""The providers and models of language-model judges, read from the operator's TOML file.

    currency = "USD"
    [[providers]]  name, dialect, base_url, key_env or key_file, limits
    [[models]]     name, provider, model, structured, prices, quirks, fallback
    [budget]       per_request, per_day, file

Keys of providers never stand in the file: it names where they are (`secrets`).
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from judged_server.errors import did_you_mean
from judged_server.llm.chat import Prices
from judged_server.llm.config.configured import (
    BudgetConfiguration,
    Configuration,
    ModelConfiguration,
    ProviderConfiguration,
    Structured,
)
from judged_server.llm.config.toml_table import TomlTable, read_toml
from judged_server.llm.fallback import refuse_bad_fallbacks
from judged_server.llm.providers import CAPABILITIES, FAKE
from judged_server.settings import SettingsError

__all__ = [
    "Configuration",
    "ModelConfiguration",
    "ProviderConfiguration",
    "Structured",
    "parse_configuration",
    "read_configuration",
]

_NAME = r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}"
_NAME_RULE = "a name of letters, digits and . _ : / - that begins with a letter or a digit"
_VARIABLE = r"[A-Z_][A-Z0-9_]{0,99}"
_PATH = r"[^\0]{1,4096}"
_HINTS = dict.fromkeys(
    ("key", "api_key", "apikey", "token", "secret", "password"),
    "does not belong here: name the environment variable (key_env) or the file (key_file) that "
    "holds the key",
) | {"headers": "can't be set; auth, organization and project are all that is sent"}


def read_configuration(path: Path) -> Configuration:
    """Return what the file says. Raises SettingsError, which names the file and the place."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"llm_config {path} can't be read: {error.strerror}") from None
    return parse_configuration(read_toml(raw, str(path), _place), str(path), path.parent)


def parse_configuration(content: object, source: str, folder: Path = Path()) -> Configuration:
    """Return what a TOML document says; `source` is named in errors. Raises SettingsError.

    All files that it names are looked for in `folder`, unless their paths are absolute.
    """
    table = TomlTable(content, source)
    currency = table.text("currency", "[A-Z]{3}", "three capital letters, like USD", "USD")
    provider_tables, model_tables = (
        table.tables("providers", "name"),
        table.tables("models", "name"),
    )
    budget_table = table.table("budget")
    table.end()
    providers = tuple(_provider(item, folder) for item in provider_tables)
    _check_unique(provider_tables, [provider.name for provider in providers])
    known = {provider.name: provider for provider in providers}
    chosen: list[int] = []
    models = []
    for place, item in enumerate(model_tables):
        models.append(_model(item, known))
        if item.flag("default", default=False):
            chosen.append(place)
        item.end()
    _check_unique(model_tables, [model.name for model in models])
    if not models:
        raise SettingsError(f"{source}: there is no [[models]] table; add one, or drop llm_config")
    refuse_bad_fallbacks(models, model_tables)
    if len(chosen) > 1:
        raise model_tables[chosen[1]].fault("default", "is true for another model already")
    models.insert(0, models.pop(chosen[0] if chosen else 0))
    budget = BudgetConfiguration()
    if budget_table is not None:
        budget = _budget(budget_table, models, folder)
    return Configuration(currency, providers, tuple(models), budget)


def _provider(table: TomlTable, folder: Path) -> ProviderConfiguration:
    dialect = table.choice("dialect", tuple(CAPABILITIES), "openai")
    if dialect == FAKE:
        return _fake(table, folder)
    auth = CAPABILITIES[dialect].auth
    table.refuse(CAPABILITIES[dialect].refused, f'dialect = "{dialect}"')
    provider = ProviderConfiguration(
        name=table.text("name", _NAME, _NAME_RULE),
        dialect=dialect,
        base_url=_base_url(table),
        key_env=table.text(
            "key_env", _VARIABLE, "the name of an environment variable, in capitals", ""
        )
        or None,
        key_file=_file(table, "key_file", folder),
        auth=table.choice("auth", auth, auth[0]),
        organization=table.text("organization", r"[\w.-]{1,100}", "an id", ""),
        project=table.text("project", r"[\w.-]{1,100}", "an id", ""),
        ca_file=_file(table, "ca_file", folder),
        max_concurrency=table.integer("max_concurrency", 1, 4096, 32),
        requests_per_minute=table.number("requests_per_minute", 1, 1e9, None),
        tokens_per_minute=table.number("tokens_per_minute", 1, 1e12, None),
        timeout_s=table.number("timeout_s", 0.1, 3600, 25.0) or 25.0,
        min_bytes_per_s=table.number("min_bytes_per_s", 0, 1e9, 1000.0) or 0.0,
        allow_private=table.flag("allow_private", default=False),
    )
    table.end(_HINTS)
    if provider.key_env and provider.key_file:
        raise table.fault("key_file", "and key_env are both there; keep one")
    return provider


def _fake(table: TomlTable, folder: Path) -> ProviderConfiguration:
    """Read the table of a provider that is a file of replies; it is reached by no network."""
    provider = ProviderConfiguration(
        name=table.text("name", _NAME, _NAME_RULE),
        dialect=FAKE,
        base_url="",
        auth="",
        replies=folder / table.text("replies", _PATH, "the path of a file of replies"),
    )
    table.end()
    return provider


def _model(table: TomlTable, providers: Mapping[str, ProviderConfiguration]) -> ModelConfiguration:
    """Read a table but for `default`, which is about all of them."""
    provider = table.text("provider", _NAME, "the name of a provider")
    if provider not in providers:
        hint = did_you_mean(provider, providers, "add its [[providers]] table")
        raise table.fault("provider", f"names no provider of this file; {hint}")
    dialect = providers[provider].dialect
    has = CAPABILITIES[dialect]
    table.refuse(has.refused, f'dialect = "{dialect}"')
    prices = [table.number(f"{way}_per_million", 0, 1e9, None) for way in ("input", "output")]
    if (prices[0] is None) != (prices[1] is None):
        raise table.fault("input_per_million", "and output_per_million go together; set both")
    return ModelConfiguration(
        name=table.text("name", _NAME, _NAME_RULE),
        provider=provider,
        model=table.text("model", *has.model_name),
        structured=Structured(table.choice("structured", has.structured, has.structured[0])),
        logprobs=table.flag("logprobs", default=False),
        max_tokens_parameter=table.choice(
            "max_tokens_parameter", ("max_tokens", "max_completion_tokens"), "max_tokens"
        ),
        send_temperature=table.flag("send_temperature", default=has.send_temperature),
        send_seed=table.flag("send_seed", default="send_seed" not in has.refused),
        schema_bounds=table.flag("schema_bounds", default=True),
        prices=None if prices[0] is None or prices[1] is None else Prices(prices[0], prices[1]),
        fallback=table.names("fallback", _NAME, "names of models"),
    )


def _budget(
    table: TomlTable, models: Sequence[ModelConfiguration], folder: Path
) -> BudgetConfiguration:
    """Read what may be spent. Without its price, what a model spends can't be known."""
    limits = {name: table.number(name, 1e-9, 1e9, None) for name in ("per_request", "per_day")}
    file = _file(table, "file", folder)
    table.end()
    if not any(limits.values()):
        raise table.fault("per_request", "and per_day are both missing; set one, or drop [budget]")
    for model in models:
        if model.prices is None:
            raise SettingsError(
                f"{table.where}: model {model.name} has no prices, so nobody can tell what it "
                "spends; set input_per_million and output_per_million of it, 0 where it is free"
            )
    return BudgetConfiguration(**limits, file=file)


def _file(table: TomlTable, key: str, folder: Path) -> Path | None:
    """Return where a file is that a table may name, None when it names none."""
    path = table.text(key, _PATH, "a path", "")
    return folder / path if path else None


def _base_url(table: TomlTable) -> str:
    """Return the URL before "/chat/completions", without a slash at its end.

    Plain HTTP only goes to this machine, unless the operator allows it: prompts and the key would
    travel in the open. Messages don't quote the URL, which may hold a password.
    """
    url = table.text("base_url", r"[!-~]{1,2000}", "a URL, like https://api.openai.com/v1")
    plain = table.flag("allow_http", default=False)
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise table.fault("base_url", "is not a URL") from None
    if parts.scheme not in {"https", "http"} or not host:
        raise table.fault("base_url", "must begin with https:// and name a host")
    if "@" in parts.netloc or "\\" in url:
        raise table.fault("base_url", "must not hold a user name or password; use key_env")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise table.fault("base_url", "must end with its path, without ? or #")
    if _is_odd_number(host):
        raise table.fault(
            "base_url", "has a number for a host; write the address as a.b.c.d, or a name"
        )
    if parts.scheme == "http" and not plain and not _is_loopback(host):
        raise table.fault(
            "base_url",
            "must be https, since prompts and key would travel in the open; "
            "allow_http = true permits it in a network you trust",
        )
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_odd_number(host: str) -> bool:
    """Return whether a host is an address in other words than the usual, as 127.1 is.

    What it leads to depends on who reads it. No name ends in a number, so none is taken for one.
    """
    try:
        ipaddress.ip_address(host)
    except ValueError:
        last = host.rstrip(".").rpartition(".")[2]
        return re.fullmatch(r"[0-9]+|0[xX][0-9a-fA-F]*", last) is not None
    return False


def _check_unique(tables: list[TomlTable], names: list[str]) -> None:
    for place, name in enumerate(names):
        if name in names[:place]:
            raise tables[place].fault("name", "is taken by an earlier table; choose another")


def _place(error: tomllib.TOMLDecodeError) -> str:
    """Return where the file breaks off, without what stands there: it may be a key."""
    place = re.search(r"\(at (line \d+, column \d+)\)$", str(error))
    return f"look at {place[1]}" if place else "look at its end, where something is not closed"
