"""Texts on their way to a vector, each distinct one once, and the calls that wait for them.

No call owns an entry: it goes on as long as any call waits for it, so that the call that began
it can leave without harm to the others.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from judged_server.domain import Flag, Float32Array
from judged_server.embedding.batching.cutting import Waiting, WindowHeap
from judged_server.embedding.cache.vector_rows import VectorRows
from judged_server.embedding.policy import TRUNCATE
from judged_server.embedding.tokenizer import TokenizedText
from judged_server.tracing import StageRun

Fault = tuple[str, str]
"""Reason and message."""

_NO_VECTORS: Float32Array = np.zeros((0, 0), np.float32)


@dataclass(slots=True, eq=False)
class InflightText:
    """One distinct text under one policy; `tokens` is what it was estimated to cost.

    It waits `since` a time of the clock time.monotonic.
    """

    key: bytes
    text: str
    long_text: str = TRUNCATE
    tokens: int = 0
    calls: list[Call] = field(default_factory=list)
    windows: tuple[Window, ...] | None = None
    vectors: Float32Array = field(default_factory=lambda: _NO_VECTORS)
    missing: int = 0
    flag: Flag = Flag.NONE
    fault: Fault | None = None
    being_read: bool = False
    dropped: bool = False
    since: float = field(default_factory=time.monotonic)

    @property
    def can_be_dropped(self) -> bool:
        """Whether there is work left to save: a text not read, or a window not begun."""
        if self.windows is None:
            return not self.being_read
        return any(not window.taken for window in self.windows)

    def read(self, text: TokenizedText, dimensions: int) -> None:
        """Take the windows of the text."""
        self.windows = tuple(
            Window(token_ids, max(1, len(token_ids)), self, number)
            for number, token_ids in enumerate(text.windows)
        )
        for window in self.windows:
            window.estimate = self.tokens / len(self.windows)
        self.vectors = np.zeros((len(self.windows), dimensions), np.float32)
        self.missing = len(self.windows)
        self.flag, self.fault = text.flag, text.fault

    def release(self) -> None:
        """Part with calls and windows, which hold it in turn.

        Only a collection would free it else: a rare one, after 90,000 texts and 50 MB, since the
        frequent ones came by while it was in use.
        """
        self.calls, self.windows = [], ()


@dataclass(slots=True, eq=False)
class Window(Waiting):
    """One window of an entry's text; `estimate` is its part of the entry's tokens."""

    entry: InflightText
    number: int
    estimate: float = 0.0


@dataclass(slots=True, eq=False)
class Call:
    """One call of `embed`: the entries it waits for, in the order of `wanted` texts.

    `cost` is what it added to the work, in tokens; `deadline` is when its sender stops waiting, on
    the clock of `time.monotonic`. `runs` is what was done for it, None where nobody
    collects that.
    """

    wanted: Sequence[int]
    entries: list[InflightText]
    interactive: bool
    waiter: asyncio.Future[None]
    sender: str = ""
    deadline: float | None = None
    cost: int = 0
    weight: float = 1.0
    left: int = 0
    gone: bool = False
    runs: list[StageRun] | None = None
    unread: deque[InflightText] = field(default_factory=deque)
    windows: CallWindows = field(init=False)

    def __post_init__(self) -> None:
        self.windows = CallWindows(self.sender, self.weight, call=self)

    @property
    def begun(self) -> bool:
        """Whether any of its windows runs, or has run."""
        return any(window.taken for entry in self.entries for window in entry.windows or ())

    def one_done(self) -> None:
        """Count an entry that has ended; the last one wakes the caller."""
        self.left -= 1
        if not self.left:
            self.wake(None)

    def wake(self, error: Exception | None) -> None:
        """Wake the caller from any thread, with an error if there is one."""

        def settle() -> None:
            if self.gone or self.waiter.done():
                return
            if error is None:
                self.waiter.set_result(None)
            else:
                self.waiter.set_exception(error)

        with suppress(RuntimeError):  # a loop that is closed has nobody left to wake
            self.waiter.get_loop().call_soon_threadsafe(settle)

    def rows(self, dimensions: int) -> tuple[VectorRows, dict[int, Fault]]:
        """Return the vectors of the entries that have any, and the faults, by text."""
        faults: dict[int, Fault] = {}
        good: list[tuple[int, InflightText]] = []
        for text, entry in zip(self.wanted, self.entries, strict=True):
            if entry.fault is not None:
                faults[text] = entry.fault
            else:
                good.append((text, entry))
        vectors = [entry.vectors for _, entry in good]
        rows = VectorRows(
            np.array([text for text, _ in good], np.int64),
            np.concatenate(vectors) if vectors else np.zeros((0, dimensions), np.float32),
            np.array([len(part) for part in vectors], np.int64),
            np.array([entry.flag for _, entry in good], np.uint8),
        )
        return rows, faults


@dataclass(slots=True, eq=False, kw_only=True)
class CallWindows(WindowHeap):
    """The windows of a call, and whose they are: None once it has ended, as for `release`."""

    call: Call | None
