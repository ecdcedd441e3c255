"""Puts the server together, runs it and takes it down."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judged_server import errors, recorder, wiring
from judged_server.address import Address, write_whole
from judged_server.api.authentication import FailedCalls
from judged_server.api.health_service import Health
from judged_server.api.idempotency import IdempotentCalls
from judged_server.api.interceptor import CallInterceptor
from judged_server.api.listeners import CONTRACT, Services, connection_options
from judged_server.api.requests import Admission, Receiver
from judged_server.api.servicer import Servicer
from judged_server.audit import AuditLog
from judged_server.embedding.models.store import DEFAULT_MODEL, ModelStore
from judged_server.embedding.registry import StoredEmbedders
from judged_server.llm.caller import ModelCaller
from judged_server.process import (
    MemoryWatch,
    Watchdog,
    batch_scheduling,
    memory_limit,
    settle_heap,
)
from judged_server.scheduling.concurrency import IN_PYTHON
from judged_server.settings import Settings, SettingsError
from judged_server.store.ledger import LEASE_S
from judged_server.telemetry import logger, set_level
from judged_server.tenants.directory import FileDirectory
from judged_server.usecases.estimate_batch import Estimator
from judged_server.watched_files import Reload

if TYPE_CHECKING:
    from judged_server.http_api.port import HttpPort
    from judged_server.monitoring.prometheus import MonitoringPort

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
DRAIN_TIMEOUT_S = 0.2
"""Time for the last replies to leave once nothing is in work any more."""
CUT_SHORT_S = 0.5
"""How long calls that are cut short may take to say so."""
SWITCH_S = 0.001
"""How long a thread that runs Python keeps the event loop waiting: large JSON is read for seconds.
Small calls beside four callers of 3.5 MB of it took 175 ms by Python's 5 ms, and 57 by this."""
_CUT_SHORT_S = 2.0
"""The longest that a drain takes once a second signal has come."""

_log = logger("server")


class App:
    """One server process, from start to drain."""

    def __init__(self, settings: Settings, reread: Callable[[], Settings] | None = None) -> None:
        """Take the settings, and what returns them anew for SIGHUP. Raises as the parts do."""
        self._settings = settings
        self._embedders = StoredEmbedders(
            ModelStore(settings.models_dir),
            settings.model or DEFAULT_MODEL,
            wiring.runtime_config(settings),
            memory_bytes=wiring.vector_memory_bytes(settings),
            file=wiring.vector_file(settings),
            health=self._models_run,
        )
        IN_PYTHON.limit_delay(settings.max_queue_delay_s)
        self._chat_models = wiring.chat_models(settings)
        self._ledger = wiring.ledger_of(self._chat_models, settings)
        self._budgets = wiring.budgets_of(self._chat_models, self._ledger)
        self._reply_cache = wiring.reply_cache(settings)
        self._memory = MemoryWatch(memory_limit())
        self._admission = Admission(settings.max_pending_bytes, self._memory)
        self._audit_log = None if settings.audit_log is None else AuditLog(settings.audit_log)
        receiver = Receiver(self._admission, settings.max_message_bytes)
        self._interceptor = CallInterceptor(settings, receiver, self._audit_log)
        self._idempotent_calls = IdempotentCalls(
            settings.request_id_memory_bytes, settings.request_id_grace_s
        )
        self._grace_s = settings.grace_s
        self._hurry = asyncio.Event()
        self._watches: list[asyncio.Task[None]] = []
        self._health = Health(tuple(service.full_name for service in CONTRACT))
        self._services: Services | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.address = Address.parse(settings.listen)
        self._http_address = None
        if settings.http_listen is not None:
            self._http_address = Address.parse(settings.http_listen, "http_listen")
        self._certificates = wiring.certificates(settings, self.address, self._http_address)
        self._model_caller = ModelCaller(self._budgets, self._reply_cache)
        self._offerings = wiring.offerings(
            settings, self._embedders, self._chat_models, self._model_caller
        )
        self._directory = None
        if settings.tenants is not None:
            self._directory = FileDirectory(settings.tenants, self._offerings.check)
        self._failed_calls = FailedCalls(settings.failed_calls_per_minute)
        self._reload = Reload(
            settings,
            reread or (lambda: settings),
            self._take_over,
            self._look_at_files,
        )
        self._monitoring_port = self._monitoring()
        self._export = wiring.otlp_export(settings)
        self._http_port: HttpPort | None = None

    async def start(self) -> None:
        """Load the model, bind, report healthy. Raises AddressError or errors.JudgedError."""
        settings = self._settings
        self._loop = asyncio.get_running_loop()
        has_tls = self._certificates is not None
        wiring.refuse_open_address(settings, "listen", self.address, tls=has_tls)
        if self._http_address is not None:
            wiring.refuse_open_address(settings, "http_listen", self._http_address, tls=has_tls)
        callers = (self._directory, self._certificates, self._failed_calls)
        listeners = wiring.listeners_of(settings, self.address, *callers)
        await self._load_model()
        services = self._services = self._made()
        with batch_scheduling():
            options = connection_options(settings.max_message_bytes, settings.max_connection_age_s)
            await services.open(listeners, options)
        if self._http_address is not None:
            # Imported here: aiohttp costs start-up time.
            from judged_server.http_api.port import HttpPort  # noqa: PLC0415

            listener = wiring.listener_of(settings, self._http_address, *callers)
            handlers = services.contract(listener.callers)
            self._http_port = HttpPort(
                listener, handlers, settings, lambda: self._health.is_serving
            )
            await self._http_port.open()
        if self._monitoring_port is not None:
            await self._monitoring_port.open()
        self.address = services.addresses[0]
        # What start-up made lives as long as the process; a collection need not walk it each time.
        settle_heap()
        sys.setswitchinterval(SWITCH_S)
        self._health.report(True)
        if settings.port_file is not None:
            _write_port_file(settings.port_file, self.address)
        if self._certificates is not None or self._directory is not None:
            self._watch(self._reload.watch())
        self._watch(Watchdog(settings.stall_exit_s, self._note_lag).run())
        if self._ledger is not None:
            self._watch(self._renew_leases())
        self._watch(self._memory.run(lambda: not self._admission.pending_bytes))
        ports = {"metrics": self._monitoring_port, "http": self._http_port}
        _log.info(
            "ready",
            address=str(self.address),
            **{name: str(port.address) for name, port in ports.items() if port is not None},
            version=version("judged"),
            pid=os.getpid(),
            **self._in_force(),
        )

    def _watch(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something for as long as the server runs."""
        self._watches.append(asyncio.create_task(work))

    def _in_force(self) -> dict[str, object]:
        """Return what an operator wants to know of a server that has just begun."""
        embedding = None
        with suppress(errors.JudgedError):
            card = self._embedders.get("").card
            embedding = f"{card.name}, {card.precision} by {card.execution_provider}"
        chat = () if self._chat_models is None else self._chat_models.listed()
        return {
            "tls": self._certificates is not None,
            "tenants": None if self._directory is None else len(self._directory.tenants.by_name),
            "embedding_model": embedding,
            "language_models": [each.card.name for each in chat if not each.unavailable],
            "changed_settings": self._settings.changed(),
        }

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then drain; a second one cuts the drain short.

        SIGHUP reloads what may change, and begins a new audit log where that was moved away; where
        standard error is a terminal, which then was closed, it drains too. SIGUSR1 writes the
        stacks of all threads to standard error.
        """
        loop = asyncio.get_running_loop()
        asked: asyncio.Queue[str] = asyncio.Queue()

        def ask(number: int, _: object) -> None:
            loop.call_soon_threadsafe(asked.put_nowait, signal.Signals(number).name)

        # Before anything else: a signal that comes while the model loads must not be lost. And not
        # by the loop, which on its end would let the next signal kill the process.
        for number in _STOP_SIGNALS:
            signal.signal(number, ask)
        hangs_up = ask if sys.stderr.isatty() else self._ask_to_reload
        signal.signal(signal.SIGHUP, hangs_up)
        # Where a server hangs, the stacks of all its threads say at what.
        faulthandler.register(signal.SIGUSR1, file=sys.stderr, all_threads=True)
        if self._settings.stop_with_stdin:
            ends = partial(loop.call_soon_threadsafe, asked.put_nowait, "end of standard input")
            threading.Thread(target=_await_end_of_stdin, args=(ends,), daemon=True).start()
        await self.start()
        _log.info("draining", signal=await asked.get(), grace_s=self._grace_s)
        drain = asyncio.create_task(self.stop(self._grace_s))
        again = asyncio.create_task(asked.get())
        await asyncio.wait({drain, again}, return_when=asyncio.FIRST_COMPLETED)
        if not drain.done():
            _log.warning("drain cut short")
            self._hurry.set()
            await asyncio.wait({drain}, timeout=_CUT_SHORT_S)
            if not drain.done():
                self._remove_files()
                os._exit(1)  # a thread holds the drain up; whoever signals twice does not wait
        again.cancel()
        await drain
        # All is done; an impatient signal must not turn the exit status into a failure.
        for number in (*_STOP_SIGNALS, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _log.info("stopped")

    async def stop(self, grace_s: float) -> None:
        """Report NOT_SERVING, reject new calls, let those in work finish, free everything.

        What is still in work after `grace_s` seconds is ended too. gRPC itself ends only
        when no more calls come: it would drop those that it has received and not begun.
        """
        self._health.drain()
        self._interceptor.drain()
        waits = {
            asyncio.create_task(self._interceptor.wait_quiet()),
            asyncio.create_task(self._hurry.wait()),
        }
        await asyncio.wait(waits, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await self._interceptor.cut_short(CUT_SHORT_S)
        if self._services is not None:
            # Watchers of health are left, which never finish by themselves.
            await self._services.close(DRAIN_TIMEOUT_S)
        if self._http_port is not None:
            await self._http_port.close()
        await self._free()
        self._remove_files()

    async def _free(self) -> None:
        """Write what waits, and let go of what calls used."""
        await self._idempotent_calls.close()
        for watch in self._watches:
            watch.cancel()
        await asyncio.to_thread(self._embedders.close)
        if self._chat_models is not None:
            await self._chat_models.close()
        for part in (self._reply_cache, self._ledger):
            if part is not None:
                await asyncio.to_thread(part.close)
        if self._monitoring_port is not None:
            await self._monitoring_port.close()
        if self._audit_log is not None:
            self._audit_log.close()
        if self._export is not None:
            await asyncio.to_thread(self._export.close)

    def _remove_files(self) -> None:
        """Remove the port file and the sockets, which say that a server is here."""
        if self._settings.port_file is not None:
            self._settings.port_file.unlink(missing_ok=True)
        if self._services is not None:
            self._services.remove_sockets()
        if self._http_port is not None:
            self._http_port.remove_socket()

    def _models_run(self, run: bool) -> None:
        """Report whether every loaded model runs; called on a model's thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and nobody asks any more
                self._loop.call_soon_threadsafe(self._health.report, run)

    def _ask_to_reload(self, _: int, __: object) -> None:
        """Reload soon: on the event loop, once there is one that serves."""
        if self._loop is not None:
            if self._audit_log is not None:
                self._loop.call_soon_threadsafe(self._audit_log.reopen)
            self._loop.call_soon_threadsafe(self._reload.begin)

    def _take_over(self, settings: Settings) -> None:
        """Set what may change while the server runs: `watched_files.RELOADED_SETTINGS`."""
        self._admission.max_pending_bytes = settings.max_pending_bytes
        self._failed_calls.per_minute = settings.failed_calls_per_minute
        self._grace_s = settings.grace_s
        set_level(settings.log_level)

    async def _look_at_files(self) -> None:
        """Take over certificates and tenants that changed; calls of revoked credentials end."""
        try:
            if self._certificates is not None:
                await asyncio.to_thread(self._certificates.refresh)
                if self._http_port is not None:
                    await self._http_port.refresh()
            if self._directory is not None:
                await asyncio.to_thread(self._directory.refresh)
                self._interceptor.recheck(self._directory)
        except Exception:  # noqa: BLE001 - it must go on to look: a token revoked later must end
            _log.exception("files could not be looked at")

    async def _renew_leases(self) -> None:
        """Keep what this process has drawn of budgets for as long as it runs."""
        while self._ledger is not None:
            await asyncio.sleep(LEASE_S / 4)
            await self._ledger.renew()

    async def _load_model(self) -> None:
        try:
            await asyncio.to_thread(self._embedders.load_default)
        except errors.ModelNotInstalled as error:
            if self._settings.model is not None:
                raise
            _log.warning("semantic judge unavailable", reason=error.message)

    def _made(self) -> Services:
        servicer = Servicer(
            self._offerings,
            Estimator(self._model_caller, self._budgets.currency),
            self._budgets,
            self._admission,
            self._settings,
            self._idempotent_calls,
        )
        return Services(servicer, self._health, self._interceptor, self._settings.reflection)

    def _note_lag(self, seconds: float) -> None:
        if self._monitoring_port is not None:
            self._monitoring_port.metrics.lag(seconds)

    def _failures(self) -> dict[str, int]:
        """Return how often what is read again could not be used."""
        parts = {
            "certificate": self._certificates,
            "audit log": self._audit_log,
            "tenants": self._directory,
        }
        counts = {what: 0 if part is None else part.failures for what, part in parts.items()}
        return counts | {"settings": self._reload.failures}

    def _monitoring(self) -> MonitoringPort | None:
        """Return the port that tells metrics, where there is to be one. Raises AddressError."""
        if self._settings.metrics_listen is None:
            return None
        # Imported here: aiohttp and Prometheus's client cost start-up time.
        from judged_server.monitoring.prometheus import (  # noqa: PLC0415
            MonitoringPort,
            PrometheusMetrics,
        )
        from judged_server.monitoring.readings import readings  # noqa: PLC0415

        of_parts = readings(
            lambda: self._health.is_serving,
            self._interceptor,
            self._admission,
            self._embedders,
            self._budgets,
            self._chat_models,
            self._certificates,
        )
        metrics = PrometheusMetrics(version("judged"), of_parts, self._failures)
        recorder.use(metrics)
        address = Address.parse(self._settings.metrics_listen, "metrics_listen")
        return MonitoringPort(address, metrics, lambda: self._health.is_serving)


def _await_end_of_stdin(ends: Callable[[], object]) -> None:
    """Call `ends` once nobody holds the other end of standard input any more."""
    with suppress(OSError, RuntimeError):  # it is closed; the event loop has ended
        while os.read(0, 1 << 16):
            pass
        ends()


def _write_port_file(path: Path, address: Address) -> None:
    """Write where the server is. Raises SettingsError."""
    try:
        write_whole(path, f"{address}\n")
    except OSError as error:
        raise SettingsError(
            f"port_file {path} can't be written: {error.strerror}; name another file"
        ) from None
