"""The providers and models of language-model judges, read from the operator's TOML file.

    currency = "USD"
    [[providers]]  name, dialect, base_url, key_env or key_file, limits
    [[models]]     name, provider, model, structured, prices, quirks, fallback
    [budget]       per_request, per_day, prices of models without any, file

First what each table may say, then what one says of another. Keys of providers never stand in the
file: it names where they are; they are shown to nobody.
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr
from pydantic.dataclasses import dataclass as table

from judged_server.errors import did_you_mean
from judged_server.llm.chat import Prices
from judged_server.llm.config.file_tables import (
    STRICT,
    content_of,
    matching,
    place_of,
    read,
    read_toml,
)
from judged_server.settings import SettingsError

Name = Annotated[
    str,
    matching(
        r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}",
        "a name of letters, digits and . _ : / - that begins with a letter or a digit",
    ),
]
Id = Annotated[str, matching(r"[\w.-]{0,100}", "an id")]
PerMillion = Annotated[float, Field(ge=0, le=1e9)]
Money = Annotated[float, Field(ge=1e-9, le=1e9)]


FilePath = Annotated[Path | None, BeforeValidator(lambda path: path or None)]


class Structured(StrEnum):
    """The means by which a model is held to a JSON schema."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    TOOL = "tool"
    NONE = "none"


@table(frozen=True, slots=True, config=STRICT)
class ProviderConfiguration:
    """One provider: where it is, how it is paid, how hard it may be asked.

    Rates are per minute, None for no limit. `timeout_s` is for one attempt.
    `allow_private` lets the name in its URL lead into a private network, `allow_http` lets prompts
    travel in the open.
    """

    name: Name
    base_url: Annotated[
        str, matching(r"[!-~]{0,2000}", "a URL, like https://api.openai.com/v1")
    ] = ""
    dialect: str = "openai"
    key_env: Annotated[
        str,
        matching(r"([A-Z_][A-Z0-9_]{0,99})?", "the name of an environment variable, in capitals"),
    ] = ""
    key_file: FilePath = None
    auth: str = "bearer"
    organization: Id = ""
    project: Id = ""
    ca_file: FilePath = None
    max_concurrency: Annotated[int, Field(ge=1, le=4096)] = 32
    requests_per_minute: Annotated[float | None, Field(ge=1, le=1e9)] = None
    tokens_per_minute: Annotated[float | None, Field(ge=1, le=1e12)] = None
    timeout_s: Annotated[float, Field(ge=0.1, le=3600)] = 25.0
    allow_private: bool = False
    allow_http: bool = False
    replies: FilePath = None

    def __post_init__(self) -> None:
        if self.key_env and self.key_file:
            raise ValueError("key_file and key_env are both there; keep one")


@table(frozen=True, slots=True, config=STRICT)
class ModelConfiguration:
    """One model of a provider, under the operator's name, with its quirks.

    `fallback` names the models that are asked in its place when its provider fails, in order.
    """

    name: Name
    provider: Name
    model: Annotated[
        str, matching(r"[!-~]([ -~]{0,198}[!-~])?", "the provider's name of the model")
    ]
    structured: Structured = Structured.JSON_SCHEMA
    logprobs: bool = False
    max_tokens_parameter: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    send_temperature: bool = True
    send_seed: bool = True
    schema_bounds: bool = True
    input_per_million: PerMillion | None = None
    output_per_million: PerMillion | None = None
    fallback: tuple[Name, ...] = ()
    default: bool = False

    def __post_init__(self) -> None:
        _refuse_half("", self.input_per_million, self.output_per_million)
        if len(set(self.fallback)) < len(self.fallback):
            raise ValueError("fallback names a model twice")

    @property
    def prices(self) -> Prices | None:
        """What a million tokens cost, None where that is not known."""
        if self.input_per_million is None or self.output_per_million is None:
            return None
        return Prices(self.input_per_million, self.output_per_million)


@table(frozen=True, slots=True, config=STRICT)
class BudgetConfiguration:
    """What may be spent, in the currency of the file; None for no limit.

    `file` is where the spending of a day is kept, None for the usual place. Models that have no
    prices of their own count by the unpriced ones, where these are given.
    """

    per_request: Money | None = None
    per_day: Money | None = None
    unpriced_input_per_million: PerMillion | None = None
    unpriced_output_per_million: PerMillion | None = None
    file: FilePath = None

    def __post_init__(self) -> None:
        _refuse_half("unpriced_", self.unpriced_input_per_million, self.unpriced_output_per_million)


@table(frozen=True, slots=True, config=STRICT)
class Configuration:
    """All providers and models; the default model stands first."""

    currency: Annotated[str, matching("[A-Z]{3}", "three capital letters, like USD")] = "USD"
    providers: tuple[ProviderConfiguration, ...] = ()
    models: tuple[ModelConfiguration, ...] = ()
    budget: BudgetConfiguration = Field(default_factory=BudgetConfiguration)


def _refuse_half(prefix: str, price_in: float | None, price_out: float | None) -> None:
    """Refuse a price of input without one of output, and the other way round."""
    if (price_in is None) == (price_out is None):
        return
    missing, given = ("input", "output") if price_in is None else ("output", "input")
    raise ValueError(
        f"{prefix}{missing}_per_million is missing beside {prefix}{given}_per_million; set both, "
        "to 0 what is free"
    )


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an API has.

    `structured` and `auth` are the means it knows, the default first. `refused` says of keys of the
    configuration why they make no sense here. `send_temperature` is that key's default.
    """

    structured: tuple[Structured, ...]
    auth: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    send_temperature: bool = True


FAKE = "fake"
_NOT_SENT = (
    "allow_http", "allow_private", "auth", "base_url", "ca_file", "key_env", "key_file",
    "logprobs", "max_concurrency", "max_tokens_parameter", "organization",
    "project", "requests_per_minute", "schema_bounds", "send_seed", "send_temperature", "timeout_s",
    "tokens_per_minute",
)  # fmt: skip

CAPABILITIES = {
    "openai": Capabilities(tuple(Structured), ("bearer", "api-key")),
    "anthropic": Capabilities(
        (Structured.JSON_SCHEMA, Structured.TOOL, Structured.NONE),
        ("x-api-key", "bearer"),
        refused={
            "organization": "a key belongs to its organization there; leave it out",
            "project": "a key belongs to its workspace there; leave it out",
            "logprobs": "that API gives no log-probabilities; leave it out",
            "send_seed": "that API takes no seed; leave it out",
            "max_tokens_parameter": "that API has one name for it; leave it out",
            "schema_bounds": "what that API refuses is left out anyway; leave it out",
        },
        # Newer models refuse a temperature, and the package's types no longer know it.
        send_temperature=False,
    ),
    "gemini": Capabilities(
        (Structured.JSON_SCHEMA, Structured.JSON_OBJECT, Structured.TOOL, Structured.NONE),
        ("x-goog-api-key", "bearer"),
        refused={
            "organization": "a key belongs to its project there; leave it out",
            "project": "a key belongs to its project there; leave it out",
            "max_tokens_parameter": "that API has one name for it; leave it out",
            "schema_bounds": "that API takes them; leave it out",
        },
    ),
    FAKE: Capabilities(
        (Structured.JSON_SCHEMA, Structured.NONE),
        ("",),
        refused=dict.fromkeys(_NOT_SENT, "nothing is sent; leave it out"),
    ),
}
"""By the names of the dialects. How they spell requests and replies is in `providers`."""


MAX_FILE_BYTES, _MAX_KEY_BYTES = 1 << 20, 16 << 10
_HINTS = dict.fromkeys(
    ("key", "api_key", "apikey", "token", "secret", "password"),
    "does not belong here: name the environment variable (key_env) or the file (key_file) that "
    "holds the key",
) | {"headers": "can't be set; auth, organization and project are all that is sent"}


def read_configuration(path: Path) -> Configuration:
    """Return what the file says. Raises SettingsError, which names the file and the place."""
    raw = content_of(path, "llm_config", MAX_FILE_BYTES)
    return parse_configuration(read_toml(raw, str(path), _place), str(path), path.parent)


def parse_configuration(content: Any, source: str, folder: Path = Path()) -> Configuration:  # noqa: ANN401 - anything
    """Return what a TOML document says; `source` is named in errors. Raises SettingsError.

    All files that it names are looked for in `folder`, unless their paths are absolute.
    """
    found: Configuration = read(Configuration, content, source, _HINTS)
    if not found.models:
        raise SettingsError(f"{source}: there is no [[models]] table; add one, or drop llm_config")
    providers: dict[str, ProviderConfiguration] = {}
    models: dict[str, ModelConfiguration] = {}
    budget = found.budget
    way: tuple[str | int, ...] = ()
    try:
        for at, provider in enumerate(found.providers):
            way = "providers", at
            _refuse_taken(provider.name, providers)
            providers[provider.name] = _provider(provider, content["providers"][at], folder)
        for at, model in enumerate(found.models):
            way = "models", at
            _refuse_taken(model.name, models)
            models[model.name] = _model(model, content["models"][at], providers, models)
        for at, model in enumerate(models.values()):
            way = "models", at
            _check_fallback(model, models)
        if "budget" in content:
            way = ("budget",)
            budget = _budget(budget, models, folder)
            models = {name: _with_prices(model, budget) for name, model in models.items()}
    except ValueError as error:
        raise SettingsError(f"{place_of(source, content, way)}: {error}") from None
    default_first = sorted(models.values(), key=lambda model: not model.default)
    return Configuration(found.currency, tuple(providers.values()), tuple(default_first), budget)


def _refuse_taken(name: str, known: Mapping[str, object]) -> None:
    if name in known:
        raise ValueError("name is taken by an earlier table; choose another")


def _provider(
    provider: ProviderConfiguration, given: Mapping[str, Any], folder: Path
) -> ProviderConfiguration:
    _one_of("dialect", provider.dialect, CAPABILITIES)
    _refuse(given, provider.dialect)
    has = CAPABILITIES[provider.dialect]
    auth = given.get("auth", has.auth[0])
    _one_of("auth", auth, has.auth)
    if provider.dialect != FAKE:
        _check_base_url(provider)
        if provider.replies is not None:
            raise ValueError(f'replies is for dialect = "{FAKE}" only')
    elif provider.replies is None:
        raise ValueError("replies is missing; it must be the path of a file of replies")
    return replace(
        provider,
        auth=auth,
        base_url=provider.base_url.rstrip("/"),
        key_file=_in(folder, provider.key_file),
        ca_file=_in(folder, provider.ca_file),
        replies=_in(folder, provider.replies),
    )


def _model(
    model: ModelConfiguration,
    given: Mapping[str, Any],
    providers: Mapping[str, ProviderConfiguration],
    earlier: Mapping[str, ModelConfiguration],
) -> ModelConfiguration:
    if model.default and any(each.default for each in earlier.values()):
        raise ValueError("default is true for another model already")
    provider = providers.get(model.provider)
    if provider is None:
        hint = did_you_mean(model.provider, providers, "add its [[providers]] table")
        raise ValueError(f"provider names no provider of this file; {hint}")
    has = CAPABILITIES[provider.dialect]
    _refuse(given, provider.dialect)
    defaults: dict[str, Any] = {
        "structured": has.structured[0],
        "send_temperature": has.send_temperature,
        "send_seed": "send_seed" not in has.refused,
    }
    model = replace(model, **{key: each for key, each in defaults.items() if key not in given})
    _one_of("structured", model.structured, has.structured)
    return model


def _one_of(key: str, value: str, allowed: Mapping[str, object] | tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{key} must be one of " + ", ".join(allowed))


def _refuse(given: Mapping[str, Any], dialect: str) -> None:
    """Refuse keys that make no sense for a dialect, each with the reason why."""
    for key, why in CAPABILITIES[dialect].refused.items():
        if key in given:
            raise ValueError(f'{key} is not for dialect = "{dialect}": {why}')


def _check_fallback(model: ModelConfiguration, known: Mapping[str, ModelConfiguration]) -> None:
    """Refuse models that are not there, the model itself, and mixed forms."""
    for name in model.fallback:
        if name not in known:
            hint = did_you_mean(name, known, "add its [[models]] table")
            raise ValueError(f"fallback names no model of this file; {hint}")
        if name == model.name:
            raise ValueError("fallback names the model itself; name another")
        plain = Structured.NONE
        if (known[name].structured is plain) != (model.structured is plain):
            raise ValueError(
                f"fallback names {name}; both must take a schema, or neither (structured), since "
                "one question is written for both"
            )


def _budget(
    budget: BudgetConfiguration, models: Mapping[str, ModelConfiguration], folder: Path
) -> BudgetConfiguration:
    """Check what may be spent. Without its price, what a model spends can't be known."""
    named = budget.unpriced_input_per_million is not None
    if budget.per_request is None and budget.per_day is None and not named:
        raise ValueError("per_request and per_day are both missing; set one, or drop [budget]")
    for model in models.values():
        if model.prices is None and not named:
            raise ValueError(
                f"model {model.name} has no prices, so nobody can tell what it "
                "spends; set input_per_million and output_per_million of it, 0 where it is free, "
                "or unpriced_input_per_million and unpriced_output_per_million here, by which all "
                "models without prices count"
            )
    return replace(budget, file=_in(folder, budget.file))


def _with_prices(model: ModelConfiguration, budget: BudgetConfiguration) -> ModelConfiguration:
    """Return a model with the prices by which it counts, if there are any."""
    if model.prices is not None or budget.unpriced_input_per_million is None:
        return model
    return replace(
        model,
        input_per_million=budget.unpriced_input_per_million,
        output_per_million=budget.unpriced_output_per_million,
    )


def _in(folder: Path, path: Path | None) -> Path | None:
    return None if path is None else folder / path


def _check_base_url(provider: ProviderConfiguration) -> None:
    """Refuse what is no URL of an API, or leads where prompts and the key travel in the open.

    Plain HTTP only goes to this machine, unless the operator allows it. Messages don't quote the
    URL, which may hold a password.
    """
    url = provider.base_url
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("base_url is not a URL") from None
    if parts.scheme not in {"https", "http"} or not host:
        raise ValueError("base_url must begin with https:// and name a host")
    if "@" in parts.netloc or "\\" in url:
        raise ValueError("base_url must not hold a user name or password; use key_env")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise ValueError("base_url must end with its path, without ? or #")
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if parts.scheme == "http" and not provider.allow_http and not is_loopback:
        raise ValueError(
            "base_url must be https, since prompts and key would travel in the open; "
            "allow_http = true permits it in a network you trust"
        )


def _place(error: tomllib.TOMLDecodeError) -> str:
    """Return where the file breaks off, without what stands there: it may be a key."""
    place = re.search(r"\(at (line \d+, column \d+)\)$", str(error))
    return f"look at {place[1]}" if place else "look at its end, where something is not closed"


def key_of(
    provider: ProviderConfiguration, environ: Mapping[str, str]
) -> tuple[SecretStr | None, str]:
    """Return the key of a provider, None where it needs none, and what to do where it is missing.

    In a file it is the whole, but for white space around it.
    """
    if provider.key_env:
        where = f"the environment variable {provider.key_env}"
        value = environ.get(provider.key_env, "").strip()
        if not value:
            return None, f"{where} is not set; set it to the key"
    elif provider.key_file is not None:
        where = f"the key file {provider.key_file}"
        try:
            content = content_of(provider.key_file, "the key file", _MAX_KEY_BYTES)
        except SettingsError as error:
            return None, str(error)
        value = content.decode("ascii", "replace").strip()
        if not value:
            return None, f"{where} is empty; write the key into it"
    else:
        return None, ""
    # Anything else could end the header it travels in and begin another.
    if not all("!" <= character <= "~" for character in value):
        return None, f"{where} holds characters that no key has; write the key alone"
    return SecretStr(value), ""
