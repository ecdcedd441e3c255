"""When a call to a provider is tried again, and what a provider's headers say of that.

A call is tried again as long as its caller has time: a failure of the provider is not the item's.
Before another try it waits as long as the provider asked, or else a random part of .5 s, then 1 s,
up to 8 s (full jitter, so that callers turned away together do not come back together). What keeps
a provider in trouble from being finished off is not a number of tries: the breaker stops all
requests to it but a probe, see `breaker`. A provider that did not answer in its time is asked once
more at most, and one that another model stands behind three times.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from typing import NamedTuple, TypeVar

from judged_server.llm.faults import ProviderFault, Reason
from judged_server.llm.transport.clock import Clock

MAX_TRIES_BEFORE_FALLBACK = 3
MAX_TIMEOUTS = 2
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.5, 8.0

_T = TypeVar("_T")


class Retrier:
    """Tries again for one provider. `is_unhealthy` says whether all requests to it wait already."""

    def __init__(self, clock: Clock, random: Random, is_unhealthy: Callable[[], bool]) -> None:
        self._clock = clock
        self._random = random
        self._is_unwell = is_unhealthy

    async def run(
        self, attempt: Callable[[], Awaitable[_T]], ends: float, *, waits: bool = True
    ) -> tuple[_T, int]:
        """Return what `attempt` gives before `ends` of the clock, and the number of requests.

        Raises the last ProviderFault that came of a request, with the number of requests in it.
        """
        sent = timeouts = 0
        last: ProviderFault | None = None
        while True:
            try:
                return await attempt(), sent + 1
            except ProviderFault as fault:
                if fault.attempts == 0 and last is not None:
                    raise last from None  # it says more than that a call was held back here
                sent += fault.attempts
                fault.attempts = sent
                timeouts += fault.reason is Reason.TIMEOUT
                wait_s = self._wait_s(fault, sent)
                if (
                    sent == 0
                    or not fault.retryable
                    or timeouts >= MAX_TIMEOUTS
                    or (sent >= MAX_TRIES_BEFORE_FALLBACK and not waits)
                    or self._clock.now() + wait_s >= ends
                ):
                    raise
                last = fault
            if wait_s > 0:
                await self._clock.sleep(wait_s)

    def _wait_s(self, fault: ProviderFault, sent: int) -> float:
        if fault.status == 429 or self._is_unwell():
            return 0.0  # the queue knows when the next request may go
        if fault.retry_after_s is not None:
            return fault.retry_after_s
        longest_s = min(FIRST_BACKOFF_S * 2.0 ** min(sent - 1, 16), LONGEST_BACKOFF_S)
        return self._random.uniform(0, longest_s)


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


class RateLimits(NamedTuple):
    """How many requests a provider takes, how many of them are left, and when all are again."""

    limit: int
    remaining: int
    reset_s: float


_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")


def rate_limits(headers: Mapping[str, str], now: Callable[[], datetime]) -> RateLimits | None:
    """Return what the headers of a reply tell of requests; None when they tell nothing usable.

    They are OpenAI's (x-ratelimit-remaining-requests: 59, reset in "1s" or "6m0s") and Anthropic's
    (anthropic-ratelimit-requests-remaining, reset as a date of RFC 3339).
    """
    if "x-ratelimit-remaining-requests" in headers:
        names = [f"x-ratelimit-{what}-requests" for what in ("limit", "remaining", "reset")]
    elif "anthropic-ratelimit-requests-remaining" in headers:
        names = [f"anthropic-ratelimit-requests-{what}" for what in ("limit", "remaining", "reset")]
    else:
        return None
    limit, remaining, reset = (headers.get(name, "").strip() for name in names)
    if not (_is_count(limit) and _is_count(remaining)):
        return None
    reset_s = _reset_s(reset, now())
    return None if reset_s is None else RateLimits(int(limit), int(remaining), reset_s)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def _reset_s(text: str, now: datetime) -> float | None:
    found = _DURATION.fullmatch(text) if len(text) <= 32 else None
    if found is not None and text:
        hours, minutes, seconds, thousandths = (float(part or 0) for part in found.groups())
        return 3600 * hours + 60 * minutes + seconds + thousandths / 1000
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    if date.tzinfo is None:
        return None
    return max(0.0, (date - now).total_seconds())
