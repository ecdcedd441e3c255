"""How many messages a client has in flight: more while the server answers, fewer when it is busy.

Additive increase, multiplicative decrease, as TCP does it (Chiu and Jain, 1989). A caller who sends
thousands of calls at once then waits here, in the order of its calls, in place of being turned away
over and over; and callers of one server come to have about the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

FIRST, LEAST, MOST = 64, 1, 256
"""Messages in flight at first, at least and at most: a server's connection takes 256."""
DECREASE = 0.7
SHRINK_EVERY_S = 0.1
"""Those turned away together count as one sign that the server is busy."""


class Window:
    """Slots for messages in flight. Safe for threads and event loops, any of them at a time."""

    def __init__(self) -> None:
        self._limit = float(FIRST)
        self._in_flight = 0
        self._waiting: dict[Future[None], None] = {}
        """Who waits, in order; a future is done once it has a slot."""
        self._shrunk = 0.0
        self._lock = threading.Lock()

    @property
    def limit(self) -> int:
        """The most messages in flight now."""
        return int(self._limit)

    @contextmanager
    def slot(self) -> Iterator[Future[None]]:
        """Get in line for a slot: it is there when the future is done, and is given back after."""
        slot: Future[None] = Future()
        with self._lock:
            self._waiting[slot] = None
            self._grant()
        try:
            yield slot
        finally:
            with self._lock:
                if slot in self._waiting:
                    del self._waiting[slot]
                elif not slot.cancelled():
                    self._in_flight -= 1
                self._grant()

    def answered(self) -> None:
        """Note a message that was answered: a window full of them makes it one larger."""
        with self._lock:
            self._limit = min(float(MOST), self._limit + 1 / self._limit)
            self._grant()

    def turned_away(self) -> None:
        """Note a message for which the server had no room."""
        with self._lock:
            now = time.monotonic()
            if now >= self._shrunk + SHRINK_EVERY_S:
                self._shrunk = now
                self._limit = max(float(LEAST), self._limit * DECREASE)

    def _grant(self) -> None:
        while self._waiting and self._in_flight < self.limit:
            slot = next(iter(self._waiting))
            del self._waiting[slot]
            if slot.set_running_or_notify_cancel():
                self._in_flight += 1
                slot.set_result(None)
