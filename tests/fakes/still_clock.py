"""A clock that stands still until somebody sleeps or moves it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from judged_server.llm.transport.endpoint import Clock

BEGIN = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


class StillClock(Clock):
    """Time that costs none. `slept` holds every sleep, in seconds."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.seconds

    def date(self) -> datetime:
        return BEGIN + timedelta(seconds=self.seconds - 1000.0)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds

    def call_later(self, seconds: float, callback: Callable[[], None]) -> asyncio.Handle:
        due = self.seconds + seconds

        def later() -> None:
            self.seconds = max(self.seconds, due)
            callback()

        return asyncio.get_running_loop().call_soon(later)
