"""The audit log: a line a call, of who asked which judge, and how much. Never a text.

While a call runs, those who work for it write into its `notes`, which are None without a log.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from judged_server.settings import SettingsError
from judged_server.telemetry import Lines, Logger

_log = Logger("audit")


@dataclass(slots=True)
class CallNotes:
    """What one call was about: judgements by the signature of their judge, and bytes received."""

    judged: dict[str, int] = field(default_factory=dict)
    request_bytes: int = 0

    def add_judged(self, signature: str, number: int) -> None:
        """Note that a judge was asked for so many contexts or scores."""
        self.judged[signature] = self.judged.get(signature, 0) + number


class AuditLog:
    """A file that only grows. Whoever moves it away sends SIGHUP, and a new one is begun."""

    def __init__(self, path: Path) -> None:
        """Open the file, which only its owner may read. Raises SettingsError."""
        self._path = path
        self.failures = 0
        try:
            self._file = self._open()
        except OSError as error:
            raise SettingsError(
                f"audit_log {path} can't be written: {error.strerror}; make its folder, or name "
                "another file"
            ) from None
        self._lines = Lines(self._write)

    def call(
        self, facts: Mapping[str, object], tenant: str, credential: str, notes: CallNotes
    ) -> None:
        """Write of a call that has ended, within a moment; `facts` are those of the log."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "tenant": tenant,
            "credential": credential,
            "request_bytes": notes.request_bytes,
            "judged": notes.judged,
            **facts,
        }
        self._lines.later(line)

    def reopen(self) -> None:
        """Go on in the file that has the name now, or in a new one."""
        self._lines.flush()
        try:
            renewed = self._open()
        except OSError as error:
            self._failed(error)
            return
        os.close(self._file)
        self._file = renewed

    def close(self) -> None:
        """Write what waits."""
        self._lines.flush()

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _write(self, lines: bytes) -> None:
        try:
            while lines:
                lines = lines[os.write(self._file, lines) :]
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        """Report; calls go on, since the log is there for them and not they for it."""
        self.failures += 1
        _log.error("audit line lost", file=str(self._path), reason=error.strerror)
