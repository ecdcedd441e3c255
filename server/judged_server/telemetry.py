"""Structured logs, one JSON object per line on standard error; hooks for traces and metrics.

Callers decide what to log. They must never log judged texts.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import secrets
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partialmethod
from typing import Literal, Protocol

import orjson
from judged.values.judges import Usage

from judged_server.errors import InternalFault

FLUSH_AFTER_S = 0.05
"""How long a line may wait, so that there is one write for many calls instead of one per call."""

Fields = Mapping[str, object]


class Lines:
    """Writes log lines: in batches from the event loop, at once for warnings and other threads."""

    def __init__(self) -> None:
        # Never replaced: any thread may append while another one writes.
        self._waiting: deque[Fields] = deque()
        self._lock = threading.Lock()
        self._due_on: asyncio.AbstractEventLoop | None = None
        atexit.register(self.flush)

    def later(self, line: Fields) -> None:
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

    def now(self, line: Fields) -> None:
        """Write a line at once, after those that wait."""
        self._waiting.append(line)
        self.flush()

    def _flush_due(self) -> None:
        self._due_on = None
        self.flush()

    def flush(self) -> None:
        """Write the waiting lines."""
        with self._lock:
            written: list[bytes] = []
            while self._waiting:
                written.append(_dump(self._waiting.popleft()))
            if written:
                _to_stderr(b"\n".join((*written, b"")))


def _to_stderr(lines: bytes) -> None:
    # A log that can't be written, for example on a full disk, must not fail a call.
    with suppress(OSError):
        sys.stderr.buffer.write(lines)
        sys.stderr.buffer.flush()


def _dump(line: Fields) -> bytes:
    try:
        return orjson.dumps(line, default=repr)
    except (TypeError, ValueError):  # for example a lone surrogate; the line must not be lost
        return json.dumps(line, default=repr, skipkeys=True).encode()


_LEVELS = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}
_lines = Lines()
_lowest = logging.INFO
"""The lowest level that is logged."""


class Logger:
    """Writes log lines with a fixed field "part"."""

    def __init__(self, part: str) -> None:
        self._part = part

    def bug(self, error: BaseException) -> InternalFault:
        """Log a bug under a new reference; return the error to send to the caller."""
        ref = secrets.token_hex(8)
        self.error("bug", ref=ref, exc_info=error)
        return InternalFault(ref)

    def log(self, level: str, event: str, /, **fields: object) -> None:
        """Write a line at a level; an exception in `exc_info` is logged with its traceback."""
        if _LEVELS[level] < _lowest:
            return
        now = datetime.now(UTC).isoformat(timespec="microseconds").removesuffix("+00:00")
        line = {
            "part": self._part,
            **fields,
            "event": event,
            "level": level,
            "timestamp": f"{now}Z",
        }
        if isinstance(error := line.pop("exc_info", None), BaseException):
            line["exception"] = "".join(traceback.format_exception(error)).rstrip()
        (_lines.now if _LEVELS[level] >= logging.WARNING else _lines.later)(line)

    info = partialmethod(log, "info")
    warning = partialmethod(log, "warning")
    error = partialmethod(log, "error")

    def exception(self, event: str, **fields: object) -> None:
        """Log an error with the traceback of the exception being handled."""
        self.error(event, **fields, exc_info=sys.exception())


class _Forward(logging.Handler):
    """Forwards the records of the standard library's logging."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        fields = {} if error is None else {"exc_info": error}
        level = logging.getLevelName(record.levelno).lower()
        level = level if level in _LEVELS else "warning"  # a level without a name
        Logger(record.name).log(level, record.getMessage(), **fields)


def configure(level: str) -> None:
    """Log every line from `level` up; records of libraries only from `warning` up."""
    global _lowest  # noqa: PLW0603 - one a process, as standard error is
    logging.basicConfig(handlers=[_Forward()], force=True)
    _lowest = _LEVELS[level]
    logging.getLogger().setLevel(max(_lowest, logging.WARNING))


def taken(spent: Usage | None) -> dict[str, object]:
    """Return the usage of language models in a call, as log fields."""
    if spent is None:
        return {}
    took: dict[str, object] = {
        "model_calls": spent.calls,
        "model_ms": round(spent.latency_s * 1e6) / 1e3,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
    }
    return took if spent.cost is None else {**took, "cost": round(spent.cost, 9)}


@dataclass(frozen=True, slots=True)
class StageRun:
    """One run of a stage for a call: `ended_ns` is nanoseconds since 1970."""

    stage: Stage
    ended_ns: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A question to a language model and its outcome; `error` is the reason, "" on success.

    `model` and `provider` are the operator's names, `requested` and `answered` the provider's.
    """

    model: str
    provider: str
    dialect: str
    requested: str
    rubric: str
    max_tokens: int
    temperature: float | None
    seconds: float
    attempts: int
    error: str = ""
    answered: str = ""
    input_tokens: int = 0
    output_tokens: int = 0


EndCall = Callable[[str, str, str, str], None]
"""Ends the span of a call with its gRPC status, the reason of the contract ("" for none), its
request id and its tenant."""


class Tracer(Protocol):
    """Receives what calls do. Its methods must be fast and raise nothing."""

    def call(self, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> EndCall:
        """Begin a call's span; the rest of the task, and all that it starts, belongs to it."""
        ...

    def stages(self, runs: Sequence[StageRun]) -> None:
        """Record the stages of the call in work; all runs of one stage make one span."""
        ...

    def question(self, call: ModelCall) -> None:
        """Record a question that has just ended."""
        ...


tracer: Tracer | None = None
"""The tracer, None until a server sets it."""


Stage = Literal["queue", "tokenize", "infer", "provider", "store"]
"""Where a call's time goes: waiting for an embedding model, tokenizing texts, running the model,
waiting for a language model, reading stored replies."""


recorder: Callable[..., None] | None = None
"""Receives the arguments of `note`, on any thread. It must be fast and raise nothing."""


def note(figure: str, value: float, *labels: str) -> None:
    """Add to a counter of FIGURES, or a value to a histogram."""
    if recorder is not None:
        recorder(figure, value, *labels)


def note_lookups(cache: Literal["replies", "vectors"], hits: int, misses: int) -> None:
    """Count the hits and misses of a cache."""
    for result, times in (("hit", hits), ("miss", misses)):
        if times:
            note("cache_lookups", times, cache, result)
