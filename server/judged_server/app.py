"""Assembles the server, runs it and shuts it down."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from judged._files import replace_text

from judged_server import errors, telemetry
from judged_server.address import Address, AddressError
from judged_server.api.authentication import (
    PEM_FILES,
    Authenticator,
    Certificates,
    FailedCalls,
)
from judged_server.api.idempotency import IdempotentCalls
from judged_server.api.interceptor import CallInterceptor
from judged_server.api.listeners import (
    CONTRACT,
    Health,
    Listener,
    Services,
)
from judged_server.api.requests import Admission, Receiver
from judged_server.api.servicer import VERSION, Servicer
from judged_server.domain import to_amount
from judged_server.embedding.models.store import DEFAULT_MODEL, ModelStore
from judged_server.embedding.registry import StoredEmbedders
from judged_server.embedding.runtime.backend import RuntimeConfig, choose
from judged_server.judges.base import load_calibrations
from judged_server.judges.equivalence.judge import EquivalenceKind
from judged_server.judges.lexical import ExactKind, SpanKind, TokenOverlapKind
from judged_server.judges.llm.judge import NO_CONFIGURATION, LlmKind
from judged_server.llm.budgets import Budgets, default_ledger
from judged_server.llm.caller import ModelCaller
from judged_server.llm.reply_cache import ReplyCache
from judged_server.llm.rubrics.rubric import load_builtin, load_folder
from judged_server.process import (
    MemoryWatch,
    batch_scheduling,
    heap_in_use,
    memory_limit,
    settle_heap,
    watch_loop,
)
from judged_server.scheduling.concurrency import IN_PYTHON
from judged_server.settings import Settings, SettingsError, cache_folder
from judged_server.store.kept_rows import REPLIES, VECTORS, KeptRows, Kind
from judged_server.store.ledger import LEASE_S, FileLedger, Ledger
from judged_server.telemetry import Logger
from judged_server.tenants import FileDirectory
from judged_server.usecases.judge_batch import Estimator
from judged_server.usecases.offering import Offerings

if TYPE_CHECKING:
    from judged_server.http_server import Port
    from judged_server.llm.models import ChatModels
    from judged_server.monitoring.opentelemetry import OtlpExport
    from judged_server.monitoring.prometheus import Read, Token

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
DRAIN_TIMEOUT_S = 0.2
"""How long the last replies may take to be sent once no call is in work."""
CUT_SHORT_S = 0.5
"""How long calls that a drain ends may take to send their status."""
SWITCH_S = 0.001
"""Python's thread switch interval. Large JSON is parsed on a thread for seconds: beside four
callers sending 3.5 MB, small calls took 175 ms with Python's default of 5 ms, and 57 with this."""
_LOOK_EVERY_S = 1.0
REPLIES_MEMORY_BYTES = 64 << 20

_log = Logger("server")


class App:
    """One server process, from start to drain."""

    def __init__(self, settings: Settings) -> None:
        """Build all parts from the settings. Raises what the parts raise."""
        self._settings = settings
        self._embedders = StoredEmbedders(
            ModelStore(settings.models_dir),
            settings.model or DEFAULT_MODEL,
            RuntimeConfig(
                choose(settings.embedding_backend, settings.embedding_precision),
                settings.embedding_threads,
                settings.max_queue_delay_s,
            ),
            memory_bytes=settings.vector_cache_memory_bytes * (settings.vector_cache != "off"),
            file=_kept(
                settings.vector_cache,
                settings.vector_cache_dir,
                VECTORS,
                settings.vector_cache_disk_bytes,
            ),
            health=self._models_run,
        )
        IN_PYTHON.admission.max_delay_s = settings.max_queue_delay_s
        self._chat_models = _chat_models(settings)
        self._ledger, self._budgets = _budgets(settings, self._chat_models)
        self._reply_cache = _reply_cache(settings)
        self._memory = MemoryWatch(memory_limit())
        self._admission = Admission(settings.max_pending_bytes, self._memory)
        receiver = Receiver(self._admission, settings.max_message_bytes)
        self._interceptor = CallInterceptor(settings, receiver)
        self._watches: list[asyncio.Task[None]] = []
        self._health = Health(tuple(service.full_name for service in CONTRACT))
        self._loop: asyncio.AbstractEventLoop | None = None
        addresses = {"listen": Address.parse(settings.listen)}
        if settings.http_listen is not None:
            addresses["http_listen"] = Address.parse(settings.http_listen, "http_listen")
        self.address = addresses["listen"]
        self._certificates = _certificates(settings, *addresses.values())
        model_caller = ModelCaller(self._budgets, self._reply_cache)
        folder = settings.calibrations_dir
        own = {} if settings.rubrics_dir is None else load_folder(settings.rubrics_dir)
        offerings = Offerings(
            (TokenOverlapKind(), ExactKind(), SpanKind(), EquivalenceKind()),
            self._embedders,
            self._chat_models,
            {**load_builtin(), **own},
            model_caller,
            settings.default_judge,
            {} if folder is None else load_calibrations(folder),
        )
        self._failed_calls = FailedCalls(settings.failed_calls_per_minute)
        self._directory = None
        if settings.tenants is not None:
            self._directory = FileDirectory(settings.tenants, offerings.check)
        self._idempotent_calls = IdempotentCalls()
        servicer = Servicer(
            offerings,
            Estimator(model_caller, self._budgets.currency),
            self._budgets,
            self._admission,
            settings,
            self._idempotent_calls,
        )
        self._services = Services(servicer, self._health, self._interceptor)
        self._listeners = {name: self._listener(each) for name, each in addresses.items()}
        self._metrics_token: Token | None = None
        self._ports = self._make_ports()
        self._export = _otlp_export(settings)

    async def start(self) -> None:
        """Load the model, bind, report healthy. Raises AddressError or errors.JudgedError."""
        settings = self._settings
        self._loop = asyncio.get_running_loop()
        has_tls = self._certificates is not None
        for name, listener in self._listeners.items():
            refuse_open_address(settings, name, listener.address, tls=has_tls)
        self.address.refuse_taken()
        await self._load_model()
        with batch_scheduling():
            self.address = await self._services.open(self._listeners["listen"], settings)
        for port in self._ports.values():
            await port.open()
        # Objects made during start-up live as long as the process, so the GC need not walk them.
        settle_heap()
        sys.setswitchinterval(SWITCH_S)
        self._health.report(True)
        if settings.port_file is not None:
            _write_port_file(settings.port_file, self.address)
        work = [
            watch_loop(),
            self._memory.run(self._admission.is_idle),
            _every(_LOOK_EVERY_S, self._look_at_files),
        ]
        if self._ledger is not None:
            # Renew the lease on the budget amounts that this process has drawn.
            work.append(_every(LEASE_S / 4, self._ledger.renew))
        self._watches += map(asyncio.create_task, work)
        _log.info(
            "ready",
            address=str(self.address),
            **{name: str(port.address) for name, port in self._ports.items()},
            version=VERSION,
            pid=os.getpid(),
        )

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then drain; a second one ends the process at once.

        SIGHUP drains too if standard error is a terminal, which has then been closed; otherwise a
        warning says that it reloads nothing. SIGUSR1 writes all threads' stacks to standard error.
        """
        loop = asyncio.get_running_loop()
        requests: asyncio.Queue[str] = asyncio.Queue()

        def request_stop(number: int, _: object) -> None:
            loop.call_soon_threadsafe(requests.put_nowait, signal.Signals(number).name)

        def reload_nothing(_: int, __: object) -> None:
            event = "SIGHUP reloads nothing; restart to read settings, models and rubrics again"
            loop.call_soon_threadsafe(_log.warning, event)

        # First of all, since a signal that arrives while the model loads must not be lost. Not with
        # the loop's own handlers: once the loop ends, the next signal would kill the process.
        for number in _STOP_SIGNALS:
            signal.signal(number, request_stop)
        signal.signal(signal.SIGHUP, request_stop if sys.stderr.isatty() else reload_nothing)
        # For a server that hangs: the stacks show where.
        faulthandler.register(signal.SIGUSR1, file=sys.stderr, all_threads=True)
        if self._settings.stop_with_stdin:
            ends = partial(loop.call_soon_threadsafe, requests.put_nowait, "end of standard input")
            threading.Thread(target=_await_end_of_stdin, args=(ends,), daemon=True).start()
        await self.start()
        grace_s = self._settings.grace_s
        _log.info("draining", signal=await requests.get(), grace_s=grace_s)
        drain = asyncio.create_task(self.stop(grace_s))
        again = asyncio.create_task(requests.get())
        await asyncio.wait({drain, again}, return_when=asyncio.FIRST_COMPLETED)
        if not drain.done():
            _log.warning("drain cut short")
            self._remove_files()
            os._exit(1)
        again.cancel()
        await drain
        # The drain is complete; a further signal must not make the exit status a failure.
        for number in (*_STOP_SIGNALS, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _log.info("stopped")

    async def stop(self, grace_s: float) -> None:
        """Report NOT_SERVING, reject new calls, let those in work finish, free everything.

        Calls still in work after `grace_s` seconds are ended. gRPC's server is stopped only once no
        more calls arrive, since it would drop those that it has received and not begun.
        """
        self._health.drain()
        self._interceptor.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._interceptor.wait_quiet()
        await self._interceptor.cut_short(CUT_SHORT_S)
        # Only health watchers are left; they never finish by themselves.
        await self._services.close(DRAIN_TIMEOUT_S)
        await asyncio.gather(*(port.close() for port in self._ports.values()))
        self._remove_files()
        await self._free()

    async def _free(self) -> None:
        """Flush pending writes, and release the resources that calls used."""
        await self._idempotent_calls.close()
        for watch in self._watches:
            watch.cancel()
        if self._chat_models is not None:
            await self._chat_models.close()
        for part in (self._embedders, self._reply_cache, self._ledger, self._export):
            if part is not None:
                await asyncio.to_thread(part.close)

    def _remove_files(self) -> None:
        """Remove the port file and the Unix sockets, by which clients find the server."""
        if self._settings.port_file is not None:
            self._settings.port_file.unlink(missing_ok=True)
        self.address.remove()
        for port in self._ports.values():
            port.address.remove()

    def _models_run(self, run: bool) -> None:
        """Report whether every loaded model runs; called on a model's thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, so health is no longer served
                self._loop.call_soon_threadsafe(self._health.report, run)

    async def _look_at_files(self) -> None:
        """Reload changed certificates and tenants; end the calls of revoked credentials."""
        try:
            if self._certificates is not None:
                await asyncio.to_thread(self._certificates.refresh)
            for port in self._ports.values():
                await port.refresh()
            if self._directory is not None:
                await asyncio.to_thread(self._directory.refresh)
                self._interceptor.recheck(self._directory)
        except Exception:  # noqa: BLE001 - go on, else a token revoked later would stay valid
            _log.exception("files could not be looked at")

    def _listener(self, address: Address) -> Listener:
        """Return the listener of an address for calls; a Unix socket has no TLS."""
        settings = self._settings
        own = None if address.path is not None else self._certificates
        callers = None
        if self._directory is not None:
            asks = settings.client_ca is not None and own is not None
            callers = Authenticator(self._directory, self._failed_calls, asks)
        return Listener(address, callers, own)

    async def _load_model(self) -> None:
        try:
            await asyncio.to_thread(self._embedders.get("").load)
        except errors.ModelNotInstalled as error:
            if self._settings.model is not None:
                raise
            _log.warning("semantic judge unavailable", reason=error.message)

    def _make_ports(self) -> dict[str, Port]:
        """Return the HTTP ports for calls and metrics. Raises AddressError and SettingsError."""
        # Imported only if used: aiohttp and Prometheus's client slow the start.
        ports: dict[str, Port] = {}
        if (listener := self._listeners.get("http_listen")) is not None:
            from judged_server.http_api.port import HttpPort  # noqa: PLC0415

            handlers = self._services.contract(listener.callers)
            ports["http"] = HttpPort(listener, handlers, self._settings, self._health.is_serving)
        if self._settings.metrics_listen is not None:
            from judged_server.monitoring.prometheus import (  # noqa: PLC0415
                MonitoringPort,
                PrometheusMetrics,
            )

            metrics = PrometheusMetrics(VERSION, self._readings)
            port = MonitoringPort(
                self._settings, metrics, self._health.is_serving, self._certificates
            )
            telemetry.recorder = metrics.note
            ports["metrics"], self._metrics_token = port, port.token
        elif self._settings.metrics_token_file or self._settings.metrics_client_ca:
            raise SettingsError(
                "metrics_token_file, metrics_client_ca: need metrics_listen, the port that asks"
            )
        return ports

    def _readings(self) -> Mapping[str, Read]:
        """Return the values of READINGS; None for those that this server does not have."""
        certificates, models, budgets = self._certificates, self._chat_models, self._budgets
        watched = {
            "certificate": certificates,
            "tenants": self._directory,
            "metrics_token": self._metrics_token,
        }
        shared = [part for part in (self._reply_cache, self._ledger) if part is not None]
        in_store = self._settings.store is not None and shared
        left, ends = budgets.day_left(), certificates.now.ends.timestamp() if certificates else None
        return {
            "ready": self._health.is_serving(),
            "calls_in_work": self._interceptor.in_work,
            "request_bytes_in_work": self._admission.pending_bytes,
            "queued_tokens": self._embedders.queued_tokens(),
            "python_blocks": sys.getallocatedblocks(),
            "reload_failures": {
                name: getattr(each, "failures", 0) for name, each in watched.items()
            },
            "heap_in_use_bytes": heap_in_use(),
            "provider_breaker_open": None if models is None else models.open_breakers(),
            "store_reachable": not any(part.is_away for part in shared) if in_store else None,
            "budget_left": None if left is None else {budgets.currency: to_amount(left)},
            "certificate_expiry_timestamp_seconds": ends,
        }


async def _every(seconds: float, work: Callable[[], Awaitable[object]]) -> None:
    while True:
        await asyncio.sleep(seconds)
        await work()


def _await_end_of_stdin(ends: Callable[[], object]) -> None:
    """Call `ends` once standard input is closed at the other end."""
    with suppress(OSError, RuntimeError):  # it is closed; the event loop has ended
        while os.read(0, 1 << 16):
            pass
        ends()


def _write_port_file(path: Path, address: Address) -> None:
    """Write the server's address to the port file. Raises SettingsError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, f"{address}\n")
    except OSError as error:
        raise SettingsError(
            f"port_file {path} can't be written: {error.strerror}; name another file"
        ) from None


def refuse_open_address(settings: Settings, setting: str, address: Address, *, tls: bool) -> None:
    """Raise AddressError for a reachable address without TLS or without authentication.

    `setting` is the one that names the address.
    """
    if address.is_local:
        return
    has_tenants = settings.tenants is not None
    asks = has_tenants or settings.client_ca is not None
    reached = f"{address} can be reached from other machines"
    if has_tenants and not tls:
        # Not even with --insecure: anyone who reads a token can use it.
        raise AddressError(
            f"{setting}: {reached}, and tokens would cross the network in the open; give "
            "--certificate and --private-key, or listen on 127.0.0.1 or unix:PATH behind a proxy "
            "that has TLS"
        )
    if settings.insecure or (tls and asks):
        return
    lacks = "does not ask who calls (--tenants or --client-ca)"
    if not tls:
        lacks = "has no TLS (--certificate, --private-key)"
    raise AddressError(
        f"{setting}: {reached} and this server {lacks}; listen on 127.0.0.1 or unix:PATH, or say "
        "--insecure"
    )


def _certificates(settings: Settings, *addresses: Address | None) -> Certificates | None:
    """Return the certificate that the settings name; None without TLS.

    Raises SettingsError for a bad certificate or key, for one of them without the other, and for
    client CAs without both.
    """
    given = [name for name in PEM_FILES if getattr(settings, name) is not None]
    missing = [name for name in PEM_FILES[:2] if name not in given]
    if not given:
        return None
    if missing:
        raise SettingsError(f"{given[0]}: needs {' and '.join(missing)} too")
    if settings.metrics_listen is not None:
        metrics = Address.parse(settings.metrics_listen, "metrics_listen")
        if not metrics.is_local or settings.metrics_client_ca is not None:
            addresses = *addresses, metrics
    if not any(address is not None and address.path is None for address in addresses):
        raise SettingsError(
            f"certificate: {addresses[0]} is a Unix socket, which has no TLS; listen on HOST:PORT"
        )
    return Certificates(settings)


def _chat_models(settings: Settings) -> ChatModels | None:
    """Return the language models of the settings' file; None when there is no file."""
    if settings.llm_config is None:
        if settings.default_judge == LlmKind.kind:
            raise SettingsError(
                f"default_judge: {LlmKind.kind} asks a language model, and none is configured: "
                f"{NO_CONFIGURATION}; or name another judge"
            )
        return None
    # Imported here: aiohttp takes 20% of the start-up time, and most servers ask no model.
    from judged_server.llm.models import ChatModels  # noqa: PLC0415

    return ChatModels.load(settings.llm_config)


def _budgets(settings: Settings, models: ChatModels | None) -> tuple[Ledger | None, Budgets]:
    """Return the ledger, None if spending is not recorded, and budgets. Raises SettingsError."""
    if models is None:
        return None, Budgets()
    budget, currency = models.configuration.budget, models.configuration.currency
    if budget.per_day is None and settings.tenants is None:
        return None, Budgets(currency, budget.per_request)
    ledger: Ledger
    if settings.store is not None:
        from judged_server.store.postgres_ledger import PostgresLedger  # noqa: PLC0415 - of an extra

        ledger = PostgresLedger(settings.store)
    else:
        ledger = FileLedger(budget.file or default_ledger())
    return ledger, Budgets(currency, budget.per_request, budget.per_day, ledger)


def _reply_cache(settings: Settings) -> ReplyCache | None:
    """Return the reply cache of the settings; None if it is off or no model can be asked."""
    if settings.llm_config is None or settings.llm_cache == "off":
        return None
    most, ttl_s = REPLIES_MEMORY_BYTES, settings.llm_cache_ttl_s
    if settings.store is None:
        disk_bytes = settings.llm_cache_disk_bytes
        file = _kept(settings.llm_cache, settings.llm_cache_dir, REPLIES, disk_bytes)
        return ReplyCache(most, ttl_s, file)
    from judged_server.store.postgres import PostgresRows  # noqa: PLC0415 - of an extra

    return ReplyCache(most, ttl_s, PostgresRows(settings.store, ttl_s))


def _kept(where: str, folder: Path | None, kind: Kind, most: int) -> KeptRows | None:
    """Return a file of rows if they are kept on disk, else None, which needs no home folder."""
    if where != "disk":
        return None
    return KeptRows(folder or cache_folder(kind.what), kind, most)


def _otlp_export(settings: Settings) -> OtlpExport | None:
    """Return the exporter of spans; None without an endpoint. Raises SettingsError."""
    if settings.otlp_endpoint is None:
        return None
    try:
        from judged_server.monitoring.opentelemetry import OtlpExport  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"otlp_endpoint: {error.name} is not installed; run: pip install 'judged[server,otel]'"
        ) from None
    telemetry.tracer = export = OtlpExport(settings.otlp_endpoint, VERSION)
    return export
