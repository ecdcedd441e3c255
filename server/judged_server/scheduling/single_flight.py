"""Work that several callers want at once, done once: a question to a model, a call sent again.

No caller owns it: it goes on as long as any of them waits for it, so the caller who began it can
leave without harm to the others. When the last one has left it is cancelled, after a grace if it
has one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

About = TypeVar("About")
Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class Flight(Generic[About, Result]):
    """One piece of work on its way, and what whoever began it says about it.

    `waiting` has a future for each caller who waits; `ending` is when it is cancelled, set while
    nobody does.
    """

    task: asyncio.Task[Result]
    about: About
    waiting: list[asyncio.Future[None]] = field(default_factory=list)
    ending: asyncio.TimerHandle | None = None


class SingleFlight(Generic[About, Result]):
    """The work in flight of a server, by key. For the event loop's thread."""

    def __init__(self, grace_s: Callable[[About], float] = lambda _: 0.0) -> None:
        """Let work go on for `grace_s` seconds after its last caller has left."""
        self._grace_s = grace_s
        self._flights: dict[str | bytes, Flight[About, Result]] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def find(self, key: str | bytes) -> Flight[About, Result] | None:
        """Return the work under a key; None when it is not in flight."""
        flight = self._flights.get(key)
        return None if flight is None or flight.task.done() else flight

    def begin(
        self, key: str | bytes, about: About, work: Callable[[], Coroutine[Any, Any, Result]]
    ) -> Flight[About, Result]:
        """Begin work that is not in flight; whoever begins it must `wait` for it."""
        flight = Flight(asyncio.create_task(work()), about)
        self._flights[key] = flight
        flight.task.add_done_callback(lambda _: self._ended(key, flight))
        return flight

    async def wait(
        self, key: str | bytes, flight: Flight[About, Result], timeout_s: float | None = None
    ) -> Result | None:
        """Return what came of the work; None when `timeout_s` seconds were too short for it.

        Raises what the work raised. The last one who waits, when cancelled or out of time, ends it.
        """
        task = flight.task
        if task.done():
            return task.result()
        if flight.ending is not None:
            flight.ending.cancel()
            flight.ending = None
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
                    await self._left(key, flight)

    async def close(self) -> None:
        """End all work that is in flight."""
        tasks = [flight.task for flight in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _left(self, key: str | bytes, flight: Flight[About, Result]) -> None:
        """End work that nobody waits for, now or after its grace."""
        grace_s = self._grace_s(flight.about)
        if grace_s > 0:
            loop = asyncio.get_running_loop()
            flight.ending = loop.call_later(grace_s, self._end, key, flight)
            return
        self._end(key, flight)
        # Whoever sees the caller's end sees that of the work: nothing is left behind.
        await asyncio.wait({flight.task})

    def _end(self, key: str | bytes, flight: Flight[About, Result]) -> None:
        self._forget(key, flight)
        flight.task.cancel()

    def _ended(self, key: str | bytes, flight: Flight[About, Result]) -> None:
        self._forget(key, flight)
        if flight.ending is not None:
            flight.ending.cancel()
        if not flight.waiting and not flight.task.cancelled():
            flight.task.exception()  # nobody is left to be told
        for woken in flight.waiting:
            if not woken.done():  # else whoever waited is leaving
                woken.set_result(None)

    def _forget(self, key: str | bytes, flight: Flight[About, Result]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
