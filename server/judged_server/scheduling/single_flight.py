"""Work that several callers want at once, done once: a question to a model, a call sent again.

No caller owns it: it goes on as long as any of them waits for it, so the caller who began it can
leave without harm to the others. When the last one has left it is cancelled, after a grace if it
has one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

About = TypeVar("About")
Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class Flight(Generic[About, Result]):
    """One piece of work on its way, and what whoever began it says about it.

    `callers` wait for it; `ending` is when it is cancelled, set while nobody does.
    """

    key: str | bytes
    task: asyncio.Task[Result]
    about: About
    callers: int = 0
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
        flight = self._flights[key] = Flight(key, asyncio.create_task(work()), about)
        flight.task.add_done_callback(lambda _: self._end(flight))
        return flight

    async def wait(
        self, flight: Flight[About, Result], timeout_s: float | None = None
    ) -> Result | None:
        """Return what came of the work; None when `timeout_s` seconds were too short for it.

        Raises what the work raised. The last one who waits, when cancelled or out of time, ends it.
        """
        if flight.ending is not None:
            flight.ending.cancel()
            flight.ending = None
        flight.callers += 1
        try:
            await asyncio.wait({flight.task}, timeout=timeout_s)
            return flight.task.result() if flight.task.done() else None
        finally:
            flight.callers -= 1
            if not flight.callers and not flight.task.done():
                grace_s = self._grace_s(flight.about)
                if grace_s > 0:
                    loop = asyncio.get_running_loop()
                    flight.ending = loop.call_later(grace_s, self._end, flight)
                else:
                    self._end(flight)
                    # Whoever sees the caller's end sees that of the work: nothing is left behind.
                    await asyncio.wait({flight.task})

    async def close(self) -> None:
        """End all work that is in flight."""
        tasks = [flight.task for flight in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, flight: Flight[About, Result]) -> None:
        """Forget work that has ended; cancel it where nobody waits for it."""
        if flight.ending is not None:
            flight.ending.cancel()
        if self._flights.get(flight.key) is flight:
            del self._flights[flight.key]
        if not flight.task.cancel() and not flight.task.cancelled():
            flight.task.exception()  # nobody may be left to be told
