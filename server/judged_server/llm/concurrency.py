"""How many calls a provider gets at once: fewer when it is pressed, one more when all goes well.

Additive increase, multiplicative decrease, as TCP does it (Chiu and Jain, Computer Networks and
ISDN Systems 17, 1989): the limit is halved when the provider says 429 or runs out of time, at most
once for the calls that were then under way, and grows by one when as many calls as it allows have
succeeded at the limit. Owns that limit and the queue before it.
"""

from __future__ import annotations

import asyncio
from collections import deque


class ConcurrencyLimit:
    """The limit of one provider and key, between 1 and `maximum`."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._begun = 0
        self._halved_at = 0
        self._successes = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.limit = maximum
        self.in_flight = 0

    def try_begin(self) -> int | None:
        """Return the number of the call that may begin now; None when it has to wait."""
        if self.in_flight >= self.limit or self._waiting:
            return None
        return self._begin()

    async def begin(self) -> int:
        """Return the number of the call, once it may begin; first come, first served."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._wake()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the turn came together with the cancel
                self.ended()
            raise
        self._begun += 1
        return self._begun

    def succeeded(self) -> None:
        """End a call that was answered."""
        self._successes += self.in_flight >= self.limit
        if self._successes >= self.limit:
            self._successes = 0
            self.limit = min(self.limit + 1, self._maximum)
        self.ended()

    def pressed(self, number: int) -> None:
        """End a call for which the provider had no room."""
        if number > self._halved_at:
            self._halved_at = self._begun
            self._successes = 0
            self.limit = max(1, self.limit // 2)
        self.ended()

    def ended(self) -> None:
        """End a call that says nothing of the provider's room."""
        self.in_flight -= 1
        self._wake()

    def _begin(self) -> int:
        self.in_flight += 1
        self._begun += 1
        return self._begun

    def _wake(self) -> None:
        while self._waiting and self.in_flight < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():  # else it was cancelled
                self.in_flight += 1
                turn.set_result(None)
