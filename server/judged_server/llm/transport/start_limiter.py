"""Work that begins a bounded number at a time, so that the event loop gets to others in between.

What the work is, and how long it goes on, is up to those who begin it.
"""

from __future__ import annotations

import asyncio
from collections import deque


class StartLimiter:
    """Lets `most` begin in each turn of the event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def begin(self) -> None:
        """Return when one more may begin: at once, or in a later turn."""
        if self._begun == self._most:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        else:
            self._count()

    def _count(self) -> None:
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._next)
        self._begun += 1

    def _next(self) -> None:
        self._begun = 0
        while self._waiting and self._begun < self._most:
            turn = self._waiting.popleft()
            if not turn.done():  # else whoever waited has left
                turn.set_result(None)
                self._count()
