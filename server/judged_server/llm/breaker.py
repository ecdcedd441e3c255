"""The circuit breaker: leaves a provider alone that keeps failing, and asks it now and then.

    closed --5 failures in a row, or a refused key--> open, for 5 s
    open --the time is up--> half open: one call probes, all others are turned away
    half open --the probe succeeds--> closed; --fails--> open, for twice as long, up to 60 s

Owns when a provider is asked at all. Which failures count is up to `endpoint`.
"""

from __future__ import annotations

from typing import NamedTuple

from judged_server.llm.clock import Clock
from judged_server.llm.faults import ProviderFault, Reason
from judged_server.telemetry import logger

FAILURES_IN_A_ROW = 5
FIRST_COOL_DOWN_S = 5.0
LONGEST_COOL_DOWN_S = 60.0

_log = logger("llm")


class Pass(NamedTuple):
    """Leave to ask once. `era` is the state's number when it was given."""

    era: int
    probe: bool


class Breaker:
    """The breaker of one provider. `cause` is the fault that opened it, None while it is closed."""

    def __init__(self, provider: str, clock: Clock) -> None:
        self._provider = provider
        self._clock = clock
        self._failures = 0
        self._cool_down_s = FIRST_COOL_DOWN_S
        self._open_until: float | None = None
        self._probing = False
        self.cause: ProviderFault | None = None
        self._era = 0

    def refuse_if_open(self) -> None:
        """Raise ProviderFault when `admit` would."""
        if self._open_until is None:
            return
        if self._probing or self._clock.now() < self._open_until:
            raise self._refusal()

    def admit(self) -> Pass:
        """Return leave to ask, to be handed back by exactly one of the methods below.

        Raises ProviderFault without delay: with the reason PROVIDER_REFUSED_KEY when the key was
        refused, else BREAKER_OPEN.
        """
        self.refuse_if_open()
        self._probing = self._open_until is not None
        return Pass(self._era, self._probing)

    def succeeded(self, leave: Pass) -> None:
        """Note that the provider works."""
        if leave.probe:
            self._open_until, self._probing, self.cause = None, False, None
            self._cool_down_s = FIRST_COOL_DOWN_S
            self._era += 1
            _log.info("breaker closed", provider=self._provider)
        if leave.era == self._era or leave.probe:
            self._failures = 0

    def failed(self, leave: Pass, fault: ProviderFault) -> None:
        """Note a failure that speaks against the provider as a whole."""
        if leave.era != self._era:
            return  # a call from before the last change says nothing of the time after it
        self._failures += 1
        refused = fault.reason is Reason.PROVIDER_REFUSED_KEY
        if leave.probe:
            self._cool_down_s = min(2 * self._cool_down_s, LONGEST_COOL_DOWN_S)
        if leave.probe or refused or self._failures >= FAILURES_IN_A_ROW:
            self._open_until = self._clock.now() + self._cool_down_s
            self._probing, self._failures, self.cause = False, 0, fault
            self._era += 1
            _log.warning(
                "breaker open",
                provider=self._provider,
                seconds=self._cool_down_s,
                reason=str(fault.reason),
            )

    def dropped(self, leave: Pass) -> None:
        """Note a call that ended without saying anything of the provider, cancelled say."""
        if leave.probe and leave.era == self._era:
            self._probing = False

    def _refusal(self) -> ProviderFault:
        cause = self.cause
        if cause is not None and cause.reason is Reason.PROVIDER_REFUSED_KEY:
            return ProviderFault(
                cause.reason, cause.message, retryable=False, status=cause.status, attempts=0
            )
        return ProviderFault(
            Reason.BREAKER_OPEN,
            f"provider {self._provider} keeps failing and is left alone for some seconds",
            retryable=True,
            attempts=0,
        )
