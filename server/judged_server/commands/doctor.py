"""`judged-server doctor`: whether a server can run with these settings, and what to mend if not.

It listens nowhere, asks no model anything and changes no file. Providers are connected to, no more.
"""

from __future__ import annotations

import os
import resource
import shutil
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from judged_server.address import Address, AddressError
from judged_server.errors import JudgedError
from judged_server.settings import (
    Settings,
    SettingsError,
    cache_folder,
    certificate_pair,
    misspelt_variables,
)
from judged_server.telemetry import configure
from judged_server.tenant import EVERYTHING, Tenant

if TYPE_CHECKING:
    from judged_server.usecases.offering import Offerings

OK, WARN, BAD = "ok  ", "warn", "BAD "
_CONNECT_S = 5.0
_FREE_BYTES = 1 << 30
_FILES = 1024
_DAYS_LEFT = 14
_SKEW = timedelta(minutes=5)


class Finding(NamedTuple):
    """What a check found: how it is, of what, and what there is to say."""

    state: str
    what: str
    said: str


def diagnose(settings: Settings, say: Callable[[str], object] = print) -> int:
    """Print a line for each thing that was checked; return 2 when one keeps a server from running.

    Raises nothing that a setting can cause.
    """
    worst = 0
    told: set[str] = set()
    configure("error")  # what parts warn of as they are made is told here
    for what, check in _CHECKS.items():
        try:
            findings = list(check(settings))
        except (SettingsError, AddressError, JudgedError) as error:
            findings = [Finding(BAD, what, str(error))]
        for finding in findings:
            if finding.state == BAD:
                if finding.said in told:
                    continue  # two checks read the same file
                told.add(finding.said)
            say(f"{finding.state}  {finding.what}: {finding.said}")
            worst = max(worst, 2 if finding.state == BAD else 0)
    say("a server can run with these settings" if not worst else "mend what is BAD; see above")
    return worst


def _settings(_: Settings) -> Iterator[Finding]:
    warnings = list(misspelt_variables(os.environ))
    yield from (Finding(WARN, "settings", warning) for warning in warnings)
    if not warnings:
        yield Finding(OK, "settings", "all are known and in range")


def _addresses(settings: Settings) -> Iterator[Finding]:
    named = {"listen": settings.listen}
    if settings.http_listen is not None:
        named["http_listen"] = settings.http_listen
    if settings.metrics_listen is not None:
        named["metrics_listen"] = settings.metrics_listen
    taken: dict[Address, str] = {}
    for setting, text in named.items():
        address = Address.parse(text, setting)
        other = taken.setdefault(address, setting)
        if other != setting and (address.path is not None or address.port):
            raise AddressError(f"{setting}: {address} is that of {other}; name another port")
        yield from _address(settings, setting, address)


def _address(settings: Settings, setting: str, address: Address) -> Iterator[Finding]:
    address.refuse_taken(setting)
    if setting == "metrics_listen" and (not address.is_local or address.path is not None):
        said = f"{address}: is for this machine only; name a port of 127.0.0.1"
        yield Finding(BAD, setting, said)
        return
    known = "this machine only" if address.is_local else "other machines can reach it"
    asks = settings.tenants is not None or settings.client_ca is not None
    safe = address.is_local or (settings.certificate is not None and asks)
    if safe:
        yield Finding(OK, setting, f"{address}, {known}")
    else:
        state = WARN if settings.insecure and settings.tenants is None else BAD
        yield Finding(
            state, setting, f"{address}, {known}: give --certificate, --private-key and --tenants"
        )


def _certificate(settings: Settings) -> Iterator[Finding]:
    pair = certificate_pair(settings)
    if pair is None:
        return
    from judged_server.api.listening.certificates import CertificateFiles, Certificates  # noqa: PLC0415

    files = CertificateFiles(*pair, settings.client_ca)
    days = (Certificates(files).ends - datetime.now(UTC)).days
    state = OK if days > _DAYS_LEFT else WARN
    yield Finding(state, "certificate", f"{settings.certificate} ends in {days} days")


def _offerings(settings: Settings) -> Offerings:
    """Return what callers may ask for. Raises SettingsError and JudgedError."""
    from judged_server import wiring  # noqa: PLC0415
    from judged_server.embedding.models.manifest import DEFAULT_MODEL  # noqa: PLC0415
    from judged_server.embedding.models.store import ModelStore, default_root  # noqa: PLC0415
    from judged_server.embedding.registry import StoredEmbedders  # noqa: PLC0415
    from judged_server.llm.caller import ModelCaller  # noqa: PLC0415

    store = ModelStore(settings.models_dir or default_root(os.environ))
    running = wiring.runtime_config(settings)
    embedders = StoredEmbedders(store, settings.model or DEFAULT_MODEL, running)
    return wiring.offerings(settings, embedders, wiring.chat_models(settings), ModelCaller())


def _judges(settings: Settings) -> Iterator[Finding]:
    offering = _offerings(settings)[EVERYTHING]
    default = settings.default_judge
    problem = next((each.unavailable for each in offering.offers() if each.kind == default), "")
    if problem:
        yield Finding(WARN, "judges", f"default_judge {default} can't judge here: {problem}")
    else:
        said = f"{default} for requests that name none, {len(offering.rubrics)} rubrics"
        yield Finding(OK, "judges", said)


def _tenants(settings: Settings) -> Iterator[Finding]:
    if settings.tenants is None:
        return
    from judged_server.tenants.directory import FileDirectory  # noqa: PLC0415
    from judged_server.tenants.token_file import read_tokens, tokens_beside  # noqa: PLC0415

    try:
        check: Callable[[Tenant], object] = _offerings(settings).check
    except (SettingsError, JudgedError):  # told of above
        check = bool
    tenants = FileDirectory(settings.tenants, check).tenants
    tokens, now = read_tokens(tokens_beside(settings.tenants)), datetime.now(UTC)
    yield Finding(OK, "tenants", f"{len(tenants.by_name)} in {settings.tenants}")
    if tenants.by_uri and settings.client_ca is None:
        said = "uris of certificates count for nothing without --client-ca, which asks for them"
        yield Finding(WARN, "tenants", said)
    by_uri = set() if settings.client_ca is None else set(tenants.by_uri.values())
    for name in tenants.by_name:
        live = tokens.of(name, now)
        if not live and name not in by_uri and not tenants.sockets[name]:
            said = f"{name} has no token, certificate or socket; run tenants rotate {name}"
            yield Finding(WARN, "tenants", said)
        elif live and all(t.ends and (t.ends - now).days < _DAYS_LEFT for t in live):
            said = f"the last token of {name} ends within {_DAYS_LEFT} days; run tenants rotate"
            yield Finding(WARN, "tenants", said)
    if ahead := [each.created for each in tokens.tokens if each.created > now + _SKEW]:
        said = f"a token was made at {max(ahead):%F %T} UTC, and here it is {now:%F %T}: set "
        yield Finding(
            WARN, "clock", f"{said}this machine's clock; tokens and certificates end by it"
        )


def _embedding_model(settings: Settings) -> Iterator[Finding]:
    from judged_server.embedding.models.manifest import DEFAULT_MODEL  # noqa: PLC0415
    from judged_server.embedding.models.store import ModelStore, default_root  # noqa: PLC0415
    from judged_server.errors import ModelNotInstalled  # noqa: PLC0415

    store = ModelStore(settings.models_dir or default_root(os.environ))
    name = settings.model or DEFAULT_MODEL
    try:
        store.verify(name)
    except ModelNotInstalled as error:
        state = BAD if settings.model is not None else WARN
        yield Finding(state, "embedding model", f"{error.message}; else there is no judge semantic")
    else:
        yield Finding(OK, "embedding model", f"{name}: every file is as it was installed")


def _language_models(settings: Settings) -> Iterator[Finding]:
    if settings.llm_config is None:
        return
    from judged_server.llm.config.configuration import read_configuration  # noqa: PLC0415
    from judged_server.llm.models import ChatModels  # noqa: PLC0415

    configuration = read_configuration(settings.llm_config)
    for model in ChatModels(configuration, os.environ).listed():
        state = WARN if model.problem else OK
        yield Finding(
            state, "language model", f"{model.card.name}: {model.problem or 'has its key'}"
        )
    for provider in configuration.providers:
        if provider.base_url:
            yield _reached(provider.name, provider.base_url)


def _reached(name: str, url: str, what: str = "provider") -> Finding:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), _CONNECT_S).close()
    except OSError as error:
        why = error.strerror or type(error).__name__
        said = f"{name}: {parts.hostname}:{port} is not reached: {why}; look at the address"
        return Finding(WARN, what, f"{said}, the network, or whether it runs")
    return Finding(OK, what, f"{name}: {parts.hostname}:{port} is reached")


def _stores(settings: Settings) -> Iterator[Finding]:
    folders = {}
    if settings.vector_cache == "disk":
        folders["vectors"] = settings.vector_cache_dir or cache_folder(os.environ, "vectors")
    if settings.llm_config is not None and settings.llm_cache == "disk":
        folders["replies"] = settings.llm_cache_dir or cache_folder(os.environ, "replies")
    if (file := settings.port_file) is not None:
        if file.is_dir():
            yield Finding(BAD, "port file", f"{file}: is a folder; name a file")
        else:
            folders["port file"] = file.absolute().parent
    if (log := settings.audit_log) is not None:
        if log.is_dir() or not log.absolute().parent.is_dir():
            why = "is a folder; name a file" if log.is_dir() else "its folder is not there; make it"
            yield Finding(BAD, "audit log", f"{log}: {why}")
        else:
            folders["audit log"] = log.absolute().parent
    for what, folder in folders.items():
        yield _stored(what, folder, needed=what in {"audit log", "port file"})


def _stored(what: str, folder: Path, *, needed: bool) -> Finding:
    """Return how it is with a folder; `needed` says that no server runs without it."""
    there = _first_that_is(folder)
    if not os.access(there, os.W_OK):
        said = f"{there} can't be written to; name another folder"
        return Finding(BAD if needed else WARN, what, said)
    free = shutil.disk_usage(there).free
    state = OK if free > _FREE_BYTES else WARN
    return Finding(state, what, f"{folder}, {free / 1e9:.1f} GB free")


def _spending(settings: Settings) -> Iterator[Finding]:
    if settings.llm_config is None:
        return
    from judged_server.llm.budget.account import default_ledger  # noqa: PLC0415
    from judged_server.llm.config.configuration import read_configuration  # noqa: PLC0415

    configuration = read_configuration(settings.llm_config)
    limited = [] if settings.tenants is None else _limited(settings.tenants)
    budget = configuration.budget
    if budget.per_day is None and settings.tenants is None:
        return
    file = budget.file or default_ledger(os.environ)
    yield _stored("spending", file.absolute().parent, needed=True)
    unpriced = [each.name for each in configuration.models if each.prices is None]
    if limited and unpriced:
        yield Finding(
            WARN,
            "spending",
            f"{', '.join(unpriced)}: without prices, and so refused to {', '.join(limited)}, whose "
            "money has a limit; set input_per_million and output_per_million, or under [budget] "
            "unpriced_input_per_million and unpriced_output_per_million",
        )


def _limited(tenants: Path) -> list[str]:
    """Return the tenants whose money has a limit. Raises SettingsError."""
    from judged_server.tenants.directory import FileDirectory  # noqa: PLC0415

    named = FileDirectory(tenants).tenants.by_name.values()
    return [each.name for each in named if (each.per_day, each.per_month) != (None, None)]


def _export(settings: Settings) -> Iterator[Finding]:
    if settings.otlp_endpoint is None:
        return
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        raise SettingsError(
            "otlp_endpoint: OpenTelemetry is not installed; run: pip install 'judged[server,otel]'"
        )
    yield _reached("otlp_endpoint", settings.otlp_endpoint, "export")


def _first_that_is(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if path.is_dir())


def _limits(_: Settings) -> Iterator[Finding]:
    files, _most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files < _FILES:
        said = f"{files} open files; each connection takes one: raise it (ulimit -n {_FILES})"
        yield Finding(WARN, "limits", said)
    else:
        yield Finding(OK, "limits", f"{files} open files")


_CHECKS: dict[str, Callable[[Settings], Iterator[Finding]]] = {
    "settings": _settings,
    "listen": _addresses,
    "certificate": _certificate,
    "embedding model": _embedding_model,
    "language models": _language_models,
    "judges": _judges,
    "tenants": _tenants,
    "stores": _stores,
    "spending": _spending,
    "export": _export,
    "limits": _limits,
}
