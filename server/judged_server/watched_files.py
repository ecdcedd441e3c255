"""Files that a server reads again: those it watches, and those that SIGHUP lets it look at.

What files say that can't be used changes nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from judged_server.settings import Settings, SettingsError
from judged_server.telemetry import logger

Said = TypeVar("Said")

_log = logger("server")


class WatchedFiles(Generic[Said]):
    """What files say now. Safe to use on any thread; only looks touch the disk.

    `failures` counts the times that the files could not be used, `problem` says what is wrong with
    them now, "" for nothing.
    """

    def __init__(
        self, what: str, files: Sequence[Path], read: Callable[[Said | None], Said]
    ) -> None:
        """Read the files by `read`, which is told what they said before. Raises as it does."""
        self._what = what
        self._files = files
        self._read = read
        self._lock = threading.Lock()
        self.failures = 0
        self.problem = ""
        self._state = self._before = self._look()
        self.now = read(None)

    def refresh(self) -> bool:
        """Read the files if they have changed; say whether what is served is what they say.

        They count once two looks have found the same, since they may be half written. What can't be
        used changes nothing, and is reported once. Raises nothing.
        """
        with self._lock:
            state, before = self._look(), self._before
            self._before = state
            if state == self._state:
                self.problem = ""
            elif state != before:
                return False
            elif (problem := self._take(state)) not in {"", self.problem}:
                self.failures += 1
                self.problem = problem
                logger(self._what).error(
                    f"bad {self._what}",
                    problem=problem,
                    next_step="mend the file; what it said before holds on",
                )
            return state == self._state

    def _look(self) -> tuple[object, ...]:
        """Return what the files hold, or why they can't be read."""
        state: list[object] = []
        for file in self._files:
            try:
                state.append(file.read_bytes())
            except OSError as error:
                state.append(error.errno)
        return tuple(state)

    def _take(self, state: tuple[object, ...]) -> str:
        """Take over what the files say; return why that can't be, and never what is in them."""
        try:
            now = self._read(self.now)
        except SettingsError as error:
            return str(error)
        except OSError as error:
            return f"can't be read: {error.strerror}"
        except Exception as error:  # noqa: BLE001 - the old ones serve on, and it looks again
            return f"can't be read: {type(error).__name__}"
        if self._look() == state:
            self.now, self._state, self.problem = now, state, ""
            logger(self._what).info(f"{self._what} read")
        return ""


RELOADED_SETTINGS = {"max_pending_bytes", "grace_s", "failed_calls_per_minute", "log_level"}
"""Settings that SIGHUP takes over. The others are parts of what was built at the start."""
_READ_AT_START = ("calibrations_dir", "llm_config", "rubrics_dir")
"""Settings whose files SIGHUP does not read again."""
_LOOK_EVERY_S = 1.0


class Reload:
    """Looks at files now and then; SIGHUP does so at once, and takes over some settings.

    `failures` counts how often the settings could not be used. Used on one event loop.
    """

    def __init__(
        self,
        settings: Settings,
        reread: Callable[[], Settings],
        take_over: Callable[[Settings], object],
        look: Callable[[], Awaitable[None]],
    ) -> None:
        """Take the settings of the start, and what returns them anew.

        `take_over` sets those that may change. `look` looks at the files that are watched.
        """
        self._settings = settings
        self._reread = reread
        self._take_over = take_over
        self._look = look
        self._lock = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None
        self.failures = 0

    async def watch(self) -> None:
        """Look at the watched files now and then, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            async with self._lock:
                await self._look()

    def begin(self) -> None:
        """Reload all that may change, soon."""
        self._running = asyncio.create_task(self._all())

    async def _all(self) -> None:
        async with self._lock:
            await self._look()
            try:
                settings = await asyncio.to_thread(self._reread)
            except SettingsError as error:
                self.failures += 1
                _log.error(
                    "bad settings",
                    problem=str(error),
                    next_step="mend them and send SIGHUP again; what they said before holds on",
                )
                return
            self._take_over(settings)
        if waiting := sorted(settings.differing(self._settings) - RELOADED_SETTINGS):
            _log.warning("settings wait for a restart", settings=", ".join(waiting))
        unread = [name for name in _READ_AT_START if getattr(settings, name) is not None]
        _log.info("reloaded by SIGHUP", files_not_read_again=", ".join(unread))
