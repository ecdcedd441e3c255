"""How many messages a client has in flight: more while the server answers, fewer when it is busy.

Additive increase, multiplicative decrease, as TCP does it (Chiu and Jain, 1989). A caller who sends
thousands of calls at once then waits here, in the order of its calls, in place of being turned away
over and over; and callers of one server come to have about the same.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
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
        self._waiting: dict[object, Callable[[], object]] = {}
        """Who waits, in order, and how to wake them: they have a slot then."""
        self._shrunk = 0.0
        self._lock = threading.Lock()

    @property
    def limit(self) -> int:
        """The most messages in flight now."""
        return int(self._limit)

    def take(self, seconds: float) -> bool:
        """Wait for a slot; say whether there was one in time."""
        granted = threading.Event()
        if self._took_or_waits(granted, granted.set):
            return True
        try:
            in_time = granted.wait(seconds)
        except BaseException:  # Ctrl-C: else the slot would go to nobody
            if not self._stopped_waiting(granted):
                self.release()
            raise
        return in_time or not self._stopped_waiting(granted)

    async def async_take(self, seconds: float) -> bool:
        """Wait for a slot on an event loop; say whether there was one in time."""
        loop = asyncio.get_running_loop()
        granted: asyncio.Future[None] = loop.create_future()

        def grant() -> None:
            if not granted.done():
                granted.set_result(None)

        if self._took_or_waits(granted, lambda: loop.call_soon_threadsafe(grant)):
            return True
        try:
            async with asyncio.timeout(seconds):
                await granted
        except TimeoutError:
            return not self._stopped_waiting(granted)
        except asyncio.CancelledError:
            if not self._stopped_waiting(granted):
                self.release()
            raise
        return True

    def release(self) -> None:
        """Give a slot back."""
        with self._lock:
            self._in_flight -= 1
            self._grant()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Give a slot back that was taken, at the end of a `with`."""
        try:
            yield
        finally:
            self.release()

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

    def _took_or_waits(self, who: object, wake: Callable[[], object]) -> bool:
        """Take a slot if there is one, else get in line; say which."""
        with self._lock:
            if self._in_flight < self.limit and not self._waiting:
                self._in_flight += 1
                return True
            self._waiting[who] = wake
            return False

    def _stopped_waiting(self, who: object) -> bool:
        """Leave the line; say whether that was before there was a slot."""
        with self._lock:
            return self._waiting.pop(who, None) is not None

    def _grant(self) -> None:
        while self._waiting and self._in_flight < self.limit:
            self._in_flight += 1
            self._waiting.pop(next(iter(self._waiting)))()
