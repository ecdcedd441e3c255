"""One call before all others, until a provider has taken the key.

A key that is wrong is wrong for every call: so one finds out, and thousands are not sent. Owns who
goes first and how long the others wait. What came of it is known to `breaker`.
"""

from __future__ import annotations

import asyncio

PATIENCE_S, PATIENCE_SHARE = 1.0, 0.25
"""How long others wait for the first call, and for which share of their time at most: a model on a
laptop may take a minute to answer."""


class FirstCall:
    """The first call to one provider; used on one event loop.

    `over` says that any call may go at once, since one has ended otherwise than by a refused key.
    """

    def __init__(self) -> None:
        self.over = False
        self._under_way: asyncio.Future[None] | None = None

    async def turn(self, left_s: float) -> bool:
        """Return when a call that has so much time may go.

        True when it is the first one: it must call `leave` when it has ended.
        """
        now = asyncio.get_running_loop().time
        ends = now() + min(PATIENCE_S, PATIENCE_SHARE * left_s)
        while not self.over:
            if self._under_way is None:
                self._under_way = asyncio.get_running_loop().create_future()
                return True
            if now() >= ends:
                break
            await asyncio.wait({self._under_way}, timeout=ends - now())
        return False

    def leave(self) -> None:
        """End the first call; without an answer one of those who wait takes its place."""
        if self._under_way is not None:
            self._under_way.set_result(None)
            self._under_way = None
