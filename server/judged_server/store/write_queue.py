"""A thread that writes what waits, so that nobody else does.

What still waits when it is closed is written; what waits when the process is killed is lost.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Entry = TypeVar("Entry")

MAX_WAITING_BYTES = 8 << 20
LINGER_S = 0.005
"""How long entries wait for others to be written with."""

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
        self._waiting: list[Entry] = []
        self._bytes = 0
        self._next: Future[None] | None = None
        self._lock = threading.Lock()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-write")
        self.closed = False
        """Whether it takes nothing any more."""

    def put(self, entries: Sequence[Entry]) -> Future[None] | None:
        """Let all of the entries be written soon; None where none will be.

        The future is done once they were written, or could not be.
        """
        size = sum(map(self._size, entries))
        with self._lock:
            if self.closed or self._bytes + size > self._max_waiting_bytes:
                return None
            self._waiting += entries
            self._bytes += size
            if self._next is None:
                self._next = self._writer.submit(self._write_all)
            return self._next

    def close(self) -> None:
        """Write what waits."""
        with self._lock:
            self.closed = True
        self._writer.shutdown()

    def _write_all(self) -> None:
        time.sleep(LINGER_S)
        with self._lock:
            waiting, self._waiting, self._next = self._waiting, [], None
        batch: list[Entry] = []
        room = self._most
        for entry in waiting:
            size = self._size(entry)
            if batch and size > room:
                self._write_batch(batch)
                batch, room = [], self._most
            batch.append(entry)
            room -= size
        if batch:
            self._write_batch(batch)

    def _write_batch(self, batch: Sequence[Entry]) -> None:
        try:
            self._write(batch)
        except Exception:
            logger.exception("%d %s were not stored", len(batch), self._name)
        finally:
            with self._lock:
                self._bytes -= sum(map(self._size, batch))
