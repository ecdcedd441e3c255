"""Time as the limits, the breaker and the retries see it, so that tests need not wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime


class Clock:
    """The machine's time."""

    now = staticmethod(time.monotonic)
    """Returns seconds that never jump; only differences mean something."""

    def date(self) -> datetime:
        """Return the date, in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> asyncio.Handle:
        """Call back after so many seconds, on the running event loop."""
        return asyncio.get_running_loop().call_later(seconds, callback)
