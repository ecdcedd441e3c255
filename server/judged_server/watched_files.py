"""Files that a server looks at while it runs.

What files say that can't be used changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from judged_server.settings import SettingsError
from judged_server.telemetry import Logger

Said = TypeVar("Said")


@dataclass(eq=False)
class WatchedFiles(Generic[Said]):
    """What files say now. Safe to use on any thread; only looks touch the disk.

    They are read by `_read`, which is told what they said before. Raises as that does.
    `failures` counts the times that the files could not be used, `problem` says what is wrong with
    them now, "" for nothing.
    """

    _what: str
    _files: Sequence[Path]
    _read: Callable[[Said | None], Said]
    failures: int = 0
    problem: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Read the files."""
        self._state = self._before = self._look()
        self.now = self._read(None)

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
                Logger(self._what).error(
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
        except Exception as error:  # noqa: BLE001 - the old ones serve on, and it looks again
            return f"can't be read: {getattr(error, 'strerror', None) or type(error).__name__}"
        if self._look() == state:
            self.now, self._state, self.problem = now, state, ""
            Logger(self._what).info(f"{self._what} read")
        return ""
