"""How many requests and tokens a minute a provider gets: as configured, and as it takes them.

The operator's rates are buckets that may fall into debt: a call goes when the bucket is not in
debt, and then pays. A tenth of a second's worth may go at once, one call at least: a provider that
counts by the second takes no more. What a provider takes is learnt from its 429s.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from judged_server.llm.transport.clock import Clock

_AT_ONCE_S = 0.1
"""The seconds of a rate that may be used at once."""
_LATE_S = 0.002
"""How late a timer may be without a request less."""
_HIGHEST_RATE = 1e6

SHARE_OF_LEARNT = 0.95
"""What is used of a rate that a provider has shown to take."""
LEAST_SHARE_A_LESSON = 0.7
HOLD_S, DOUBLES_S = 10.0, 30.0
"""How long a learnt rate holds, and in which time it then doubles: limits may have been raised, and
others who share them may have ended."""


class Bucket:
    """One rate."""

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._per_second = per_minute / 60
        self._clock = clock
        self._most = max(_AT_ONCE_S * self._per_second, 1.0)
        self._level = self._most
        self._read_at = clock.now()

    def wait_s(self) -> float:
        """Return the seconds until the bucket is out of debt."""
        now = self._clock.now()
        self._level = min(self._most, self._level + (now - self._read_at) * self._per_second)
        self._read_at = now
        # A whole request must be there; of tokens one will do, since a call may be of any size.
        return max(0.0, (1.0 - self._level) / self._per_second)

    def pay(self, amount: float) -> None:
        """Take an amount out; a negative one gives back."""
        self._level = min(self._most, self._level - amount)


class Rates:
    """The rates of one provider; None for no limit."""

    def __init__(self, requests: float | None, tokens: float | None, clock: Clock) -> None:
        self._requests = None if requests is None else Bucket(requests, clock)
        self._tokens = None if tokens is None else Bucket(tokens, clock)

    def wait_s(self) -> float:
        """Return the seconds until the next call may go."""
        return max(
            0.0 if self._requests is None else self._requests.wait_s(),
            0.0 if self._tokens is None else self._tokens.wait_s(),
        )

    def pay(self, requests: int, tokens: float) -> None:
        """Take a call out, or correct one that was."""
        if self._requests is not None:
            self._requests.pay(requests)
        if self._tokens is not None:
            self._tokens.pay(tokens)


class GrowingRate:
    """A rate of requests that doubles every `doubles_s` seconds, after `hold_s` seconds."""

    def __init__(
        self, per_second: float, doubles_s: float, clock: Clock, hold_s: float = 0.0
    ) -> None:
        self._first = per_second
        self._doubles_s = doubles_s
        self._clock = clock
        self._grows_at = clock.now() + hold_s
        self._next_at = clock.now()

    def per_second(self) -> float:
        """Return the requests a second that may go now."""
        doublings = max(0.0, self._clock.now() - self._grows_at) / self._doubles_s
        return min(self._first * math.exp2(min(doublings, 64.0)), _HIGHEST_RATE)

    def wait_s(self) -> float:
        """Return the seconds until the next request may go."""
        return max(0.0, self._next_at - self._clock.now())

    def take(self) -> None:
        """Note that a request goes now."""
        begins = max(self._next_at, self._clock.now() - _LATE_S)
        self._next_at = begins + 1.0 / self.per_second()


class LearntRate:
    """The rate at which a provider takes requests, learnt from what it took before it said 429.

    Without a 429 there is no limit.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rate: GrowingRate | None = None
        self._learnt_at = 0.0
        self._since = clock.now()
        self._taken = 0
        self._taken_before, self._span_before_s = 0, 1.0

    def per_second(self) -> float | None:
        """Return the requests a second that may go now, None for no limit."""
        return None if self._rate is None else self._rate.per_second()

    def wait_s(self) -> float:
        """Return the seconds until the next request may go."""
        return 0.0 if self._rate is None else self._rate.wait_s()

    def sent(self) -> None:
        """Note a request that goes now."""
        now = self._clock.now()
        if self._taken == 0 or now - self._since > 2 * HOLD_S:
            self._since, self._taken = max(self._since, now), 0
        self._taken += 1
        if self._rate is not None:
            self._rate.take()

    def refused(self, sent_at: float, pause_s: float) -> None:
        """Note a 429 to a request that was sent at `sent_at`; nothing is sent for `pause_s`."""
        if self._rate is not None and sent_at < self._learnt_at:
            # Of the requests of the last lesson one less was taken than it looked like then.
            self._taken_before -= 1
            learnt = SHARE_OF_LEARNT * max(self._taken_before, 1) / self._span_before_s
            if learnt < self._rate.per_second():
                self._hold(learnt)
            return
        now = self._clock.now()
        self._taken -= 1
        # A provider that counts by the minute and asks for 50 s has taken a minute's requests.
        span_s = max(now - self._since, pause_s, 1.0)
        learnt = SHARE_OF_LEARNT * max(self._taken, 1) / span_s
        if self._rate is not None:
            # One refusal soon after another says little of the rate.
            known = self._rate.per_second()
            learnt = min(max(learnt, LEAST_SHARE_A_LESSON * known), SHARE_OF_LEARNT * known)
        self._taken_before, self._span_before_s = self._taken, span_s
        self._taken, self._since, self._learnt_at = 0, now + pause_s, now
        self._hold(learnt)

    def told(self, per_second: float) -> None:
        """Note the rate that the provider's own headers tell."""
        known = self.per_second()
        if known is None or per_second < known:
            self._hold(per_second)

    def _hold(self, per_second: float) -> None:
        self._rate = GrowingRate(per_second, DOUBLES_S, self._clock, HOLD_S)


class ConcurrencyLimit:
    """The limit of one provider and key, between 1 and `maximum`."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._begun = 0
        self._halved_at = 0
        self._successes = 0
        self.limit = maximum
        self.in_flight = 0

    @property
    def has_room(self) -> bool:
        """Whether a call may begin now."""
        return self.in_flight < self.limit

    def begin(self) -> int:
        """Begin a call for which there is room; return its number."""
        self.in_flight += 1
        self._begun += 1
        return self._begun

    def succeeded(self) -> None:
        """End a call that was answered."""
        self._successes += self.in_flight >= self.limit
        if self._successes >= self.limit:
            self._successes = 0
            self.limit = min(self.limit + 1, self._maximum)
        self.ended()

    def pressed(self, number: int, least: int = 1) -> None:
        """End a call for which the provider had no room; the limit stays at `least` or above."""
        if number > self._halved_at:
            self._halved_at = self._begun
            self._successes = 0
            self.limit = min(max(1, least, self.limit // 2), self.limit)
        self.ended()

    def ended(self) -> None:
        """End a call that says nothing of the provider's room."""
        self.in_flight -= 1


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
