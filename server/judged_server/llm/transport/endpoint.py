"""One provider as its models share it: a call waits for its turn, is sent, and is tried again.

What is asked, and what a reply means, comes in from `models`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

from judged_server.llm.chat import ChatReply, Receipt
from judged_server.llm.config.configuration import ProviderConfiguration
from judged_server.llm.faults import ProviderFault, Reason
from judged_server.llm.transport.clock import Clock
from judged_server.llm.transport.http import HttpReply, HttpTransport
from judged_server.llm.transport.request_queue import RequestQueue
from judged_server.llm.transport.retrying import Retrier, rate_limits, retry_after_s
from judged_server.telemetry import logger

_FORBIDDEN = 403
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
        self._queue = RequestQueue(provider, clock)
        self._retrier = Retrier(clock, random, lambda: self._queue.is_unhealthy)
        self._key_taken = False
        self._told: dict[object, float] = {}

    @property
    def problem(self) -> str:
        """Why no model of it can be asked now, "" when they can: its key was refused."""
        return self._queue.key_problem

    async def ask(
        self, call: Call, timeout_s: float, *, waits: bool = True
    ) -> tuple[ChatReply, int]:
        """Return the reply and the number of requests it took, within `timeout_s` seconds.

        A provider that is unhealthy is waited for, unless `waits` is false. Raises ProviderFault.
        """
        ends = self._clock.now() + timeout_s
        return await self._retrier.run(
            lambda: self._attempt(call, ends, waits=waits), ends, waits=waits
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def _attempt(self, call: Call, ends: float, *, waits: bool) -> ChatReply:
        turn = await self._queue.turn(call.tokens, ends, waits=waits)
        if call.receipt is not None:
            try:
                await call.receipt.sent()
            except BaseException:
                self._queue.unsent(turn)
                raise
        left_s = ends - self._clock.now()
        try:
            timeout_s = min(left_s, self._provider.timeout_s)
            answer = await self._transport.post(call.path, call.headers, call.body, timeout_s)
            reply = self._read(call, answer)
        except ProviderFault as fault:
            if call.receipt is not None and fault.turned_down:
                call.receipt.turned_down()
            self._tell(fault)
            full_time = left_s >= self._provider.timeout_s
            self._queue.failed(turn, fault, full_time=full_time)
            raise
        except BaseException:
            self._queue.dropped(turn)
            raise
        self._key_taken = True
        spent = reply.usage.input_tokens + reply.usage.output_tokens
        self._queue.answered(turn, spent, rate_limits(answer.headers, self._clock.date))
        return reply

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
