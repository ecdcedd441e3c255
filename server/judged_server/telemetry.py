"""Structured logs: one JSON object a line on standard error.

What is worth a line is up to the caller; texts that are judged never are.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol

import orjson
import structlog
from judged.values.judges import Usage

Logger = structlog.typing.FilteringBoundLogger

FLUSH_AFTER_S = 0.05
"""How long a line may wait for others, so that there is a write now and then and not one a call."""


AccessLine = tuple[str, str, float, str, str, float, Usage | None]
"""A call that ended: method, code, seconds it took, request id, tenant, seconds since 1970, and
what language models took."""


class Lines:
    """Writes lines: from the event loop a few at a time, warnings and all others at once."""

    def __init__(self, write: Callable[[bytes], object] | None = None) -> None:
        """Hand whole lines to `write`; by default they go to standard error."""
        self._write = write or _to_stderr
        # One deque for good: any thread may append while another one writes.
        self._waiting: deque[bytes | AccessLine] = deque()
        self._lock = threading.Lock()
        self._due_on: asyncio.AbstractEventLoop | None = None
        atexit.register(self.flush)

    def later(self, line: bytes | AccessLine) -> None:
        """Write a line within FLUSH_AFTER_S."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.now(line)
            return
        self._waiting.append(line)
        if self._due_on is not loop:
            self._due_on = loop
            loop.call_later(FLUSH_AFTER_S, self._flush_due)

    def now(self, line: bytes | AccessLine) -> None:
        """Write a line, and those that wait before it."""
        self._waiting.append(line)
        self.flush()

    def _flush_due(self) -> None:
        self._due_on = None
        self.flush()

    def flush(self) -> None:
        """Write the lines that wait."""
        with self._lock:
            written: list[bytes] = []
            while self._waiting:
                line = self._waiting.popleft()
                written.append(line if isinstance(line, bytes) else orjson.dumps(_fields(line)))
            if written:
                self._write(b"\n".join((*written, b"")))

    debug = info = later
    warning = error = critical = exception = now


def _to_stderr(lines: bytes) -> None:
    # A log that can't be written, on a disk without space say, fails no call.
    with suppress(OSError):
        sys.stderr.buffer.write(lines)
        sys.stderr.buffer.flush()


class LogSink(Protocol):
    """Takes every line of the log, as standard error does."""

    def log(self, line: Mapping[str, object]) -> None:
        """Take a line; raises nothing, and is quick."""
        ...


_sink: LogSink | None = None


def send_to(sink: LogSink | None) -> None:
    """Let a sink have every line from now on, beside standard error; None: nobody."""
    global _sink  # noqa: PLW0603 - one a process, as standard error is
    _sink = sink


def _send(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if _sink is not None:
        _sink.log(event)
    return event


def _fields(line: AccessLine) -> dict[str, object]:
    method, code, seconds, request_id, tenant, ended, spent = line
    took: dict[str, object] = {"tenant": tenant} if tenant else {}
    if spent is not None:
        took |= {
            "model_calls": spent.calls,
            "model_ms": round(spent.latency_s * 1e6) / 1e3,
            "input_tokens": spent.input_tokens,
            "output_tokens": spent.output_tokens,
        }
        if spent.cost is not None:
            took["cost"] = round(spent.cost, 9)
    return {
        "part": "call",
        "method": method,
        "code": code,
        "ms": round(seconds * 1e6) / 1e3,
        "request_id": request_id,
        **took,
        "event": "call",
        "level": "info",
        "timestamp": f"{_second(int(ended))}.{int(ended % 1 * 1e6):06}Z",
    }


@lru_cache(maxsize=4)
def _second(since_1970: int) -> str:
    return datetime.fromtimestamp(since_1970, UTC).strftime("%Y-%m-%dT%H:%M:%S")


class _Forward(logging.Handler):
    """Hands what libraries log by the standard library on to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        part = structlog.get_logger(part=record.name)
        part.log(record.levelno, record.getMessage(), exc_info=record.exc_info)


def _dump(event: dict[str, Any], **_: object) -> bytes:
    try:
        return orjson.dumps(event, default=repr)
    except (TypeError, ValueError):  # a lone surrogate, say: a line that can't be told is a hang
        return json.dumps(event, default=repr, skipkeys=True).encode()


_LEVELS = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}
_lines: Lines | None = None
_lowest = logging.INFO
"""The lowest level that is logged."""


def _at_level(
    _: object, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    if _LEVELS[method] < _lowest:
        raise structlog.DropEvent
    return event


def configure(level: str) -> None:
    """Send every log line of the process to standard error from `level` on."""
    global _lines  # noqa: PLW0603 - one a process, as standard error is
    lines = _lines = Lines()
    structlog.configure(
        cache_logger_on_first_use=True,
        processors=[
            _at_level,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _send,
            structlog.processors.JSONRenderer(serializer=_dump),
        ],
        # Not by the level: loggers keep their class for good, and the level may change.
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=lambda *_: lines,
    )
    logging.basicConfig(handlers=[_Forward()], force=True)
    set_level(level)


def set_level(level: str) -> None:
    """Log from `level` on, from now on; libraries from `warning` on at the lowest."""
    global _lowest  # noqa: PLW0603 - one a process, as standard error is
    _lowest = _LEVELS[level]
    logging.getLogger().setLevel(max(_lowest, logging.WARNING))


def log_call(
    method: str, code: str, seconds: float, request_id: str, tenant: str, spent: Usage | None
) -> None:
    """Log a call that has ended; `tenant` is "" where there are none.

    `spent` is what language models took for it, None for nothing. The line does not go through
    structlog, which would take a small call a seventh of its time.
    """
    if _lines is not None and _lowest <= logging.INFO:
        line = (method, code, seconds, request_id, tenant, time.time(), spent)
        _lines.later(line)
        if _sink is not None:
            _sink.log(_fields(line))


def logger(name: str) -> Logger:
    """Return a logger whose lines carry `name` as "part"."""
    bound: Logger = structlog.get_logger(part=name)
    return bound
