"""Questions in flight, each asked once, and the callers who wait for them.

Owns who waits for what. A flight belongs to nobody: it goes on as long as anybody waits for it, so
the caller who began it can leave without harm to the others; when the last one leaves it is
cancelled. Leaves what is asked to `asking`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class Flight(Generic[Result]):
    """One question on its way. `ends_at` is when its leader's time is over, on the loop's clock.

    `waiting` has a future for each caller who waits: the question wakes them as its last act.
    """

    task: asyncio.Task[Result]
    ends_at: float
    waiting: list[asyncio.Future[None]] = field(default_factory=list)


class Flights(Generic[Result]):
    """The questions in flight of a server, by key. For the event loop's thread."""

    def __init__(self) -> None:
        self._flights: dict[bytes, Flight[Result]] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def find(self, key: bytes) -> Flight[Result] | None:
        """Return the flight of a question; None when nobody asks it now."""
        flight = self._flights.get(key)
        return None if flight is None or flight.task.done() else flight

    def begin(
        self, key: bytes, ends_at: float, ask: Callable[[], Coroutine[Any, Any, Result]]
    ) -> Flight[Result]:
        """Ask a question that is not in flight; whoever begins it must `wait` for it."""
        flight = Flight(asyncio.create_task(self._fly(key, ask)), ends_at)
        self._flights[key] = flight
        return flight

    async def wait(
        self, key: bytes, flight: Flight[Result], timeout_s: float | None = None
    ) -> Result | None:
        """Return what came of a flight; None when `timeout_s` seconds were too short for it.

        Raises what asking raised. The last one who waits, when cancelled or out of time, ends it.
        """
        task = flight.task
        if task.done():
            return task.result()
        # A future for each, since they leave one by one: dearer shields would do the same.
        woken = asyncio.get_running_loop().create_future()
        flight.waiting.append(woken)
        try:
            if timeout_s is None:
                await woken
            else:
                await asyncio.wait({woken}, timeout=timeout_s)
            return task.result() if task.done() else None
        finally:
            if not task.done():
                flight.waiting.remove(woken)
                if not flight.waiting:
                    self._forget(key, flight)
                    task.cancel()
                    # Whoever sees the caller's end sees that of the question: nothing is left
                    # behind.
                    await asyncio.wait({task})

    async def _fly(self, key: bytes, ask: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        flight = self._flights[key]
        try:
            return await ask()
        finally:
            self._forget(key, flight)
            for woken in flight.waiting:
                if not woken.done():  # else whoever waited is leaving
                    woken.set_result(None)

    def _forget(self, key: bytes, flight: Flight[Result]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
