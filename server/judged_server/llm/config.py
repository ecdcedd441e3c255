"""The configuration of language models: providers, models, prices, budgets.

The classes of its tables have the pydantic configuration `STRICT`. Messages never quote a value: it
may be a key in the wrong place.

    currency = "USD"
    [[providers]]  name, dialect, base_url, key_env or key_file, limits
    [[models]]     name, provider, model, structured, prices, quirks
    [budget]       per_request, per_day, file

The classes check each table by itself, `parse_configuration` one against another. The file says
where to find the keys of providers; it never holds them, and they are never shown.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import pydantic
from pydantic import BeforeValidator, Field, SecretStr
from pydantic.dataclasses import dataclass as table

from judged_server.errors import did_you_mean
from judged_server.llm.chat import Prices
from judged_server.settings import SettingsError, content_of, read_toml

STRICT = pydantic.ConfigDict(strict=True, extra="forbid")
"""No type is converted: "5" is not a number, and true is not 1."""

_UNKNOWN = "unexpected_keyword_argument"
_WORDS = {
    "bool_type": "must be true or false",
    "float_type": "must be a number, without quotes",
    "int_type": "must be a whole number, without quotes",
    "string_type": "must be a text, in quotes",
    "dataclass_type": "must be a table",
    "dict_type": "must be a table",
    "list_type": "must be an array",
    "tuple_type": "must be an array",
}
"""Messages for pydantic's types of errors."""


def matching(pattern: str, rule: str) -> pydantic.AfterValidator:
    """Return a check that a whole string matches a pattern; `rule` says what it must be."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"must be {rule}")
        return value

    return pydantic.AfterValidator(check)


def read(form: Any, content: object, source: str) -> Any:  # noqa: ANN401 - an instance of `form`
    """Return a table, with the tables in it, as a `form`. Raises SettingsError."""
    if not isinstance(content, dict):
        raise SettingsError(f"{source} must be a table")
    try:
        # As JSON: there strict mode takes a list for a tuple and a string for a path, no more.
        raw = json.dumps(content, default=_no_json)
        return pydantic.TypeAdapter(form).validate_json(raw)
    except pydantic.ValidationError as error:
        found = error.errors(include_url=False)
    except ValueError as error:
        raise SettingsError(f"{source}: {error}") from None
    first = min(found, key=lambda each: each["type"] != _UNKNOWN)  # maybe the missing one, misspelt
    kind, loc = first["type"], list(first["loc"])
    if kind in {_UNKNOWN, "missing"}:
        *loc, key = loc
        problem = "is missing" if kind == "missing" else "is not known here; leave it out"
        shown = key if re.fullmatch(r"[\w-]{1,40}", str(key)) else "a key"
        raise SettingsError(f"{place_of(source, content, loc)}: {shown} {problem}")
    if kind == "value_error":
        problem = str(first["ctx"]["error"])
    else:
        problem = _WORDS.get(kind) or re.sub(
            "^[A-Za-z]+ should", "must", first["msg"].replace(" after validation", "")
        )
    place = place_of(source, content, loc)
    gap = " " if problem.startswith(("must", "has")) else ": "
    raise SettingsError(f"{place}{gap}{problem}")


def place_of(source: str, content: Any, loc: Iterable[str | int]) -> str:  # noqa: ANN401 - anything
    """Return how errors name a part of a file, such as "FILE: models[0] (small)"."""
    for part in loc:
        if isinstance(part, int):
            content = content[part]
            name = content.get("name") if isinstance(content, dict) else None
            shown = isinstance(name, str) and re.fullmatch(r"[\w.:/-]{1,60}", name)
            source = f"{source}[{part}]" + (f" ({name})" if shown else "")
        elif isinstance(content, dict) and part in content:  # else it is the tag of a union
            content = content[part]
            source = f"{source}: {part}"
    return source


def _no_json(value: object) -> None:
    raise ValueError(f"it holds {type(value).__name__}s, which nothing here is; use quotes")


Name = Annotated[
    str,
    matching(
        r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}",
        "a name of letters, digits and . _ : / - that begins with a letter or a digit",
    ),
]
PerMillion = Annotated[float, Field(ge=0, le=1e9)]
Money = Annotated[float, Field(ge=1e-9, le=1e9)]


FilePath = Annotated[Path | None, BeforeValidator(lambda path: path or None)]


class Structured(StrEnum):
    """How a model is made to follow a JSON schema."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    NONE = "none"


@table(frozen=True, slots=True, config=STRICT)
class ProviderConfiguration:
    """One provider: its address, its key, and the limits of requests to it.

    Rates are per minute, None for no limit. `timeout_s` is for one attempt. `allow_private` allows
    its host name to have a private address, `allow_http` allows HTTP without TLS.
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
    ca_file: FilePath = None
    max_concurrency: Annotated[int, Field(ge=1, le=4096)] = 32
    requests_per_minute: Annotated[float | None, Field(ge=1, le=1e9)] = None
    tokens_per_minute: Annotated[float | None, Field(ge=1, le=1e12)] = None
    timeout_s: Annotated[float, Field(ge=0.1, le=3600)] = 25.0
    allow_http: bool = False
    allow_private: bool = False
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
    max_tokens_parameter: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    send_temperature: bool = True
    send_seed: bool = True
    schema_bounds: bool = True
    input_per_million: PerMillion | None = None
    output_per_million: PerMillion | None = None
    fallback: tuple[Name, ...] = ()
    default: bool = False

    def __post_init__(self) -> None:
        if (self.input_per_million is None) is not (self.output_per_million is None):
            raise ValueError("input_per_million and output_per_million must both be set, or none")

    @property
    def prices(self) -> Prices | None:
        """Prices of a million tokens, None if unknown."""
        if self.input_per_million is None or self.output_per_million is None:
            return None
        return Prices(self.input_per_million, self.output_per_million)


@table(frozen=True, slots=True, config=STRICT)
class BudgetConfiguration:
    """Limits of spending, in the currency of the file; None for no limit.

    `file` is where spending is recorded, None for the default place.
    """

    per_request: Money | None = None
    per_day: Money | None = None
    file: FilePath = None


@table(frozen=True, slots=True, config=STRICT)
class Configuration:
    """All providers and models; the default model stands first."""

    currency: Annotated[str, matching("[A-Z]{3}", "three capital letters, like USD")] = "USD"
    providers: tuple[ProviderConfiguration, ...] = ()
    models: tuple[ModelConfiguration, ...] = ()
    budget: BudgetConfiguration = Field(default_factory=BudgetConfiguration)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an API supports.

    `structured` and `auth` are the values it supports, the default first. `refused` are keys of the
    configuration that don't apply to it. `defaults` are those of a model's keys that differ from
    the usual ones.
    """

    structured: tuple[Structured, ...]
    auth: tuple[str, ...]
    refused: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)


FAKE = "fake"
_NOT_SENT = """
    allow_http allow_private auth base_url ca_file key_env key_file max_concurrency
    max_tokens_parameter requests_per_minute schema_bounds send_seed
    send_temperature timeout_s tokens_per_minute
"""

_NOT_ANTHROPIC = "send_seed max_tokens_parameter schema_bounds"

CAPABILITIES = {
    "openai": Capabilities(tuple(Structured), ("bearer", "api-key")),
    "anthropic": Capabilities(
        (Structured.JSON_SCHEMA, Structured.NONE),
        ("x-api-key", "bearer"),
        tuple(_NOT_ANTHROPIC.split()),
        # Newer models refuse a temperature, and the package's types no longer have it.
        {"send_temperature": False, "send_seed": False},
    ),
    "gemini": Capabilities(
        tuple(Structured),
        ("x-goog-api-key", "bearer"),
        ("max_tokens_parameter", "schema_bounds"),
    ),
    FAKE: Capabilities(
        (Structured.JSON_SCHEMA, Structured.NONE),
        ("",),
        tuple(_NOT_SENT.split()),
        {"send_seed": False},
    ),
}
"""By dialect. `providers` has the form of requests and replies in each."""


MAX_FILE_BYTES, _MAX_KEY_BYTES = 1 << 20, 16 << 10


def read_configuration(path: Path) -> Configuration:
    """Return the configuration in a file. Raises SettingsError, which names file and place."""
    raw = content_of(path, "llm_config", MAX_FILE_BYTES)
    return parse_configuration(read_toml(raw, str(path)), str(path), path.parent)


def parse_configuration(content: Any, source: str, folder: Path = Path()) -> Configuration:  # noqa: ANN401 - anything
    """Return the configuration in a TOML document; `source` names it in errors.

    Paths in it are relative to `folder`, unless they are absolute. Raises SettingsError.
    """
    found: Configuration = read(Configuration, content, source)
    if not found.models:
        raise SettingsError(f"{source}: there is no [[models]] table; add one, or drop llm_config")
    providers: dict[str, ProviderConfiguration] = {}
    models: dict[str, ModelConfiguration] = {}
    budget = found.budget
    loc: tuple[str | int, ...] = ()
    try:
        for at, provider in enumerate(found.providers):
            loc = "providers", at
            _refuse_taken(provider.name, providers)
            providers[provider.name] = _provider(provider, content["providers"][at], folder)
        for at, model in enumerate(found.models):
            loc = "models", at
            _refuse_taken(model.name, models)
            models[model.name] = _model(model, content["models"][at], providers, models)
        for at, model in enumerate(models.values()):
            loc = "models", at
            _check_fallback(model, models)
        if "budget" in content:
            loc = ("budget",)
            _check_budget(budget, found.models)
            budget = replace(budget, file=_in(folder, budget.file))
    except ValueError as error:
        raise SettingsError(f"{place_of(source, content, loc)}: {error}") from None
    default_first = sorted(models.values(), key=lambda model: not model.default)
    return Configuration(found.currency, tuple(providers.values()), tuple(default_first), budget)


def _refuse_taken(name: str, known: Mapping[str, object]) -> None:
    if name in known:
        raise ValueError("name is taken by an earlier table; choose another")


def _provider(
    provider: ProviderConfiguration, given: Mapping[str, Any], folder: Path
) -> ProviderConfiguration:
    _one_of("dialect", provider.dialect, CAPABILITIES)
    api = _api_of(provider, given)
    auth = given.get("auth", api.auth[0])
    _one_of("auth", auth, api.auth)
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
        raise ValueError("provider names no provider of this file; add its [[providers]] table")
    api = _api_of(provider, given)
    _one_of("structured", model.structured, api.structured)
    return replace(model, **{key: each for key, each in api.defaults.items() if key not in given})


def _check_fallback(model: ModelConfiguration, models: Mapping[str, ModelConfiguration]) -> None:
    """Refuse unknown models, those with fallbacks, and models of which only one takes a schema."""
    for name in model.fallback:
        if name not in models:
            hint = did_you_mean(name, models, "add its [[models]] table")
            raise ValueError(f"fallback names no model of this file; {hint}")
        if models[name].fallback:
            raise ValueError(
                f"fallback names {name}, which has fallbacks of its own; list here all that are to "
                "be asked, each a [[models]] table without fallback"
            )
        if (models[name].structured is Structured.NONE) != (model.structured is Structured.NONE):
            raise ValueError(
                f"fallback names {name}; both must take a schema, or neither (structured), for "
                "replies of both are read in one way"
            )


def _one_of(key: str, value: str, allowed: Iterable[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{key} must be one of " + ", ".join(allowed))


def _api_of(provider: ProviderConfiguration, given: Mapping[str, Any]) -> Capabilities:
    """Return what a provider's API supports. Raises ValueError for keys that don't apply to it."""
    api = CAPABILITIES[provider.dialect]
    for key in api.refused:
        if key in given:
            raise ValueError(
                f'{key} is not for dialect = "{provider.dialect}", which has nothing like it; '
                "leave it out"
            )
    return api


def _check_budget(budget: BudgetConfiguration, models: Iterable[ModelConfiguration]) -> None:
    """Refuse a budget without a limit, or with models whose prices, and so costs, are unknown."""
    if budget.per_request is None and budget.per_day is None:
        raise ValueError("per_request and per_day are both missing; set one, or drop [budget]")
    for model in models:
        if model.prices is None:
            raise ValueError(
                f"model {model.name} has no prices, so its cost is unknown; set "
                "input_per_million and output_per_million of it, 0 where it is free"
            )


def _in(folder: Path, path: Path | None) -> Path | None:
    return None if path is None else folder / path


def _check_base_url(provider: ProviderConfiguration) -> None:
    """Refuse an invalid URL, or one to which prompts and the key would be sent unencrypted.

    Plain HTTP is for this machine only, unless the operator allows it. Messages don't quote the
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
    if "@" in parts.netloc or not {"\\", "?", "#"}.isdisjoint(url):
        raise ValueError("base_url must hold no user name, password, ? or #; key_env names the key")
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if parts.scheme == "http" and not provider.allow_http and not is_loopback:
        raise ValueError(
            "base_url must be https, since prompts and key would travel in the open; "
            "allow_http = true permits it in a network you trust"
        )


def key_of(
    provider: ProviderConfiguration, environ: Mapping[str, str]
) -> tuple[SecretStr | None, str]:
    """Return a provider's key, None if it needs none or lacks it, and what to do if it lacks it.

    A key file holds the key alone, apart from white space around it.
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
    # Other characters could end the HTTP header and begin another.
    if not all("!" <= character <= "~" for character in value):
        return None, f"{where} holds characters that no key has; write the key alone"
    return SecretStr(value), ""
