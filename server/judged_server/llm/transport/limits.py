"""What holds requests to one provider back: a rate, a window and a breaker.

Rate      the operator's requests_per_minute and tokens_per_minute, and the pauses that the
provider asks for by a 429
Window    how many may be under way: one more after a window of successes, half as many after a
429 or a time-out
Breaker   closed --14 of the last 16 requests failed--> open, for .5 s
open --the time is up--> one request probes, all others wait
--the probe succeeds--> closed; --fails--> open, for a quarter of the outage so far,
between 1 and 15 s
any --the key is refused--> requests fail at once, for 5 s and then up to 60 s
"""

from __future__ import annotations

import math
from collections import deque
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from judged_server.llm.chat import ProviderFault, Reason
from judged_server.llm.transport.clock import Clock
from judged_server.telemetry import logger

LONGEST_PAUSE_S = 60.0
"""The longest that a Retry-After is followed; then one more request asks."""
AT_ONCE_S = 0.1
"""The seconds of a rate that may be used at once: a provider may count by the second."""

WINDOW, FAILED_OF_WINDOW = 16, 14
FIRST_COOL_DOWN_S, LEAST_COOL_DOWN_S, LONGEST_COOL_DOWN_S = 0.5, 1.0, 15.0
COOL_DOWN_SHARE = 0.25
"""The pause between two probes, as a share of the outage so far."""
FIRST_REFUSAL_S, LONGEST_REFUSAL_S = 5.0, 60.0

_log = logger("llm")


class Rate:
    """When the next request may go. None for no limit.

    A request goes once what went before is worked off, whatever its own size.
    """

    def __init__(self, requests: float | None, tokens: float | None, clock: Clock) -> None:
        """Let so many requests and tokens go in a minute."""
        self._clock = clock
        per_minute = (requests or math.inf, tokens or math.inf)
        self._per_second = tuple(each / 60 for each in per_minute)
        self._worked_off = [-math.inf, -math.inf]
        self._paused_until = -math.inf

    @property
    def wait_s(self) -> float:
        """The seconds until a request may go."""
        return max(0.0, max(*self._worked_off, self._paused_until) - self._clock.now())

    def pay(self, requests: int, tokens: float) -> None:
        """Count a request that goes, or correct the count of one that went."""
        for at, amount in enumerate((requests, tokens)):
            per_second = self._per_second[at]
            spare_s = max(0.0, AT_ONCE_S - 1 / per_second)
            begins = max(self._worked_off[at], self._clock.now() - spare_s)
            self._worked_off[at] = begins + amount / per_second

    def pause(self, seconds: float) -> None:
        """Let nothing go for as long as the provider asked for, within bounds."""
        until = self._clock.now() + min(seconds, LONGEST_PAUSE_S)
        self._paused_until = max(self._paused_until, until)


class Window:
    """How many requests may be under way, between 1 and `maximum`."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._begun = 0
        self._halved_at = 0
        self._successes = 0
        self.limit = maximum
        self.in_flight = 0

    @property
    def has_room(self) -> bool:
        """Whether a request may begin now."""
        return self.in_flight < self.limit

    def begin(self) -> int:
        """Begin a request for which there is room; return its number."""
        self.in_flight += 1
        self._begun += 1
        return self._begun

    def succeeded(self) -> None:
        """End a request that was answered."""
        self._successes += self.in_flight >= self.limit
        if self._successes >= self.limit:
            self._successes = 0
            self.limit = min(self.limit + 1, self._maximum)
        self.ended()

    def pressed(self, number: int) -> None:
        """End a request for which the provider had no room; those under way halve it once."""
        if number > self._halved_at:
            self._halved_at = self._begun
            self._successes = 0
            self.limit = max(1, self.limit // 2)
        self.ended()

    def ended(self) -> None:
        """End a request that says nothing of the provider's room."""
        self.in_flight -= 1


class Permit(NamedTuple):
    """Leave to send one request. `generation` counts the changes of state before it was given."""

    generation: int
    probe: bool


class Breaker:
    """The breaker of one provider. `cause` is the fault that opened it, None while it is closed."""

    def __init__(self, provider: str, clock: Clock) -> None:
        self._provider = provider
        self._clock = clock
        self._generation = 0
        self._failed: deque[bool] = deque(maxlen=WINDOW)
        self._refuses = self._probing = False
        self._open_until = self._failing_since = self._cool_down_s = 0.0
        self.cause: ProviderFault | None = None

    @property
    def is_open(self) -> bool:
        """Whether requests have to wait for the provider to recover."""
        return not self._refuses and self.wait_s > 0

    @property
    def wait_s(self) -> float:
        """The seconds until a request may go; infinite while the outcome of one decides."""
        if self.cause is None:
            return 0.0
        return math.inf if self._probing else max(0.0, self._open_until - self._clock.now())

    def refusal(self) -> ProviderFault | None:
        """Return the fault with which requests end at once: a refused key, say. None: they wait."""
        if self.cause is None or not self._refuses or not self.wait_s:
            return None
        reason, message, status = self.cause.reason, self.cause.message, self.cause.status
        retryable = self.cause.retryable
        return ProviderFault(reason, message, retryable=retryable, status=status, attempts=0)

    def begin(self) -> Permit:
        """Return leave to send a request once `wait_s` is 0; one of the methods below ends it."""
        self._probing = self.cause is not None
        return Permit(self._generation, self._probing)

    def succeeded(self, permit: Permit) -> None:
        """Note that the provider works."""
        if permit.generation != self._generation:
            return
        self._failed.append(False)
        if permit.probe:
            _log.info("breaker closed", provider=self._provider)
            self._enter(None)

    def failed(self, permit: Permit, fault: ProviderFault, *, refuse: bool = False) -> None:
        """Note a failure that speaks against the provider as a whole.

        `refuse`: so does waiting; all requests are to fail with this fault for a while.
        """
        if permit.generation != self._generation:
            return  # a request from before the last change says nothing of the time after it
        refuse = refuse or fault.reason is Reason.PROVIDER_REFUSED_KEY
        self._failed.append(True)
        if not (permit.probe or refuse or sum(self._failed) >= FAILED_OF_WINDOW):
            return
        now = self._clock.now()
        if self.cause is None:
            self._failing_since = now
        if refuse:
            twice_s = 2 * self._cool_down_s if self._refuses else FIRST_REFUSAL_S
            self._cool_down_s = min(twice_s, LONGEST_REFUSAL_S)
        elif self.cause is None:
            self._cool_down_s = FIRST_COOL_DOWN_S
        else:
            lasted_s = COOL_DOWN_SHARE * (now - self._failing_since)
            self._cool_down_s = min(max(LEAST_COOL_DOWN_S, lasted_s), LONGEST_COOL_DOWN_S)
        self._enter(fault, refuse)
        self._open_until = now + self._cool_down_s
        _log.warning(
            "breaker open",
            provider=self._provider,
            seconds=self._cool_down_s,
            reason=str(fault.reason),
        )

    def dropped(self, permit: Permit) -> None:
        """Note a request that ended without saying anything of the provider, cancelled say."""
        if permit.probe and permit.generation == self._generation:
            self._probing = False

    def _enter(self, cause: ProviderFault | None, refuses: bool = False) -> None:
        self.cause = cause
        self._refuses = refuses
        self._generation += 1
        self._probing = False
        self._failed.clear()


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
