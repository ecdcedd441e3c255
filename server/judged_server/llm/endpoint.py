"""One provider as its models share it: connections, limits, breaker and retries.

Owns the order in which a call meets them, and which outcome is told to whom. What is asked, and
what a reply means, comes in from `models`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

from judged_server.llm.breaker import Breaker, Pass
from judged_server.llm.chat import ChatReply, Receipt
from judged_server.llm.clock import Clock
from judged_server.llm.concurrency import ConcurrencyLimit
from judged_server.llm.configuration import ProviderConfiguration
from judged_server.llm.faults import ProviderFault, Reason
from judged_server.llm.first_call import FirstCall
from judged_server.llm.rates import Rates
from judged_server.llm.retrying import LONGEST_WAIT_S, Retrier, retry_after_s
from judged_server.llm.transport import HttpReply, HttpTransport
from judged_server.telemetry import logger

_FORBIDDEN = 403
_PRESSED = {429, 503}
"""Statuses whose Retry-After holds for all calls."""
_TELL_EVERY_S = 60.0

_log = logger("llm")


class Call(NamedTuple):
    """One question, ready to be sent. `tokens` is an estimate of what it will cost at most.

    `read` makes a reply of a status and a body, or raises ProviderFault.
    """

    path: str
    headers: Mapping[str, str]
    body: bytes
    read: Callable[[int, bytes], ChatReply]
    tokens: int
    receipt: Receipt | None = None


class Endpoint:
    """A provider that can be asked."""

    def __init__(
        self,
        provider: ProviderConfiguration,
        clock: Clock,
        random: Random,
        transport: HttpTransport,
    ) -> None:
        self._provider = provider
        self._clock = clock
        self._transport = transport
        self._breaker = Breaker(provider.name, clock)
        self._room = ConcurrencyLimit(provider.max_concurrency)
        self._rates = Rates(provider.requests_per_minute, provider.tokens_per_minute, clock)
        self._retrier = Retrier(clock, random)
        self._first = FirstCall()
        self._key_taken = False
        self._not_before = 0.0
        self._told: dict[object, float] = {}

    @property
    def problem(self) -> str:
        """Why no model of it can be asked now, "" when they can: its key was refused."""
        cause = self._breaker.cause
        if cause is None or cause.reason is not Reason.PROVIDER_REFUSED_KEY:
            return ""
        return cause.message

    async def ask(self, call: Call, timeout_s: float) -> tuple[ChatReply, int]:
        """Return the reply and the number of requests it took, within `timeout_s` seconds.

        Raises ProviderFault.
        """
        attempt = self._attempt if self._first.over else self._attempt_in_turn
        return await self._retrier.run(lambda left_s: attempt(call, left_s), timeout_s)

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def _attempt_in_turn(self, call: Call, left_s: float) -> ChatReply:
        """Ask while nobody knows whether the key is taken: one call first."""
        ends = self._clock.now() + left_s
        self._breaker.refuse_if_open()
        is_first = await self._first.turn(left_s)
        try:
            return await self._attempt(call, ends - self._clock.now())
        finally:
            if is_first:
                self._first.leave()

    async def _attempt(self, call: Call, left_s: float) -> ChatReply:
        self._breaker.refuse_if_open()
        ends = self._clock.now() + left_s
        number = self._enter_at_once(call)
        if number is None:
            number = await self._enter(call, ends)
        try:
            leave = self._breaker.admit()
        except ProviderFault:
            self._room.ended()
            self._rates.pay(-1, -call.tokens)
            raise
        left_s = ends - self._clock.now()
        try:
            if call.receipt is not None:
                call.receipt.sent()
            timeout_s = min(left_s, self._provider.timeout_s)
            answer = await self._transport.post(call.path, call.headers, call.body, timeout_s)
            reply = self._read(call, answer)
        except ProviderFault as fault:
            if call.receipt is not None and fault.turned_down:
                call.receipt.turned_down()
            self._note(fault, number, leave, full_time=left_s >= self._provider.timeout_s)
            raise
        except BaseException:
            self._room.ended()
            self._breaker.dropped(leave)
            raise
        self._first.over = self._key_taken = True
        self._room.succeeded()
        self._breaker.succeeded(leave)
        if spent := reply.usage.input_tokens + reply.usage.output_tokens:
            self._rates.pay(0, spent - call.tokens)
        return reply

    def _enter_at_once(self, call: Call) -> int | None:
        """Return the call's number; None when it has to wait."""
        if self._rates.wait_s() > 0 or self._not_before > self._clock.now():
            return None
        number = self._room.try_begin()
        if number is not None:
            self._rates.pay(1, call.tokens)
        return number

    async def _enter(self, call: Call, ends: float) -> int:
        """Wait for the rates and for room; return the call's number."""
        while True:
            wait_s = max(self._rates.wait_s(), self._not_before - self._clock.now())
            if self._clock.now() + wait_s > ends:
                raise ProviderFault(
                    Reason.RATE_LIMITED,
                    f"provider {self._provider.name}: it asked to be left alone, or its "
                    "requests_per_minute or tokens_per_minute are used up, for longer than the "
                    "call may take",
                    retryable=True,
                    attempts=0,
                )
            self._rates.pay(1, call.tokens)
            try:
                if wait_s > 0:
                    await self._clock.sleep(wait_s)
                number = self._room.try_begin()
                if number is None:
                    number = await self._wait_for_room(ends)
            except BaseException:
                self._rates.pay(-1, -call.tokens)
                raise
            if self._not_before <= self._clock.now():
                return number
            # While this one waited the provider asked to be left alone.
            self._room.ended()
            self._rates.pay(-1, -call.tokens)

    async def _wait_for_room(self, ends: float) -> int:
        try:
            async with asyncio.timeout(ends - self._clock.now()):
                return await self._room.begin()
        except TimeoutError:
            raise ProviderFault(
                Reason.TIMEOUT,
                f"provider {self._provider.name}: its max_concurrency is used up for longer than "
                "the call may take",
                retryable=True,
                attempts=0,
            ) from None

    def _read(self, call: Call, answer: HttpReply) -> ChatReply:
        try:
            return call.read(answer.status, answer.body)
        except ProviderFault as fault:
            asked = retry_after_s(answer.retry_after, self._clock.date())
            if asked is not None:  # else what the body asks for, where a dialect has that
                fault.retry_after_s = asked
            fault.of_provider(self._provider.name)
            if fault.reason is Reason.PROVIDER_REFUSED_KEY and fault.status == _FORBIDDEN:
                raise self._forbidden(fault) from None
            raise

    def _note(self, fault: ProviderFault, number: int, leave: Pass, *, full_time: bool) -> None:
        """Tell all whom it concerns of a failure.

        A time-out counts only when the provider had all its time: a caller's short deadline is no
        news of the provider. A call that the provider understood and turned down shows that it
        works; so does "too many requests".
        """
        late = fault.reason is Reason.TIMEOUT
        if fault.reason is not Reason.PROVIDER_REFUSED_KEY:
            self._first.over = True
        if fault.retry_after_s is not None and fault.status in _PRESSED:
            wait_s = min(fault.retry_after_s, LONGEST_WAIT_S)
            self._not_before = max(self._not_before, self._clock.now() + wait_s)
        self._tell(fault)
        if (late and full_time) or fault.status == 429:
            self._room.pressed(number)
        else:
            self._room.ended()
        if late and not full_time:
            self._breaker.dropped(leave)
        elif fault.reason in {Reason.RATE_LIMITED, Reason.PROVIDER_ERROR} and (
            fault.status == 429 or not (fault.retryable or fault.status == _FORBIDDEN)
        ):
            self._breaker.succeeded(leave)
        else:
            self._breaker.failed(leave, fault)

    def _forbidden(self, fault: ProviderFault) -> ProviderFault:
        """Return what a 403 says: of the key, unless that was taken before."""
        if not self._key_taken:
            return fault
        return ProviderFault(
            Reason.PROVIDER_ERROR,
            f"provider {self._provider.name}: it answered {_FORBIDDEN}: it refuses the request, "
            "and has taken the key before",
            retryable=False,
            status=_FORBIDDEN,
        )

    def _tell(self, fault: ProviderFault) -> None:
        """Tell the operator of a kind of failure, now and then."""
        kind, now = (fault.reason, fault.status), self._clock.now()
        if now >= self._told.get(kind, now):
            self._told[kind] = now + _TELL_EVERY_S
            _log.warning("llm provider failed", provider=self._provider.name, reason=fault.message)
