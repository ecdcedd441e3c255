"""The requests that wait to be sent to one provider.

Senders take turns by the tokens of their requests, interactive requests before those of batch work
(`scheduling.round_robin`), so that nobody who has much to ask takes all places from the others.
Those of one sender go in the order they came.

A request goes when four agree: the breaker, the rates (those of the operator and that which was
learnt from the provider), the pause that the provider asked for, and the room among the calls under
way. Until then it waits, which costs no request, and fails only when its time can't suffice, when
the key is refused, or when a fallback stands ready (`waits` is false).
"""

from __future__ import annotations

import asyncio
import math
from typing import NamedTuple

from judged_server.llm.config.configured import ProviderConfiguration
from judged_server.llm.faults import ProviderFault, Reason
from judged_server.llm.transport.breaker import Breaker, Permit
from judged_server.llm.transport.clock import Clock
from judged_server.llm.transport.rates import ConcurrencyLimit, LearntRate, RateLimits, Rates
from judged_server.scheduling.round_robin import FairQueue
from judged_server.tenant import current_sender

LONGEST_PAUSE_S = 60.0
"""The longest that a Retry-After is followed; then one more request asks."""
LEAST_PAUSE_S = 1.0
"""The pause after a 429 that names a shorter one, or none."""
FIRST_CALL_S, FIRST_CALL_SHARE = 1.0, 0.25
"""How long others wait for the first call of all, which finds out whether the key is taken, and for
which share of their time at most: a model on a laptop may take a minute to answer."""
UNREACHED_S = 30.0
"""How long a provider that nobody has reached yet is tried: its address may be wrong."""

TURN_TOKENS, REQUEST_TOKENS = 4_096, 512
"""What a sender may use in its turn: a handful of usual questions. A request counts for so many
tokens more, since it takes a place however short it is."""
_LEAST_LATENCY_GROWS = 1.05
"""By how much a reply raises the shortest latency at most, so that it follows a slower provider."""

_JUST_OVER_S = 0.1
"""How long after a pause it is still what a call has waited for."""
_FORBIDDEN, _TOO_MANY = 403, 429
_PRESSED = {_TOO_MANY, 503, 529}
"""Statuses whose Retry-After holds for all calls."""


class Turn(NamedTuple):
    """Leave to send one request; handed back by exactly one method of the queue."""

    number: int
    permit: Permit
    sent_at: float
    tokens: int


class _Waiting(NamedTuple):
    """A call that waits for its turn until `ends`."""

    turn: asyncio.Future[Turn]
    tokens: int
    ends: float
    waits: bool


class RequestQueue:
    """The requests to one provider; used on one event loop."""

    def __init__(self, provider: ProviderConfiguration, clock: Clock) -> None:
        self._name = provider.name
        self._clock = clock
        self._breaker = Breaker(provider.name, clock)
        self._room = ConcurrencyLimit(provider.max_concurrency)
        self._rates = Rates(provider.requests_per_minute, provider.tokens_per_minute, clock)
        self._learnt = LearntRate(clock)
        self._waiting: FairQueue[_Waiting] = FairQueue(TURN_TOKENS)
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        self._first_call_timer: asyncio.TimerHandle | None = None
        self._not_before = -math.inf
        self._reached = False
        self._unreached_since: float | None = None
        self._mean_latency_s = 0.0
        self._least_latency_s = 0.0

    def __len__(self) -> int:
        """Return how many calls wait."""
        return sum(not waiting.turn.done() for waiting in self._waiting)

    @property
    def in_flight(self) -> int:
        """How many requests are under way."""
        return self._room.in_flight

    @property
    def room(self) -> int:
        """How many requests may be under way."""
        return self._room.limit

    @property
    def key_problem(self) -> str:
        """What to do about the key that the provider refused, "" when it did not."""
        cause = self._breaker.cause
        refused = cause is not None and cause.reason is Reason.PROVIDER_REFUSED_KEY
        return cause.message if cause is not None and refused else ""

    @property
    def is_unhealthy(self) -> bool:
        """Whether all requests wait for the provider to recover."""
        return self._breaker.is_open

    async def turn(self, tokens: int, ends: float, *, waits: bool = True) -> Turn:
        """Return once a request of so many tokens may be sent, before `ends` of the clock.

        Raises ProviderFault, of no attempt, when it may not.
        """
        left_s = ends - self._clock.now()
        if (fault := self._permanent(ends, waits)) is not None:
            raise fault
        if not len(self._waiting) and self._room.has_room and self._wait_s() <= 0:
            return self._begin(tokens)
        future: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._waiting.put(_Waiting(future, tokens, ends, waits), current_sender())
        self._wait_for_first(min(FIRST_CALL_S, FIRST_CALL_SHARE * left_s))
        self._wake()
        try:
            async with asyncio.timeout(left_s):
                return await future
        except BaseException as error:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.dropped(future.result())  # the turn came together with the end
            if isinstance(error, TimeoutError):
                raise self._out_of_time() from None
            raise

    def answered(self, turn: Turn, tokens: int, limits: RateLimits | None) -> None:
        """End a request with a reply that took so many tokens, 0 when it doesn't say."""
        self._reached = True
        latency_s = self._clock.now() - turn.sent_at
        self._mean_latency_s += 0.2 * (latency_s - self._mean_latency_s)
        least_s = self._least_latency_s * _LEAST_LATENCY_GROWS
        self._least_latency_s = min(latency_s, least_s) if least_s else latency_s
        self._room.succeeded()
        self._breaker.succeeded(turn.permit)
        if tokens:
            self._rates.pay(0, tokens - turn.tokens)
        if limits is not None:
            self._follow(limits)
        self._wake()

    def failed(self, turn: Turn, fault: ProviderFault, *, full_time: bool) -> None:
        """End a request with a fault; the provider had all its time when `full_time`.

        A time-out counts only then: a caller's short deadline is no news of the provider. A
        request that was understood and turned down shows that it works; so does a 429.
        """
        late = fault.reason is Reason.TIMEOUT
        limited = fault.status == _TOO_MANY
        if limited and fault.retryable:
            pause_s = max(fault.retry_after_s or 0.0, LEAST_PAUSE_S)
            self._pause(pause_s)
            self._learnt.refused(turn.sent_at, min(pause_s, LONGEST_PAUSE_S))
        elif fault.retry_after_s is not None and fault.status in _PRESSED:
            self._pause(fault.retry_after_s)
        if (late and full_time) or limited:
            rate = self._learnt.per_second() or 0.0
            self._room.pressed(turn.number, math.ceil(rate * self._mean_latency_s))
        else:
            self._room.ended()
        self._reached = self._reached or not (late or fault.reason is Reason.PROVIDER_UNREACHABLE)
        if late and not full_time:
            self._breaker.dropped(turn.permit)
        elif fault.reason in {Reason.RATE_LIMITED, Reason.PROVIDER_ERROR} and (
            limited or not (fault.retryable or fault.status == _FORBIDDEN)
        ):
            self._breaker.succeeded(turn.permit)
        else:
            self._breaker.failed(turn.permit, fault, refuse=self._never_reached(fault))
        if self._breaker.is_open:
            for waiting in self._waiting:
                if not waiting.waits and not waiting.turn.done():
                    waiting.turn.set_exception(self._unhealthy())
        self._wake()

    def dropped(self, turn: Turn) -> None:
        """End a request that says nothing of the provider: its caller has left, say."""
        self._room.ended()
        self._breaker.dropped(turn.permit)
        self._wake()

    def unsent(self, turn: Turn) -> None:
        """End a request that was not sent after all."""
        self._rates.pay(-1, -turn.tokens)
        self.dropped(turn)

    def _begin(self, tokens: int) -> Turn:
        self._rates.pay(1, tokens)
        self._learnt.sent()
        return Turn(self._room.begin(), self._breaker.begin(), self._clock.now(), tokens)

    def _wait_s(self) -> float:
        """Return the seconds until the next request may go, were there room for it."""
        return max(
            self._breaker.wait_s(),
            self._rates.wait_s(),
            self._learnt.wait_s(),
            self._not_before - self._clock.now(),
        )

    def _permanent(self, ends: float, waits: bool) -> ProviderFault | None:
        """Return why a call need not wait at all."""
        if (refusal := self._breaker.refusal()) is not None:
            return refusal
        if self._breaker.is_open and not waits:
            return self._unhealthy()
        wait_s = self._wait_s()
        if math.isinf(wait_s) or self._clock.now() + wait_s <= ends:
            return None
        return self._out_of_time()

    def _wake(self) -> None:
        """Give their turns to those who may go now; come back when the next one may."""
        while (head := self._waiting.first()) is not None:
            if head.turn.done():  # it was cancelled, or turned away
                self._waiting.take(0)
                continue
            fault = self._breaker.refusal()
            if fault is None and (head.ends <= self._clock.now() or self._is_late(head)):
                fault = self._out_of_time()
            if fault is not None:
                self._waiting.take(0)
                head.turn.set_exception(fault)
                continue
            if not self._room.has_room:
                return
            if (wait_s := self._wait_s()) > 0:
                self._wake_in(wait_s)
                return
            self._waiting.take(head.tokens + REQUEST_TOKENS)
            head.turn.set_result(self._begin(head.tokens))

    def _is_late(self, head: _Waiting) -> bool:
        """Say whether a request has less time than any reply takes, and others can go instead.

        It would be late, and paid for. The last one is sent all the same: the provider may have
        become faster.
        """
        if len(self._waiting) == 1 or not self._room.has_room:
            return False
        return head.ends - self._clock.now() < self._least_latency_s

    def _wake_in(self, seconds: float) -> None:
        if math.isinf(seconds):
            return  # the outcome of a request wakes
        at = self._clock.now() + seconds
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._clock.call_later(seconds, self._timer_ends)

    def _timer_ends(self) -> None:
        self._timer = None
        self._wake()

    def _wait_for_first(self, seconds: float) -> None:
        """Wait for the first call of all no longer than so many seconds from now."""
        if not self._breaker.waits_for_first:
            return
        loop = asyncio.get_running_loop()
        if self._first_call_timer is not None:
            if self._first_call_timer.when() <= loop.time() + seconds:
                return
            self._first_call_timer.cancel()
        self._first_call_timer = loop.call_later(seconds, self._first_call_is_late)

    def _first_call_is_late(self) -> None:
        self._first_call_timer = None
        self._breaker.stop_waiting_for_first()
        self._wake()

    def _pause(self, seconds: float) -> None:
        until = self._clock.now() + min(seconds, LONGEST_PAUSE_S)
        self._not_before = max(self._not_before, until)

    def _follow(self, limits: RateLimits) -> None:
        """Spread what the provider's headers leave over the time for which it must suffice."""
        if limits.remaining > self._room.in_flight + len(self._waiting):
            return
        self._learnt.told(max(limits.limit - limits.remaining, 1) / max(limits.reset_s, 0.1))
        if limits.remaining == 0:
            self._pause(min(limits.reset_s, max(1.0, limits.reset_s / max(limits.limit, 1))))

    def _never_reached(self, fault: ProviderFault) -> bool:
        """Whether nobody has reached the provider for so long that its address may be wrong."""
        if self._reached or fault.reason is not Reason.PROVIDER_UNREACHABLE:
            return False
        now = self._clock.now()
        if self._unreached_since is None:
            self._unreached_since = now
        return now - self._unreached_since >= UNREACHED_S or not fault.retryable

    def _unhealthy(self) -> ProviderFault:
        return ProviderFault(
            Reason.BREAKER_OPEN,
            f"provider {self._name} keeps failing and is asked again in some seconds",
            retryable=True,
            attempts=0,
        )

    def _out_of_time(self) -> ProviderFault:
        """Return the fault of a call whose time is over, or can't suffice."""
        now, name = self._clock.now(), f"provider {self._name}"
        if self._breaker.is_open:
            return ProviderFault(
                Reason.BREAKER_OPEN,
                f"{name} kept failing for as long as the call could wait",
                retryable=True,
                attempts=0,
            )
        limited_s = max(self._rates.wait_s(), self._learnt.wait_s())
        if limited_s > 0 or now - self._not_before < _JUST_OVER_S:
            return ProviderFault(
                Reason.RATE_LIMITED,
                f"{name}: it asked to be left alone, or its requests_per_minute or "
                "tokens_per_minute are used up, for longer than the call may take",
                retryable=True,
                attempts=0,
            )
        what = (
            "nobody could be asked within the call's time"
            if self._room.has_room
            else "its max_concurrency is used up for longer than the call may take"
        )
        return ProviderFault(Reason.TIMEOUT, f"{name}: {what}", retryable=True, attempts=0)
