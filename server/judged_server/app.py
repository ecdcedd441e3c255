"""Puts the server together, runs it and takes it down."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from judged.v1 import judge_service_pb2
from judged.v1.judge_service_pb2_grpc import add_JudgeServiceServicer_to_server

from judged_server import errors, gc_tuning
from judged_server.address import Address, AddressError, share_socket
from judged_server.api.connections import connection_options
from judged_server.api.convert.info import ServerFacts
from judged_server.api.idempotency import IdempotentCalls
from judged_server.api.interceptor import CallInterceptor, Deadlines, InterceptingRegistrar
from judged_server.api.judge_service import JudgeService
from judged_server.api.limits import RequestLimits
from judged_server.embedding.cache.vector_cache import VectorCaches
from judged_server.embedding.models.manifest import DEFAULT_MODEL
from judged_server.embedding.models.store import ModelStore, default_root
from judged_server.embedding.registry import StoredEmbedders
from judged_server.embedding.runtime.backend_selection import (
    Machine,
    RuntimeConfig,
    choose,
    default_engines,
)
from judged_server.judges.catalog import JudgeCatalog
from judged_server.judges.exact import ExactKind
from judged_server.judges.lexical.token_overlap import TokenOverlapKind
from judged_server.judges.llm.answers import AnswersKind
from judged_server.judges.llm.judge import NO_CONFIGURATION, LlmKind
from judged_server.judges.panel import PanelKind
from judged_server.judges.semantic import SemanticKind
from judged_server.judges.span import SpanKind
from judged_server.llm.budget import Budgets, DayLedger, default_ledger
from judged_server.llm.cache.reply_cache import ReplyCache
from judged_server.llm.caller import ModelCaller
from judged_server.llm.rubrics import Rubric, load_builtin, load_folder
from judged_server.llm.transport.clock import Clock
from judged_server.settings import Settings, SettingsError, cache_folder
from judged_server.spending import nano_within
from judged_server.store.kept_replies import KeptReplies
from judged_server.store.replies import ReplyFile
from judged_server.store.stored_ids import CacheInvalidation
from judged_server.telemetry import logger
from judged_server.threads import batch_scheduling
from judged_server.usecases.admission import Admission
from judged_server.usecases.estimate_batch import Estimator
from judged_server.usecases.score_answers import Scoring

if TYPE_CHECKING:
    from judged_server.llm.models import ChatModels

SERVICE = judge_service_pb2.DESCRIPTOR.services_by_name["JudgeService"].full_name

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
DRAIN_TIMEOUT_S = 0.2
"""Time for the last replies to leave once nothing is in work any more."""
_CUT_SHORT_S = 2.0
"""The longest that a drain takes once a second signal has come."""
_PURGES_HEEDED_S = 1.0
"""How often a server looks whether stored replies were purged."""

_log = logger("server")


class App:
    """One server process, from start to drain."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._embedders = StoredEmbedders(
            ModelStore(settings.models_dir or default_root(os.environ)),
            settings.model or DEFAULT_MODEL,
            _running(settings),
            caches=_vector_caches(settings),
            health=self._models_run,
        )
        self._chat_models = _chat_models(settings)
        self._budgets = _budgets(self._chat_models)
        self._reply_cache = _reply_cache(settings)
        self._rubrics = _rubrics(settings)
        self._deadlines = Deadlines(
            settings.default_deadline_s,
            settings.max_unary_deadline_s,
            settings.max_stream_deadline_s,
        )
        self._interceptor = CallInterceptor(self._deadlines)
        self._idempotent_calls = IdempotentCalls(
            settings.request_id_memory_bytes, settings.request_id_grace_s
        )
        self._hurry = asyncio.Event()
        self._invalidation_watch: asyncio.Task[None] | None = None
        self._health = health.aio.HealthServicer()
        self._server: grpc.aio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.address = Address.parse(settings.listen)

    async def start(self) -> None:
        """Load the model, bind, report healthy. Raises AddressError or errors.JudgedError."""
        settings = self._settings
        self._loop = asyncio.get_running_loop()
        if not self.address.is_local and not settings.insecure:
            raise AddressError(
                f"{self.address} can be reached from other machines and this server has neither "
                "TLS nor tokens; listen on 127.0.0.1 or unix:PATH, or say --insecure"
            )
        self.address.refuse_live_socket()
        await self._load_model()
        with batch_scheduling():
            server = self._build_server()
            self.address = self._bind(server)
            await server.start()
        self._server = server
        # What start-up made lives as long as the process; a collection need not walk it each time.
        gc_tuning.settle()
        for service in ("", SERVICE):
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)
        if settings.port_file is not None:
            write_whole(settings.port_file, f"{self.address}\n")
        if self._reply_cache is not None and settings.llm_cache == "disk":
            self._invalidation_watch = asyncio.create_task(
                _apply_invalidations(self._reply_cache, settings)
            )
        _log.info("ready", address=str(self.address), version=version("judged"), pid=os.getpid())

    async def run(self) -> None:
        """Serve until SIGTERM, SIGINT or SIGHUP, then drain; a second one cuts the drain short.

        SIGUSR1 writes the stacks of all threads to standard error.
        """
        loop = asyncio.get_running_loop()
        asked: asyncio.Queue[str] = asyncio.Queue()

        def ask(number: int, _: object) -> None:
            loop.call_soon_threadsafe(asked.put_nowait, signal.Signals(number).name)

        # Before anything else: a signal that comes while the model loads must not be lost. And not
        # by the loop, which on its end would let the next signal kill the process.
        for number in _STOP_SIGNALS:
            signal.signal(number, ask)
        # Where a server hangs, the stacks of all its threads say at what.
        faulthandler.register(signal.SIGUSR1, file=sys.stderr, all_threads=True)
        await self.start()
        _log.info("draining", signal=await asked.get(), grace_s=self._settings.grace_s)
        drain = asyncio.create_task(self.stop(self._settings.grace_s))
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
        for number in _STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        _log.info("stopped")

    async def stop(self, grace_s: float) -> None:
        """Report NOT_SERVING, turn new calls away, let those in work finish, free everything.

        What is still in work after `grace_s` seconds is cancelled.
        """
        await self._health.enter_graceful_shutdown()
        self._interceptor.drain()
        waits = {
            asyncio.create_task(self._interceptor.wait_idle()),
            asyncio.create_task(self._hurry.wait()),
        }
        await asyncio.wait(waits, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if self._server is not None:
            # Those who watch our health are left, and they would watch for ever.
            await self._server.stop(DRAIN_TIMEOUT_S)
        await self._idempotent_calls.close()
        if self._invalidation_watch is not None:
            self._invalidation_watch.cancel()
        await asyncio.to_thread(self._embedders.close)
        if self._chat_models is not None:
            await self._chat_models.close()
        if self._reply_cache is not None:
            await asyncio.to_thread(self._reply_cache.close)
        await asyncio.to_thread(self._budgets.close)
        self._remove_files()

    def _remove_files(self) -> None:
        """Remove the port file and the socket, which say that a server is here."""
        for path in (self._settings.port_file, self.address.path):
            if path is not None:
                path.unlink(missing_ok=True)

    def _models_run(self, run: bool) -> None:
        """Report whether every loaded model runs; called on a model's thread."""
        status = health_pb2.HealthCheckResponse
        healthy = status.SERVING if run else status.NOT_SERVING

        async def report() -> None:
            for service in ("", SERVICE):
                await self._health.set(service, healthy)

        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and nobody asks any more
                asyncio.run_coroutine_threadsafe(report(), self._loop)

    async def _load_model(self) -> None:
        try:
            await asyncio.to_thread(self._embedders.load_default)
        except errors.ModelNotInstalled as error:
            if self._settings.model is not None:
                raise
            _log.warning("semantic judge unavailable", reason=error.message)

    def _build_server(self) -> grpc.aio.Server:
        settings = self._settings
        limits = RequestLimits(
            max_contexts=settings.max_contexts,
            max_text_bytes=settings.max_text_bytes,
            max_groups=settings.max_groups,
            max_embedding_dimensions=settings.max_embedding_dimensions,
            max_message_bytes=settings.max_message_bytes,
        )
        model_caller = ModelCaller(self._budgets, self._reply_cache)
        kinds = (
            TokenOverlapKind(),
            ExactKind(),
            SpanKind(),
            SemanticKind(self._embedders),
            LlmKind(self._chat_models, self._rubrics, model_caller),
            PanelKind(),
        )
        catalog = JudgeCatalog(kinds, settings.default_judge)
        service = JudgeService(
            catalog,
            Scoring(AnswersKind(self._chat_models, self._rubrics, model_caller)),
            Estimator(model_caller, self._budgets.currency),
            self._embedders,
            Admission(settings.max_pending_bytes),
            ServerFacts(
                version("judged"),
                limits,
                self._deadlines,
                tuple(self._rubrics.values()),
                (lambda: ()) if self._chat_models is None else self._chat_models.listed,
            ),
            settings.max_chunks_in_flight,
            self._idempotent_calls,
        )
        server = grpc.aio.server(options=connection_options(settings.max_message_bytes))
        interceptor = self._interceptor
        guarded: Any = InterceptingRegistrar(server, interceptor)
        add_JudgeServiceServicer_to_server(service, guarded)
        # Health and reflection watch for as long as their callers like: no limit of ours.
        unlimited = InterceptingRegistrar(server, interceptor, limited=False)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, unlimited)
        if settings.reflection:
            # Imported here: reflection is off by default and its import costs start-up time.
            from grpc_reflection.v1alpha import reflection  # noqa: PLC0415

            names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, server)
        return server

    def _bind(self, server: grpc.aio.Server) -> Address:
        address = self.address
        # Nobody else's from the moment the socket exists; group and mode follow.
        mask = os.umask(0o177) if address.path is not None else None
        try:
            port = server.add_insecure_port(str(address))
        except RuntimeError:
            raise AddressError(
                f"can't listen on {address}; is another server there, or is the path not writable?"
            ) from None
        finally:
            if mask is not None:
                os.umask(mask)
        if address.path is None:
            return Address(address.host, port)
        share_socket(address.path, self._settings.socket_mode, self._settings.socket_group)
        return address


def _rubrics(settings: Settings) -> Mapping[str, Rubric]:
    """Return the rubrics of the package and the operator's own, by id."""
    own = {} if settings.rubrics_dir is None else load_folder(settings.rubrics_dir)
    return {**load_builtin(), **own}


def _running(settings: Settings) -> RuntimeConfig:
    """Return how models are run here; raises SettingsError when that can't be as it was set."""
    return RuntimeConfig(
        choose(settings.embedding_backend, settings.embedding_precision, Machine.here()),
        settings.embedding_threads,
        settings.embedding_batch_threads,
        settings.embedding_batch_tokens,
        settings.engine_cache_dir or default_engines(os.environ),
    )


def _chat_models(settings: Settings) -> ChatModels | None:
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


def _budgets(models: ChatModels | None) -> Budgets:
    """Return what may be spent. Raises SettingsError when the day's file can't be used."""
    if models is None:
        return Budgets()
    budget = models.budget
    day = None
    if budget.per_day is not None:
        path = budget.file or default_ledger(os.environ)
        day = DayLedger(path, models.currency, nano_within(budget.per_day), Clock())
    return Budgets(models.currency, budget.per_request, day)


async def _apply_invalidations(cache: ReplyCache, settings: Settings) -> None:
    """Forget what is held in memory whenever stored replies were purged."""
    notice = CacheInvalidation(_reply_folder(settings))
    while True:
        await asyncio.sleep(_PURGES_HEEDED_S)
        if await asyncio.to_thread(notice.changed):
            cache.forget()
            _log.info("stored replies were purged, so those in memory are forgotten")


def _reply_folder(settings: Settings) -> Path:
    return settings.llm_cache_dir or cache_folder(os.environ, "replies")


def _reply_cache(settings: Settings) -> ReplyCache | None:
    """Return the cache of replies that the settings ask for; none where no model can be asked."""
    if settings.llm_config is None or settings.llm_cache == "off":
        return None
    store = None
    if settings.llm_cache == "disk":  # only then is a home folder needed
        folder = _reply_folder(settings)
        store = KeptReplies(ReplyFile(folder, settings.llm_cache_disk_bytes))
    return ReplyCache(settings.llm_cache_memory_bytes, settings.llm_cache_ttl_s, store)


def _vector_caches(settings: Settings) -> VectorCaches:
    """Return the caches that the settings ask for."""
    folder = None
    if settings.vector_cache == "disk":  # only then is a home folder needed
        folder = settings.vector_cache_dir or cache_folder(os.environ, "vectors")
    return VectorCaches(
        0 if settings.vector_cache == "off" else settings.vector_cache_memory_bytes,
        folder,
        settings.vector_cache_disk_bytes,
    )


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader sees all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(scratch).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(scratch).unlink()
        raise
