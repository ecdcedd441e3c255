"""One provider as its models share it: a call waits for its turn, is sent, and is tried again.

A call is tried again as long as its caller has time: a failure of the provider is not the item's.
Before another try it waits as long as the provider asked, or else a random part of .5 s, then 1 s,
up to 8 s (full jitter, so that callers turned away together do not come back together). What keeps
a provider in trouble from being finished off is not a number of tries: the breaker stops all
requests to it but a probe, see `limits`. A provider that did not answer in its time is asked once
more at most, and one that another model stands behind three times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

from judged_server.llm.chat import ChatReply, Receipt
from judged_server.llm.config.configured import ProviderConfiguration
from judged_server.llm.faults import ProviderFault, Reason
from judged_server.llm.transport.clock import Clock
from judged_server.llm.transport.http import HttpReply, HttpTransport
from judged_server.llm.transport.limits import retry_after_s
from judged_server.llm.transport.request_queue import RequestQueue
from judged_server.telemetry import logger

MAX_TRIES_BEFORE_FALLBACK = 3
MAX_TIMEOUTS = 2
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.5, 8.0
_FORBIDDEN = 403
_LOG_EVERY_S = 60.0

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
        self._random = random
        self._transport = transport
        self._queue = RequestQueue(provider, clock)
        self._key_taken = False
        self._logged: dict[object, float] = {}

    @property
    def problem(self) -> str:
        """Why no model of it can be asked now, "" when they can: its key was refused."""
        return self._queue.key_problem

    @property
    def is_unhealthy(self) -> bool:
        """Whether requests are held until the provider answers again."""
        return self._queue.is_unhealthy

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def ask(
        self, call: Call, timeout_s: float, *, waits: bool = True
    ) -> tuple[ChatReply, int]:
        """Return the reply and the number of requests it took, within `timeout_s` seconds.

        A provider that is unhealthy is waited for, unless `waits` is false. Raises the last
        ProviderFault that came of a request, with the number of requests in it.
        """
        ends = self._clock.now() + timeout_s
        sent = timeouts = 0
        last: ProviderFault | None = None
        while True:
            try:
                return await self._send(call, ends, waits=waits), sent + 1
            except ProviderFault as fault:
                if fault.attempts == 0 and last is not None:
                    raise last from None  # it says more than that a call was held back here
                sent += fault.attempts
                fault.attempts = sent
                timeouts += fault.reason is Reason.TIMEOUT
                wait_s = self._backoff_s(fault, sent)
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

    def _backoff_s(self, fault: ProviderFault, sent: int) -> float:
        if fault.status == 429 or fault.retry_after_s is not None or self._queue.is_unhealthy:
            return 0.0  # the queue knows when the next request may go
        longest_s = min(FIRST_BACKOFF_S * 2.0 ** min(sent - 1, 16), LONGEST_BACKOFF_S)
        return self._random.uniform(0, longest_s)

    async def _send(self, call: Call, ends: float, *, waits: bool) -> ChatReply:
        turn = await self._queue.turn(call.tokens, ends, waits=waits)
        was_sent = False
        try:
            if call.receipt is not None:
                await call.receipt.sent()
            was_sent = True
            left_s = ends - self._clock.now()
            timeout_s = min(left_s, self._provider.timeout_s)
            answer = await self._transport.post(call.path, call.headers, call.body, timeout_s)
            reply = self._read(call, answer)
        except ProviderFault as fault:
            if call.receipt is not None and fault.turned_down:
                call.receipt.turned_down()
            self._log_failure(fault)
            self._queue.failed(turn, fault, full_time=timeout_s == self._provider.timeout_s)
            raise
        except BaseException:
            self._queue.dropped(turn, was_sent=was_sent)
            raise
        self._key_taken = True
        self._queue.answered(turn, reply.usage.input_tokens + reply.usage.output_tokens)
        return reply

    def _read(self, call: Call, answer: HttpReply) -> ChatReply:
        name = f"provider {self._provider.name}"
        try:
            reply = call.read(answer.status, answer.body)
        except ProviderFault as fault:
            asked = retry_after_s(answer.retry_after, self._clock.date())
            if asked is not None:  # else what the body asks for, where a dialect has that
                fault.retry_after_s = asked
            fault.of_provider(self._provider.name)
            refuses_key = fault.reason is Reason.PROVIDER_REFUSED_KEY
            if refuses_key and fault.status == _FORBIDDEN and self._key_taken:
                raise ProviderFault(
                    Reason.PROVIDER_ERROR,
                    f"{name}: it answered {_FORBIDDEN}: it refuses the request, and has taken the "
                    "key before",
                    retryable=False,
                    status=_FORBIDDEN,
                ) from None
            raise
        if reply.unreadable:
            # Paid for, and no outage: whoever asked counts it, and decides whether to ask again.
            says = f"{name}: {reply.unreadable}, so that it can't be read"
            reply = reply._replace(unreadable=says)
        return reply

    def _log_failure(self, fault: ProviderFault) -> None:
        """Log a kind of failure, now and then."""
        kind, now = (fault.reason, fault.status), self._clock.now()
        if now >= self._logged.get(kind, now):
            self._logged[kind] = now + _LOG_EVERY_S
            _log.warning("llm provider failed", provider=self._provider.name, reason=fault.message)
