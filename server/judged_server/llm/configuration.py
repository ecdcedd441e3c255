"""The providers and models of language-model judges, read from the operator's TOML file.

    currency = "USD"
    [[providers]]  name, dialect, base_url, key_env or key_file, limits
    [[models]]     name, provider, model, structured, prices, quirks

Owns names, ranges, defaults and what fits together; docs/providers.md describes every key. Keys of
providers never stand in the file: it names where they are (`secrets`).
"""

from __future__ import annotations

import difflib
import ipaddress
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from judged_server.llm.chat import Prices
from judged_server.llm.toml_table import TomlTable
from judged_server.settings import SettingsError

DIALECTS = ("openai",)

_NAME = r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}"
_NAME_RULE = "a name of letters, digits and . _ : / - that begins with a letter or a digit"
_VISIBLE = r"[!-~]([ -~]{0,198}[!-~])?"
_VARIABLE = r"[A-Z_][A-Z0-9_]{0,99}"
_PATH = r"[^\0]{1,4096}"
_HINTS = dict.fromkeys(
    ("key", "api_key", "apikey", "token", "secret", "password"),
    "does not belong here: name the environment variable (key_env) or the file (key_file) that "
    "holds the key",
) | {"headers": "can't be set; auth, organization and project are all that is sent"}


class Structured(StrEnum):
    """The means by which a model is held to a JSON schema."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    TOOL = "tool"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ProviderConfiguration:
    """One provider: where it is, how it is paid, how hard it may be asked.

    Rates are per minute, None for no limit. `timeout_s` is for one attempt. `min_bytes_per_s` is
    the slowest a reply may come once it has begun; 0 for no such limit.
    """

    name: str
    base_url: str
    dialect: str = "openai"
    key_env: str | None = None
    key_file: Path | None = None
    auth: str = "bearer"
    organization: str = ""
    project: str = ""
    ca_file: Path | None = None
    max_concurrency: int = 32
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout_s: float = 25.0
    min_bytes_per_s: float = 1000.0


@dataclass(frozen=True, slots=True)
class ModelConfiguration:
    """One model of a provider, under the operator's name, with its quirks."""

    name: str
    provider: str
    model: str
    structured: Structured = Structured.JSON_SCHEMA
    logprobs: bool = False
    max_tokens_parameter: str = "max_tokens"
    send_temperature: bool = True
    send_seed: bool = True
    prices: Prices | None = None


@dataclass(frozen=True, slots=True)
class Configuration:
    """All providers and models; the default model stands first."""

    currency: str
    providers: tuple[ProviderConfiguration, ...]
    models: tuple[ModelConfiguration, ...]


def read_configuration(path: Path) -> Configuration:
    """Return what the file says. Raises SettingsError, which names the file and the place."""
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise SettingsError(f"llm_config {path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: the file is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not TOML: {_place(error)}") from None
    return parse_configuration(content, str(path))


def parse_configuration(content: object, source: str) -> Configuration:
    """Return what a TOML document says; `source` is named in errors. Raises SettingsError."""
    table = TomlTable(content, source)
    currency = table.text("currency", "[A-Z]{3}", "three capital letters, like USD", "USD")
    provider_tables, model_tables = (
        table.tables("providers", "name"),
        table.tables("models", "name"),
    )
    table.end()
    providers = tuple(_provider(item) for item in provider_tables)
    _refuse_twins(provider_tables, [provider.name for provider in providers])
    names = {provider.name for provider in providers}
    chosen: list[int] = []
    models = []
    for place, item in enumerate(model_tables):
        models.append(_model(item, names))
        if item.flag("default", default=False):
            chosen.append(place)
        item.end()
    _refuse_twins(model_tables, [model.name for model in models])
    if not models:
        raise SettingsError(f"{source}: there is no [[models]] table; add one, or drop llm_config")
    if len(chosen) > 1:
        raise model_tables[chosen[1]].fault("default", "is true for another model already")
    models.insert(0, models.pop(chosen[0] if chosen else 0))
    return Configuration(currency, providers, tuple(models))


def _provider(table: TomlTable) -> ProviderConfiguration:
    key_file = table.text("key_file", _PATH, "a path", "")
    ca_file = table.text("ca_file", _PATH, "a path", "")
    provider = ProviderConfiguration(
        name=table.text("name", _NAME, _NAME_RULE),
        dialect=table.choice("dialect", DIALECTS, "openai"),
        base_url=_base_url(table),
        key_env=table.text(
            "key_env", _VARIABLE, "the name of an environment variable, in capitals", ""
        )
        or None,
        key_file=Path(key_file) if key_file else None,
        auth=table.choice("auth", ("bearer", "api-key"), "bearer"),
        organization=table.text("organization", r"[\w.-]{1,100}", "an id", ""),
        project=table.text("project", r"[\w.-]{1,100}", "an id", ""),
        ca_file=Path(ca_file) if ca_file else None,
        max_concurrency=table.integer("max_concurrency", 1, 4096, 32),
        requests_per_minute=table.number("requests_per_minute", 1, 1e9, None),
        tokens_per_minute=table.number("tokens_per_minute", 1, 1e12, None),
        timeout_s=table.number("timeout_s", 0.1, 3600, 25.0) or 25.0,
        min_bytes_per_s=table.number("min_bytes_per_s", 0, 1e9, 1000.0) or 0.0,
    )
    table.end(_HINTS)
    if provider.key_env and provider.key_file:
        raise table.fault("key_file", "and key_env are both there; keep one")
    return provider


def _model(table: TomlTable, providers: set[str]) -> ModelConfiguration:
    """Read a table but for `default`, which is about all of them."""
    provider = table.text("provider", _NAME, "the name of a provider")
    if provider not in providers:
        close = difflib.get_close_matches(provider, providers, 1)
        known = f"did you mean {close[0]}?" if close else "add its [[providers]] table"
        raise table.fault("provider", f"names no provider of this file; {known}")
    prices = [table.number(f"{way}_per_million", 0, 1e9, None) for way in ("input", "output")]
    if (prices[0] is None) != (prices[1] is None):
        raise table.fault("input_per_million", "and output_per_million go together; set both")
    return ModelConfiguration(
        name=table.text("name", _NAME, _NAME_RULE),
        provider=provider,
        model=table.text("model", _VISIBLE, "the provider's name of the model"),
        structured=Structured(table.choice("structured", tuple(Structured), "json_schema")),
        logprobs=table.flag("logprobs", default=False),
        max_tokens_parameter=table.choice(
            "max_tokens_parameter", ("max_tokens", "max_completion_tokens"), "max_tokens"
        ),
        send_temperature=table.flag("send_temperature", default=True),
        send_seed=table.flag("send_seed", default=True),
        prices=None if prices[0] is None or prices[1] is None else Prices(prices[0], prices[1]),
    )


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


def _refuse_twins(tables: list[TomlTable], names: list[str]) -> None:
    for place, name in enumerate(names):
        if name in names[:place]:
            raise tables[place].fault("name", "is taken by an earlier table; choose another")


def _place(error: tomllib.TOMLDecodeError) -> str:
    """Return where the file breaks off, without what stands there: it may be a key."""
    _, _, place = str(error).rpartition("(")
    return f"see {place.rstrip(')')}" if place.startswith("at ") else "check its last lines"
