"""A thread that writes what waits, so that nobody else does.

What still waits when it is closed is written; what waits when the process is killed is lost. Who
must know that an entry was written is told so, and its entry waits for few others.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Entry = TypeVar("Entry")

MAX_WAITING_BYTES = 8 << 20
LINGER_S = 0.25
"""How long entries wait for others to be written with."""
HURRIED_COMPANY_S = 0.003
"""How long they do where somebody waits until they are written."""

logger = logging.getLogger(__name__)


class WriteQueue(Generic[Entry]):
    """Entries on their way to a file."""

    def __init__(
        self,
        write: Callable[[Sequence[Entry]], object],
        size: Callable[[Entry], int],
        most_at_once: int,
        name: str,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
    ) -> None:
        """Call `write` with as many entries as have `most_at_once` bytes by `size`, or one."""
        self._write = write
        self._size = size
        self._most = most_at_once
        self._name = name
        self._max_waiting_bytes = max_waiting_bytes
        self._waiting: deque[Entry] = deque()
        self._bytes = 0
        self._closed = False
        self._taken = 0
        self._told: deque[tuple[int, Callable[[], object]]] = deque()
        self._changed = threading.Condition()
        self._writer = threading.Thread(target=self._run, name=f"{name}-write", daemon=True)
        self._writer.start()

    @property
    def closed(self) -> bool:
        """Whether it takes nothing any more."""
        return self._closed

    def put(self, entries: Sequence[Entry], settled: Callable[[], object] | None = None) -> bool:
        """Let entries be written some time, all or none of them; False where none will be.

        With `settled` soon: it is called by the writer once they are written, or could not be.
        """
        size = sum(map(self._size, entries))
        with self._changed:
            if self._closed or self._bytes + size > self._max_waiting_bytes:
                return False
            first = not self._waiting
            self._waiting.extend(entries)
            self._bytes += size
            if settled is not None:
                first = first or not self._told
                self._told.append((self._taken + len(self._waiting), settled))
            # Waking the writer for each entry would cost as much as writing them.
            if first or self._bytes >= self._most:
                self._changed.notify()
            return True

    def close(self) -> None:
        """Write what waits."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._writer.join()

    def _run(self) -> None:
        while batch := self._next():
            try:
                self._write(batch)
            except Exception:
                logger.exception("%d %s were not stored", len(batch), self._name)
            for settled in self._settled():
                settled()

    def _settled(self) -> list[Callable[[], object]]:
        """Return whom to tell that what was taken so far is settled."""
        told = []
        with self._changed:
            while self._told and self._told[0][0] <= self._taken:
                told.append(self._told.popleft()[1])
        return told

    def _next(self) -> list[Entry]:
        """Return what to write together; nothing at the end."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            self._changed.wait_for(
                lambda: self._closed or self._bytes >= self._most or bool(self._told),
                LINGER_S,
            )
            if self._told:
                self._changed.wait_for(
                    lambda: self._closed or self._bytes >= self._most, HURRIED_COMPANY_S
                )
            batch: list[Entry] = []
            size = 0
            while self._waiting and (
                not batch or size + self._size(self._waiting[0]) <= self._most
            ):
                batch.append(self._waiting.popleft())
                size += self._size(batch[-1])
            self._bytes -= size
            self._taken += len(batch)
            return batch
