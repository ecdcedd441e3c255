"""The circuit breaker: when a provider that fails is asked again, and how many requests come then.

    unknown --the first request is answered, or takes long--> closed
    closed --14 of the last 16 requests failed--> open, for .5 s
    open --the time is up--> half open: one request probes, all others wait
    half open --the probe succeeds--> closed; --fails--> open, for a quarter of the outage so far,
        between 1 and 15 s
    any --the key is refused--> refusing: requests fail at once, for 5 s and then up to 60 s

The last 16 requests are those sent up to the latest that has ended, and what is under way among
them counts as good: a failure comes sooner than an answer, so that the first outcomes of a burst
are nearly all failures even where one request in five fails. Once closed, requests begin at 50 a
second, twice as many every tenth of a second, so that a limit that the provider has is met by few
of them.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from judged_server.llm.faults import ProviderFault, Reason
from judged_server.llm.transport.clock import Clock
from judged_server.llm.transport.rates import GrowingRate
from judged_server.telemetry import logger

WINDOW, FAILED_OF_WINDOW = 16, 14
FIRST_COOL_DOWN_S, LEAST_COOL_DOWN_S, LONGEST_COOL_DOWN_S = 0.5, 1.0, 15.0
COOL_DOWN_SHARE = 0.25
"""The pause between two probes, as a share of the outage so far."""
FIRST_REFUSAL_S, LONGEST_REFUSAL_S = 5.0, 60.0
FIRST_RATE, RATE_DOUBLES_S, FULL_RATE = 50.0, 0.1, 2000.0

_log = logger("llm")


class _State(Enum):
    UNKNOWN = auto()
    CLOSED = auto()
    OPEN = auto()
    REFUSING = auto()


class Permit(NamedTuple):
    """Leave to send one request. `generation` counts the changes of state before it was given."""

    generation: int
    number: int
    probe: bool


class Breaker:
    """The breaker of one provider. `cause` is the fault that opened it, None while it is closed."""

    def __init__(self, provider: str, clock: Clock) -> None:
        self._provider = provider
        self._clock = clock
        self._state = _State.UNKNOWN
        self._generation = 0
        self._begun = 0
        self._latest_ended = 0
        self._failed = [False] * WINDOW
        self._open_until = 0.0
        self._failing_since = 0.0
        self._refusal_s = FIRST_REFUSAL_S
        self._probing = False
        self._growth: GrowingRate | None = None
        self.cause: ProviderFault | None = None

    @property
    def waits_for_first(self) -> bool:
        """Whether the first request of all is under way."""
        return self._state is _State.UNKNOWN and self._probing

    @property
    def is_open(self) -> bool:
        """Whether requests have to wait for the provider to recover."""
        if self._state is not _State.OPEN:
            return False
        return self._probing or self._clock.now() < self._open_until

    def refusal(self) -> ProviderFault | None:
        """Return the fault with which requests end at once: a refused key, say. None: they wait."""
        if self._state is not _State.REFUSING or self.cause is None:
            return None
        if not self._probing and self._clock.now() >= self._open_until:
            return None
        cause = self.cause
        return ProviderFault(
            cause.reason, cause.message, retryable=cause.retryable, status=cause.status, attempts=0
        )

    def wait_s(self) -> float:
        """Return the seconds until a request may go; infinite while the outcome of one decides."""
        if self._state is _State.CLOSED:
            return 0.0 if self._growth is None else self._growth.wait_s()
        if self._probing:
            return float("inf")
        return max(0.0, self._open_until - self._clock.now())

    def begin(self) -> Permit:
        """Return leave to send a request, to be handed back by exactly one of the methods below.

        For when `wait_s` is 0.
        """
        probe = self._state is not _State.CLOSED
        self._probing = self._probing or probe
        if self._growth is not None:
            self._growth.take()
            if self._growth.per_second() > FULL_RATE:
                self._growth = None
        self._begun += 1
        return Permit(self._generation, self._begun, probe)

    def stop_waiting_for_first(self) -> None:
        """Let others go though nobody knows yet what comes of the first request."""
        if self._state is _State.UNKNOWN:
            self._close()

    def succeeded(self, permit: Permit) -> None:
        """Note that the provider works."""
        self._end(permit)
        if permit.probe and permit.generation == self._generation:
            if self._state is not _State.UNKNOWN:
                _log.info("breaker closed", provider=self._provider)
            self._close()

    def failed(self, permit: Permit, fault: ProviderFault, *, refuse: bool = False) -> None:
        """Note a failure that speaks against the provider as a whole.

        `refuse`: so does waiting; all requests are to fail with this fault for a while.
        """
        if permit.generation != self._generation:
            return  # a request from before the last change says nothing of the time after it
        refuse = refuse or fault.reason is Reason.PROVIDER_REFUSED_KEY
        if not permit.probe and not refuse:
            self._end(permit)
            if permit.number > self._latest_ended - WINDOW:
                self._failed[permit.number % WINDOW] = True
            if sum(self._failed) < FAILED_OF_WINDOW:
                return
        self._open(fault, refuse)

    def dropped(self, permit: Permit) -> None:
        """Note a request that ended without saying anything of the provider, cancelled say."""
        if permit.probe and permit.generation == self._generation:
            self._probing = False

    def _open(self, fault: ProviderFault, refuse: bool) -> None:
        now = self._clock.now()
        if refuse:
            if self._state is not _State.REFUSING:
                self._refusal_s = FIRST_REFUSAL_S
            cool_down_s = self._refusal_s
            self._refusal_s = min(2 * self._refusal_s, LONGEST_REFUSAL_S)
        elif self._state is _State.OPEN:
            lasted_s = COOL_DOWN_SHARE * (now - self._failing_since)
            cool_down_s = min(max(LEAST_COOL_DOWN_S, lasted_s), LONGEST_COOL_DOWN_S)
        else:
            self._failing_since = now
            cool_down_s = FIRST_COOL_DOWN_S
        self._enter(_State.REFUSING if refuse else _State.OPEN)
        self._open_until = now + cool_down_s
        self.cause = fault
        _log.warning(
            "breaker open", provider=self._provider, seconds=cool_down_s, reason=str(fault.reason)
        )

    def _close(self) -> None:
        self._enter(_State.CLOSED)
        self._failed = [False] * WINDOW
        self._growth = GrowingRate(FIRST_RATE, RATE_DOUBLES_S, self._clock)
        self.cause = None

    def _end(self, permit: Permit) -> None:
        """Move the window up to a request that has ended."""
        first = max(self._latest_ended + 1, permit.number - WINDOW + 1)
        for number in range(first, permit.number + 1):
            self._failed[number % WINDOW] = False
        self._latest_ended = max(self._latest_ended, permit.number)

    def _enter(self, state: _State) -> None:
        self._state = state
        self._generation += 1
        self._probing = False
