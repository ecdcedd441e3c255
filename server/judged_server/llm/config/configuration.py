"""The providers and models of language-model judges, read from the operator's TOML file.

    currency = "USD"
    [[providers]]  name, dialect, base_url, key_env or key_file, limits
    [[models]]     name, provider, model, structured, prices, quirks, fallback
    [budget]       per_request, per_day, prices of models without any, file

Keys of providers never stand in the file: it names where they are (`secrets`).
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic.dataclasses import dataclass as table

from judged_server.errors import did_you_mean
from judged_server.llm.config.configured import (
    BudgetConfiguration,
    Configuration,
    ModelConfiguration,
    ProviderConfiguration,
)
from judged_server.llm.config.file_tables import STRICT, Place, read_toml, text
from judged_server.llm.fallback import refuse_bad_fallbacks
from judged_server.llm.providers import CAPABILITIES, FAKE
from judged_server.settings import SettingsError

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
        raise SettingsError(
            f"llm_config {path} can't be read: {error.strerror}; name a TOML file of providers and "
            "models, or drop the setting"
        ) from None
    return parse_configuration(read_toml(raw, str(path), _place), str(path), path.parent)


def parse_configuration(content: object, source: str, folder: Path = Path()) -> Configuration:
    """Return what a TOML document says; `source` is named in errors. Raises SettingsError.

    All files that it names are looked for in `folder`, unless their paths are absolute.
    """
    place = Place(source)
    whole = place.read(_File, content)
    known: dict[str, ProviderConfiguration] = {}
    for inner, table_content in place.tables(content, "providers"):
        provider = _provider(table_content, inner, folder)
        if provider.name in known:
            raise _taken(inner)
        known[provider.name] = provider
    models: dict[str, ModelConfiguration] = {}
    places = []
    for inner, table_content in place.tables(content, "models"):
        model = _model(table_content, inner, known)
        if model.name in models:
            raise _taken(inner)
        if model.default and any(other.default for other in models.values()):
            raise inner.fault("default", "is true for another model already")
        models[model.name] = model
        places.append(inner)
    if not models:
        raise SettingsError(f"{source}: there is no [[models]] table; add one, or drop llm_config")
    refuse_bad_fallbacks(models, places)
    budget = BudgetConfiguration()
    if whole.budget is not None:
        budget = _budget(whole.budget, place.inner("budget"), models.values(), folder)
    default_first = sorted(
        (_with_prices(model, budget) for model in models.values()),
        key=lambda model: not model.default,
    )
    return Configuration(whole.currency, tuple(known.values()), tuple(default_first), budget)


@table(frozen=True, config=STRICT)
class _File:
    currency: str = text("three capital letters, like USD", "[A-Z]{3}", "USD")
    providers: Any = ()
    models: Any = ()
    budget: Any = None


def _provider(content: dict[str, Any], place: Place, folder: Path) -> ProviderConfiguration:
    dialect = content.get("dialect", "openai")
    if dialect not in tuple(CAPABILITIES):
        raise place.fault("dialect", "must be one of " + ", ".join(CAPABILITIES))
    has = CAPABILITIES[dialect]
    _refuse(content, place, dialect)
    provider = place.read(ProviderConfiguration, {"auth": has.auth[0], **content}, _HINTS)
    if provider.auth not in has.auth:
        raise place.fault("auth", "must be one of " + ", ".join(has.auth))
    if dialect == FAKE:
        if provider.replies is None:
            raise place.fault("replies", "is missing; it must be the path of a file of replies")
    else:
        _check_base_url(provider, place)
        if provider.replies is not None:
            raise place.fault("replies", f'is for dialect = "{FAKE}" only')
    if provider.key_env and provider.key_file:
        raise place.fault("key_file", "and key_env are both there; keep one")
    return replace(
        provider,
        base_url=provider.base_url.rstrip("/"),
        key_file=_in(folder, provider.key_file),
        ca_file=_in(folder, provider.ca_file),
        replies=_in(folder, provider.replies),
    )


def _model(
    content: dict[str, Any], place: Place, providers: Mapping[str, ProviderConfiguration]
) -> ModelConfiguration:
    provider = providers.get(str(content.get("provider")))
    if provider is None:
        model = place.read(ModelConfiguration, content)
        hint = did_you_mean(model.provider, providers, "add its [[providers]] table")
        raise place.fault("provider", f"names no provider of this file; {hint}")
    has = CAPABILITIES[provider.dialect]
    _refuse(content, place, provider.dialect)
    defaults = {
        "structured": has.structured[0],
        "send_temperature": has.send_temperature,
        "send_seed": "send_seed" not in has.refused,
    }
    model = place.read(ModelConfiguration, defaults | content)
    if model.structured not in has.structured:
        raise place.fault("structured", "must be one of " + ", ".join(has.structured))
    pattern, rule = has.model_name
    if not re.fullmatch(pattern, model.model):
        raise place.fault("model", f"must be {rule}")
    _refuse_half(place, model, "input_per_million", "output_per_million")
    return model


def _refuse(content: dict[str, Any], place: Place, dialect: str) -> None:
    """Refuse keys that make no sense for a dialect, each with the reason why."""
    for key, why in CAPABILITIES[dialect].refused.items():
        if key in content:
            raise place.fault(key, f'is not for dialect = "{dialect}": {why}')


def _refuse_half(place: Place, table: ModelConfiguration | BudgetConfiguration, *pair: str) -> None:
    """Refuse a price of input without one of output, and the other way round."""
    missing = [key for key in pair if getattr(table, key) is None]
    if len(missing) == 1:
        (given,) = {*pair} - {*missing}
        raise place.fault(missing[0], f"is missing beside {given}; set both, to 0 what is free")


def _taken(place: Place) -> SettingsError:
    return place.fault("name", "is taken by an earlier table; choose another")


def _budget(
    content: object, place: Place, models: Iterable[ModelConfiguration], folder: Path
) -> BudgetConfiguration:
    """Read what may be spent. Without its price, what a model spends can't be known."""
    budget = place.read(BudgetConfiguration, content)
    named = budget.unpriced_input_per_million is not None
    _refuse_half(place, budget, "unpriced_input_per_million", "unpriced_output_per_million")
    if budget.per_request is None and budget.per_day is None and not named:
        raise place.fault("per_request", "and per_day are both missing; set one, or drop [budget]")
    for model in models:
        if model.prices is None and not named:
            raise SettingsError(
                f"{place.where}: model {model.name} has no prices, so nobody can tell what it "
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


def _check_base_url(provider: ProviderConfiguration, place: Place) -> None:
    """Refuse what is no URL of an API, or leads where prompts and the key travel in the open.

    Plain HTTP only goes to this machine, unless the operator allows it. Messages don't quote the
    URL, which may hold a password.
    """
    url = provider.base_url
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise place.fault("base_url", "is not a URL") from None
    if parts.scheme not in {"https", "http"} or not host:
        raise place.fault("base_url", "must begin with https:// and name a host")
    if "@" in parts.netloc or "\\" in url:
        raise place.fault("base_url", "must not hold a user name or password; use key_env")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise place.fault("base_url", "must end with its path, without ? or #")
    if _is_odd_number(host):
        raise place.fault(
            "base_url", "has a number for a host; write the address as a.b.c.d, or a name"
        )
    if parts.scheme == "http" and not provider.allow_http and not _is_loopback(host):
        raise place.fault(
            "base_url",
            "must be https, since prompts and key would travel in the open; "
            "allow_http = true permits it in a network you trust",
        )


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


def _place(error: tomllib.TOMLDecodeError) -> str:
    """Return where the file breaks off, without what stands there: it may be a key."""
    place = re.search(r"\(at (line \d+, column \d+)\)$", str(error))
    return f"look at {place[1]}" if place else "look at its end, where something is not closed"
