"""The one retry loop between a judge and a provider.

A call is tried up to three times. Before another try it waits as long as the provider asked, up to
30 s, or else a random part of .5 s, then 1 s (full jitter, so that callers turned away together do
not come back together). It does not try again when less than a quarter of its time would be left,
or when retries have become a tenth of all calls: a provider in trouble is not finished off.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from typing import TypeVar

from judged_server.llm.clock import Clock
from judged_server.llm.faults import ProviderFault

MAX_TRIES = 3
FIRST_BACKOFF_S = 0.5
LONGEST_WAIT_S = 30.0
LEAST_SHARE_LEFT = 0.25

_T = TypeVar("_T")


class RetryBudget:
    """Begins with room for ten retries; every call earns a tenth of one."""

    def __init__(self, most: float = 10.0, share: float = 0.1) -> None:
        self._most = most
        self._share = share
        self._left = most

    def earn(self) -> None:
        """Note a call."""
        self._left = min(self._most, self._left + self._share)

    def take(self) -> bool:
        """Take one retry; return whether there was one."""
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Retrier:
    """Tries again for one provider."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self._budget = RetryBudget()

    async def run(
        self, attempt: Callable[[float], Awaitable[_T]], timeout_s: float
    ) -> tuple[_T, int]:
        """Return what `attempt` gives, called with the seconds left, and the number of requests.

        Raises the last ProviderFault that came of a request, with the number of requests in it.
        """
        ends = self._clock.now() + timeout_s
        self._budget.earn()
        sent = 0
        last: ProviderFault | None = None
        while True:
            try:
                return await attempt(ends - self._clock.now()), sent + 1
            except ProviderFault as fault:
                if fault.attempts == 0 and last is not None:
                    raise last from None  # it says more than that a call was held back here
                sent += fault.attempts
                fault.attempts = sent
                wait_s = self._wait_s(fault, sent)
                left_s = ends - self._clock.now() - wait_s
                if (
                    sent == 0
                    or sent >= MAX_TRIES
                    or not fault.retryable
                    or left_s < LEAST_SHARE_LEFT * timeout_s
                    or not self._budget.take()
                ):
                    raise
                last = fault
            await self._clock.sleep(wait_s)

    def _wait_s(self, fault: ProviderFault, sent: int) -> float:
        if fault.retry_after_s is not None:
            return min(fault.retry_after_s, LONGEST_WAIT_S)
        return self._random.uniform(0, FIRST_BACKOFF_S * 2.0 ** (sent - 1))


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for; None when it says nothing usable.

    It is a number of seconds or a date (RFC 9110, section 10.2.3); a date in the past is 0.
    """
    if value is None:
        return None
    value = value.strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
        except (ValueError, TypeError, OverflowError, IndexError):
            return None
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        seconds = max(0.0, (date - now).total_seconds())
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
