"""Builds the parts of a server from its settings; `app` puts them together and runs them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING

from judged.values.calibrators import Calibrator

from judged_server import tracing
from judged_server.address import Address, AddressError
from judged_server.api.authentication import Authenticator, FailedCalls
from judged_server.api.certificates import CertificateFiles, Certificates
from judged_server.api.listeners import Listener
from judged_server.embedding.registry import StoredEmbedders
from judged_server.embedding.runtime.backend import RuntimeConfig, choose
from judged_server.judges.calibrated import load_calibrations
from judged_server.judges.equivalence.judge import EquivalenceKind
from judged_server.judges.exact import ExactKind
from judged_server.judges.llm.judge import NO_CONFIGURATION, LlmKind
from judged_server.judges.span import SpanKind
from judged_server.judges.token_overlap import TokenOverlapKind
from judged_server.llm.budgets import Budgets, default_ledger
from judged_server.llm.caller import ModelCaller
from judged_server.llm.reply_cache import ReplyCache
from judged_server.llm.rubrics.loading import load_builtin, load_folder
from judged_server.llm.rubrics.rubric import Rubric
from judged_server.settings import Settings, SettingsError, cache_folder, certificate_pair
from judged_server.store.kept_rows import REPLIES, VECTORS, KeptRows
from judged_server.store.ledger import Ledger
from judged_server.telemetry import send_to
from judged_server.tenants.directory import FileDirectory
from judged_server.usecases.offering import Offerings

if TYPE_CHECKING:
    from judged_server.llm.models import ChatModels
    from judged_server.monitoring.opentelemetry import OtlpExport


def refuse_open_address(settings: Settings, setting: str, address: Address, *, tls: bool) -> None:
    """Raise AddressError where strangers could call, or read what others send.

    `setting` is the one that names the address.
    """
    if address.is_local:
        return
    has_tenants = settings.tenants is not None
    asks = settings.client_ca is not None or has_tenants
    if has_tenants and not tls:
        # Not by --insecure either: whoever reads a token can use it.
        raise AddressError(
            f"{setting}: {address} can be reached from other machines, and tokens would cross the "
            "network in the open; give --certificate and --private-key, or listen on "
            "127.0.0.1 or unix:PATH behind a proxy that has TLS"
        )
    if settings.reflection and not asks:
        raise AddressError(
            f"reflection: {address} can be reached from other machines; leave it out, or "
            "ask who calls (--tenants or --client-ca)"
        )
    if settings.insecure:
        return
    if not tls:
        lacks = "has no TLS (--certificate, --private-key)"
    elif not asks:
        lacks = "does not ask who calls (--tenants or --client-ca)"
    else:
        return
    raise AddressError(
        f"{setting}: {address} can be reached from other machines and this server {lacks}; listen "
        "on 127.0.0.1 or unix:PATH, or say --insecure"
    )


def listener_of(
    settings: Settings,
    address: Address,
    directory: FileDirectory | None,
    own: Certificates | None,
    failed_calls: FailedCalls,
) -> Listener:
    """Return the listener of an address of the server's own; a Unix socket has no TLS."""
    own = None if address.path is not None else own
    callers = None
    if directory is not None:
        has_certificates = settings.client_ca is not None and own is not None
        callers = Authenticator(directory, failed_calls, asks_certificates=has_certificates)
    group = settings.socket_group
    return Listener(
        address, settings.socket_mode, socket_group=group, callers=callers, certificates=own
    )


def listeners_of(
    settings: Settings,
    address: Address,
    directory: FileDirectory | None,
    own: Certificates | None,
    failed_calls: FailedCalls,
) -> list[Listener]:
    """Return the listeners, the server's own first. Raises AddressError."""
    found = [listener_of(settings, address, directory, own, failed_calls)]
    if directory is not None:
        for tenant, sockets in directory.tenants.sockets.items():
            callers = Authenticator(directory, failed_calls, tenant=tenant)
            for each in sockets:
                path = Address.parse(f"unix:{each.path}")
                found.append(Listener(path, each.mode, each.owner, each.group, callers))
    for listener in found:
        listener.address.refuse_taken("listen" if listener is found[0] else "sockets")
    return found


def certificates(settings: Settings, *addresses: Address | None) -> Certificates | None:
    """Return the certificate that the settings name. Raises SettingsError for one that is bad."""
    pair = certificate_pair(settings)
    if pair is None:
        return None
    if not any(address is not None and address.path is None for address in addresses):
        raise SettingsError(
            f"certificate: {addresses[0]} is a Unix socket, which has no TLS; listen on HOST:PORT"
        )
    return Certificates(CertificateFiles(*pair, settings.client_ca))


def offerings(
    settings: Settings,
    embedders: StoredEmbedders,
    models: ChatModels | None,
    model_caller: ModelCaller,
) -> Offerings:
    """Return what callers may ask for. Raises SettingsError and UnknownJudge."""
    kinds = (TokenOverlapKind(), ExactKind(), SpanKind(), EquivalenceKind())
    return Offerings(
        kinds,
        embedders,
        models,
        rubrics(settings),
        model_caller,
        settings.default_judge,
        calibrations(settings),
    )


def rubrics(settings: Settings) -> Mapping[str, Rubric]:
    """Return the rubrics of the package and the operator's own, by id."""
    own = {} if settings.rubrics_dir is None else load_folder(settings.rubrics_dir)
    return {**load_builtin(), **own}


def calibrations(settings: Settings) -> Mapping[str, Calibrator]:
    """Return the calibrations that requests may name, by name."""
    folder = settings.calibrations_dir
    return {} if folder is None else load_calibrations(folder)


def runtime_config(settings: Settings) -> RuntimeConfig:
    """Return how models are run here; raises SettingsError when that can't be as it was set."""
    backend = choose(settings.embedding_backend, settings.embedding_precision)
    return RuntimeConfig(
        backend,
        settings.embedding_threads,
        settings.embedding_batch_threads,
        settings.embedding_batch_tokens,
        settings.max_queue_delay_s,
    )


def chat_models(settings: Settings) -> ChatModels | None:
    """Return the language models of the settings' file; None when there is no file."""
    if settings.llm_config is None:
        if settings.default_judge == LlmKind.kind:
            raise SettingsError(
                f"default_judge: {LlmKind.kind} asks a language model, and none is configured: "
                f"{NO_CONFIGURATION}; or name another judge"
            )
        return None
    # Imported here: aiohttp takes a fifth of the start-up, and most servers ask no model.
    from judged_server.llm.models import ChatModels  # noqa: PLC0415

    return ChatModels.load(settings.llm_config)


def ledger_of(models: ChatModels | None, settings: Settings) -> Ledger | None:
    """Return where spending is kept, if it is. Raises SettingsError when it can't be used."""
    if models is None:
        return None
    budget = models.configuration.budget
    if budget.per_day is None and settings.tenants is None:
        return None
    return Ledger(budget.file or default_ledger(os.environ))


def budgets_of(models: ChatModels | None, ledger: Ledger | None) -> Budgets:
    """Return what may be spent."""
    if models is None:
        return Budgets()
    budget, currency = models.configuration.budget, models.configuration.currency
    return Budgets(currency, budget.per_request, budget.per_day, ledger)


def reply_cache(settings: Settings) -> ReplyCache | None:
    """Return the cache of replies that the settings ask for; none where no model can be asked."""
    if settings.llm_config is None or settings.llm_cache == "off":
        return None
    store = None
    if settings.llm_cache == "disk":  # only then is a home folder needed
        folder = settings.llm_cache_dir or cache_folder(os.environ, "replies")
        store = KeptRows(folder, REPLIES, settings.llm_cache_disk_bytes)
    return ReplyCache(settings.llm_cache_memory_bytes, settings.llm_cache_ttl_s, store)


def vector_memory_bytes(settings: Settings) -> int:
    """Return the bytes of memory that the vectors of a model may take."""
    return 0 if settings.vector_cache == "off" else settings.vector_cache_memory_bytes


def vector_file(settings: Settings) -> KeptRows | None:
    """Return the file of vectors that the settings ask for; only then is a home folder needed."""
    if settings.vector_cache != "disk":
        return None
    folder = settings.vector_cache_dir or cache_folder(os.environ, "vectors")
    return KeptRows(folder, VECTORS, settings.vector_cache_disk_bytes)


def otlp_export(settings: Settings) -> OtlpExport | None:
    """Return what sends spans and logs, where the settings ask for it. Raises SettingsError."""
    if settings.otlp_endpoint is None:
        if settings.otlp_verdicts or settings.otlp_reasoning:
            raise SettingsError(
                "otlp_verdicts and otlp_reasoning go with otlp_endpoint, which says where to"
            )
        return None
    try:
        from judged_server.monitoring.opentelemetry import OtlpExport  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"otlp_endpoint: {error.name} is not installed; run: pip install 'judged[server,otel]'"
        ) from None
    export = OtlpExport(
        settings.otlp_endpoint,
        version("judged"),
        sample_ratio=settings.otlp_sample_ratio,
        results=settings.otlp_verdicts,
        reasoning=settings.otlp_reasoning,
    )
    tracing.use(export)
    send_to(export)
    return export
