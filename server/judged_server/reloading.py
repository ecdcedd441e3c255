"""Takes over what has changed of a server's files while it runs.

Tenants, tokens and certificates are looked at every second. SIGHUP does so at once, takes over some
of the settings, and tells what waits for a restart. What can't be used changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from judged_server.api.failed_calls import FailedCalls
from judged_server.api.interceptor import CallInterceptor
from judged_server.api.listening.admission import Admission
from judged_server.audit import AuditLog
from judged_server.settings import Settings, SettingsError
from judged_server.telemetry import logger, set_level
from judged_server.tenant import EVERYTHING
from judged_server.tenants.directory import FileDirectory
from judged_server.usecases.offering import Offerings

if TYPE_CHECKING:
    from judged_server.api.listening.certificates import Certificates
    from judged_server.http_api.port import HttpPort
    from judged_server.llm.models import ChatModels

_RELOADED_SETTINGS = {"max_pending_bytes", "grace_s", "failed_calls_per_minute", "log_level"}
"""Settings that SIGHUP takes over. The others are parts of what was built at the start."""
_LOOKED_AT_EVERY_S = 1.0

_log = logger("server")


@dataclass(slots=True)
class ReloadedParts:
    """The parts of a server that may change while it runs; None for those that it lacks."""

    certificates: Certificates | None
    directory: FileDirectory | None
    interceptor: CallInterceptor
    admission: Admission
    failed_calls: FailedCalls
    chat_models: ChatModels | None
    offerings: Offerings
    audit_log: AuditLog | None
    http_port: HttpPort | None = None


@dataclass(slots=True)
class Reload:
    """What is read again, and how often it could not be used (`failures`).

    `reread` returns the settings anew; `settings` are those of the start. Used on one event loop.
    """

    settings: Settings
    reread: Callable[[], Settings]
    parts: ReloadedParts
    grace_s: float = field(init=False)
    failures: dict[str, int] = field(
        default_factory=lambda: {"settings": 0, "llm_config": 0, "rubrics": 0}, init=False
    )
    _running: asyncio.Task[None] | None = field(default=None, init=False)
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def __post_init__(self) -> None:
        """Begin with the settings of the start."""
        self.grace_s = self.settings.grace_s

    async def watch(self) -> None:
        """Look at the files of tenants, tokens and certificates now and then, until cancelled."""
        while True:
            await asyncio.sleep(_LOOKED_AT_EVERY_S)
            async with self._one_at_a_time:
                await self._callers()

    def begin(self) -> None:
        """Reload all that may change, soon; begin a new audit log where that was moved away."""
        if self.parts.audit_log is not None:
            self.parts.audit_log.reopen()
        self._running = asyncio.create_task(self._all())

    async def _all(self) -> None:
        async with self._one_at_a_time:
            waiting, failed_before = list[str](), dict(self.failures)
            await self._callers()
            for what, differing in (
                ("settings", self._settings_that_wait),
                ("llm_config", self._models_that_wait),
                ("rubrics", self._rubrics_that_wait),
            ):
                try:
                    waiting += await asyncio.to_thread(differing)
                except SettingsError as error:
                    self.failures[what] += 1
                    _log.error(
                        f"bad {what}",
                        problem=str(error),
                        next_step="mend them and send SIGHUP again; what they said before holds on",
                    )
        if waiting:
            _log.warning("settings wait for a restart", settings=", ".join(waiting))
        if self.failures == failed_before:
            _log.info("reloaded by SIGHUP")

    async def _callers(self) -> None:
        """Take over tenants, tokens and certificates, and end the calls of those revoked."""
        parts = self.parts
        try:
            if parts.certificates is not None:
                await asyncio.to_thread(parts.certificates.refresh)
                if parts.http_port is not None:
                    await parts.http_port.refresh()
            if parts.directory is not None:
                await asyncio.to_thread(parts.directory.refresh)
                parts.interceptor.recheck(parts.directory)
        except Exception:  # noqa: BLE001 - it must go on to look: a token revoked later must end
            _log.exception("tenants and certificates could not be looked at")

    def _settings_that_wait(self) -> list[str]:
        """Take over some of the settings; return the others that differ. Raises SettingsError."""
        settings = self.reread()
        self.parts.admission.max_pending_bytes = settings.max_pending_bytes
        self.parts.failed_calls.per_minute = settings.failed_calls_per_minute
        self.grace_s = settings.grace_s
        set_level(settings.log_level)
        return sorted(settings.differing(self.settings) - _RELOADED_SETTINGS)

    def _models_that_wait(self) -> list[str]:
        """Return the file of language models if it says else than at the start."""
        models, path = self.parts.chat_models, self.settings.llm_config
        if models is None or path is None:
            return []
        # Imported here: it costs start-up time, and was needed to make the models.
        from judged_server.llm.config.configuration import read_configuration  # noqa: PLC0415

        is_same = read_configuration(path) == models.configuration
        return [] if is_same else ["llm_config (its file)"]

    def _rubrics_that_wait(self) -> list[str]:
        """Return the folder of rubrics if it holds others than at the start.

        Judges are built of them, and signatures name them, so that they are not taken over.
        """
        folder = self.settings.rubrics_dir
        if folder is None:
            return []
        from judged_server.llm.rubrics.loading import load_builtin, load_folder  # noqa: PLC0415

        now = {**load_builtin(), **load_folder(folder)}.values()
        at_start = self.parts.offerings[EVERYTHING].rubrics
        is_same = {rubric.sha256 for rubric in now} == {rubric.sha256 for rubric in at_start}
        return [] if is_same else ["rubrics_dir (its files)"]
