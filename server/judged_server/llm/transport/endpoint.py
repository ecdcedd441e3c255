"""Sends the requests of all models of one provider: turns, limits, circuit breaker and retries.

A call is retried as long as its caller has time: a failure of the provider says nothing about the
item. Before a retry it waits as long as the provider asked, or else a random part of .5 s, then
1 s, up to 8 s (full jitter, so that calls that failed together are not retried together). Retries
are limited only after time-outs (one) and if there is a fallback (two): the breaker protects a
failing provider, since it stops all requests to it but a probe.

Senders take turns by the tokens of their requests, interactive requests before batch work
(`scheduling.fairness`), so that a sender of many requests does not take all places. Requests of one
sender are sent in order.

A request is sent when the following three allow it. Until then it waits, and it fails only if its
time can't suffice or the key is refused.

    Rate      the operator's requests_per_minute and tokens_per_minute, and the pauses that the
              provider asks for by a 429
    Window    the number of requests in flight: one more after a window of successes, half as many
              after a 429 or a time-out
    Breaker   closed --14 of the last 16 requests failed--> open, for .5 s
              open --the time is up--> one request probes, all others wait
              --the probe succeeds--> closed; --fails--> open, half as long again, up to 15 s
              any --the key is refused--> requests fail at once, for 5 s and then up to 60 s
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from typing import NamedTuple

from judged_server.llm.chat import ChatReply, ProviderFault, Reason, Receipt
from judged_server.llm.config import ProviderConfiguration
from judged_server.llm.transport.http import HttpReply, HttpTransport
from judged_server.scheduling.fairness import FairQueue
from judged_server.telemetry import Logger
from judged_server.tenant import SENDER


class Clock:
    """The machine's time."""

    now = staticmethod(time.monotonic)
    """Returns monotonic seconds; only differences are meaningful."""

    def date(self) -> datetime:
        """Return the date and time, in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait for so many seconds."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> asyncio.Handle:
        """Call `callback` after so many seconds, on the running event loop."""
        return asyncio.get_running_loop().call_later(seconds, callback)


MAX_TIMEOUTS = 2
MAX_TRIES_BEFORE_FALLBACK = 3
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.5, 8.0
LEAST_PAUSE_S = 1.0
"""The least pause after a 429, also if it names none."""
UNREACHED_S = 30.0
"""How long a provider that was never reached is tried: its address may be wrong."""

TURN_TOKENS, REQUEST_TOKENS = 4_096, 512
"""Tokens of a sender's turn: a handful of usual questions; and tokens added to the count of each
request, since even a short one takes a place."""

_FORBIDDEN, _TOO_MANY = 403, 429

LONGEST_PAUSE_S = 60.0
"""The longest pause for a Retry-After; then the next request is sent."""
AT_ONCE_S = 0.1
"""Seconds of a rate limit that may be used at once: a provider may count by the second."""

WINDOW, FAILED_OF_WINDOW = 16, 14
COOL_DOWNS_S, REFUSALS_S, COOL_DOWN_GROWTH = (0.5, 15.0), (5.0, 60.0), 1.5
"""The first and the longest pause before a probe, after failures and after a refused key; each is
COOL_DOWN_GROWTH times the previous one."""

_log = Logger("llm")


class Call(NamedTuple):
    """One question, ready to be sent. `tokens` is an estimate of the most that it will use.

    `read` returns the reply in a status and a body, or raises ProviderFault.
    """

    path: str
    headers: Mapping[str, str]
    body: bytes
    read: Callable[[int, bytes], ChatReply]
    tokens: int
    receipt: Receipt | None = None


class Endpoint:
    """A provider with its connections and its queue."""

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
        self.transport = transport
        self.queue = RequestQueue(provider, clock)
        self._key_taken = False

    async def ask(
        self, call: Call, timeout_s: float, *, waits: bool = True
    ) -> tuple[ChatReply, int]:
        """Return the reply and the number of requests it took, within `timeout_s` seconds.

        Waits for an unhealthy provider if `waits`, as without a fallback. Raises the ProviderFault
        of the last request that was sent, with the number of requests in it.
        """
        ends = self._clock.now() + timeout_s
        sent = timeouts = 0
        last: ProviderFault | None = None
        while True:
            try:
                return await self._send(call, ends, waits=waits), sent + 1
            except ProviderFault as fault:
                if fault.attempts == 0 and last is not None:
                    raise last from None  # more telling than that this call wasn't sent
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
        if fault.status == 429 or fault.retry_after_s is not None or self.queue.breaker.is_open:
            return 0.0  # the queue delays the next request
        longest_s = min(FIRST_BACKOFF_S * 2.0 ** min(sent - 1, 16), LONGEST_BACKOFF_S)
        return self._random.uniform(0, longest_s)

    async def _send(self, call: Call, ends: float, *, waits: bool) -> ChatReply:
        turn = await self.queue.turn(call.tokens, ends, waits=waits)
        was_sent = False
        try:
            if call.receipt is not None:
                await call.receipt.sent()
            was_sent = True
            left_s = ends - self._clock.now()
            timeout_s = min(left_s, self._provider.timeout_s)
            answer = await self.transport.post(call.path, call.headers, call.body, timeout_s)
            reply = self._read(call, answer)
        except ProviderFault as fault:
            fault.of_provider(self._provider.name)
            if call.receipt is not None and fault.turned_down:
                call.receipt.turned_down()
            self.queue.failed(turn, fault, full_time=timeout_s == self._provider.timeout_s)
            raise
        except BaseException:
            self.queue.dropped(turn, was_sent=was_sent)
            raise
        self._key_taken = True
        self.queue.answered(turn, reply.usage.input_tokens + reply.usage.output_tokens)
        return reply

    def _read(self, call: Call, answer: HttpReply) -> ChatReply:
        try:
            reply = call.read(answer.status, answer.body)
        except ProviderFault as fault:
            fault.retry_after_s = retry_after_s(answer.retry_after, self._clock.date())
            refuses_key = fault.reason is Reason.PROVIDER_REFUSED_KEY
            if refuses_key and fault.status == _FORBIDDEN and self._key_taken:
                raise ProviderFault(
                    Reason.PROVIDER_ERROR,
                    f"it answered {_FORBIDDEN}: it refuses the request, and has taken the key "
                    "before",
                    retryable=False,
                    status=_FORBIDDEN,
                ) from None
            raise
        if reply.unreadable:
            # Paid for, and no outage: the caller counts it and decides whether to ask again.
            says = f"provider {self._provider.name}: {reply.unreadable}, so that it can't be read"
            reply = reply._replace(unreadable=says)
        return reply


class Turn(NamedTuple):
    """Permission to send one request; returned to the queue by exactly one of its methods.

    `number` counts all turns given. A `probe` is the only request to a provider while it fails.
    """

    number: int
    tokens: int = 0
    probe: bool = False


class _Waiting(NamedTuple):
    """A call that waits for its turn until `ends`."""

    turn: asyncio.Future[Turn]
    tokens: int
    ends: float
    waits: bool


class RequestQueue:
    """The requests to one provider; used on one event loop."""

    def __init__(self, provider: ProviderConfiguration, clock: Clock) -> None:
        self._name = f"provider {provider.name}"
        self._clock = clock
        self.breaker = Breaker(provider.name, clock)
        self.window = Window(provider.max_concurrency)
        self._rate = Rate(provider.requests_per_minute, provider.tokens_per_minute, clock)
        self._waiting: FairQueue[_Waiting] = FairQueue(TURN_TOKENS)
        self._timer: asyncio.Handle | None = None
        self._limited = False  # calls wait for the rate
        self._reached = False
        self._unreached_since: float | None = None

    @property
    def key_problem(self) -> str:
        """What to do about the key that the provider refused, "" if it did not."""
        cause = self.breaker.cause
        refused = cause is not None and cause.reason is Reason.PROVIDER_REFUSED_KEY
        return cause.message if cause is not None and refused else ""

    async def turn(self, tokens: int, ends: float, *, waits: bool = True) -> Turn:
        """Return once a request of so many tokens may be sent, before the clock shows `ends`.

        Raises ProviderFault of 0 attempts if it can't be, or the breaker is open and not `waits`.
        """
        fault = self.breaker.refusal()
        if fault is None and self.breaker.is_open and not waits:
            fault = self._out_of_time()
        wait_s = self._wait_s
        if fault is None and not math.isinf(wait_s) and self._clock.now() + wait_s > ends:
            fault = self._out_of_time()
        if fault is not None:
            raise fault
        future: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._waiting.put(_Waiting(future, tokens, ends, waits), SENDER.get())
        self._wake()
        if future.done():
            return future.result()
        try:
            async with asyncio.timeout(ends - self._clock.now()):
                return await future
        except BaseException as error:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.dropped(future.result())  # the turn came as the wait ended
            if isinstance(error, TimeoutError):
                raise self._out_of_time() from None
            raise

    def answered(self, turn: Turn, tokens: int) -> None:
        """End a request that got a reply of so many tokens, 0 if unknown."""
        self._reached = True
        self.window.succeeded()
        self.breaker.succeeded(turn)
        if tokens:
            self._rate.pay(0, tokens - turn.tokens)
        self._wake()

    def failed(self, turn: Turn, fault: ProviderFault, *, full_time: bool) -> None:
        """End a request with a fault; `full_time` says that the provider had its whole time-out.

        A time-out counts only then: a caller's short deadline says nothing about the provider. A
        request that was understood and rejected shows that the provider works; so does a 429.
        """
        late = fault.reason is Reason.TIMEOUT
        limited = fault.status == _TOO_MANY
        if fault.retryable and (limited or fault.retry_after_s is not None):
            least_s = LEAST_PAUSE_S if limited else 0.0
            self._rate.pause(max(fault.retry_after_s or 0.0, least_s))
        if (late and full_time) or limited:
            self.window.pressed(turn.number)
        else:
            self.window.ended()
        self._reached = self._reached or not (late or fault.reason is Reason.PROVIDER_UNREACHABLE)
        if late and not full_time:
            self.breaker.dropped(turn)
        elif fault.reason in {Reason.RATE_LIMITED, Reason.PROVIDER_ERROR} and (
            limited or not (fault.retryable or fault.status == _FORBIDDEN)
        ):
            self.breaker.succeeded(turn)
        else:
            self.breaker.failed(turn, fault, refuse=self._never_reached(fault))
        if self.breaker.is_open:
            for waiting in self._waiting:
                if not waiting.waits and not waiting.turn.done():
                    waiting.turn.set_exception(self._out_of_time())
        self._wake()

    def dropped(self, turn: Turn, *, was_sent: bool = True) -> None:
        """End a request that says nothing about the provider, such as a cancelled one."""
        if not was_sent:
            self._rate.pay(-1, -turn.tokens)
        self.window.ended()
        self.breaker.dropped(turn)
        self._wake()

    @property
    def _wait_s(self) -> float:
        """Seconds until the next request may be sent, if the window has room."""
        return max(self.breaker.wait_s, self._rate.wait_s)

    def _wake(self) -> None:
        """Give turns to the calls that may be sent now; set a timer for the next one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while (head := self._waiting.first()) is not None:
            fault = self.breaker.refusal()
            if fault is None and head.ends <= self._clock.now():
                fault = self._out_of_time()
            if head.turn.done() or fault is not None:  # done: cancelled or failed
                self._waiting.take(0)
                if fault is not None and not head.turn.done():
                    head.turn.set_exception(fault)
                continue
            of_rate_s = self._rate.wait_s
            wait_s, self._limited = max(self.breaker.wait_s, of_rate_s), of_rate_s > 0
            if not self.window.has_room or math.isinf(wait_s):
                return  # until a request ends and wakes
            if wait_s > 0:
                self._timer = self._clock.call_later(wait_s, self._wake)
                return
            self._waiting.take(head.tokens + REQUEST_TOKENS)
            self._rate.pay(1, head.tokens)
            number = self.window.begin()
            head.turn.set_result(Turn(number, head.tokens, self.breaker.begin(number)))

    def _never_reached(self, fault: ProviderFault) -> bool:
        """Whether the provider was not reached for so long that its address may be wrong."""
        if self._reached or fault.reason is not Reason.PROVIDER_UNREACHABLE:
            return False
        now = self._clock.now()
        if self._unreached_since is None:
            self._unreached_since = now
        return now - self._unreached_since >= UNREACHED_S or not fault.retryable

    def _out_of_time(self) -> ProviderFault:
        """Return the fault of a call whose time is over or won't suffice."""
        if self.breaker.is_open:
            return _held_back(
                Reason.BREAKER_OPEN, f"{self._name} kept failing for as long as the call could wait"
            )
        if self._limited or self._rate.wait_s:
            return _held_back(
                Reason.RATE_LIMITED,
                f"{self._name}: it asked to be left alone, or its requests_per_minute or "
                "tokens_per_minute are used up, for longer than the call may take",
            )
        what = "its max_concurrency is used up for longer than the call may take"
        return _held_back(Reason.TIMEOUT, f"{self._name}: {what}")


def _held_back(reason: Reason, message: str, *, retryable: bool = True) -> ProviderFault:
    return ProviderFault(reason, message, retryable=retryable, attempts=0)


class Rate:
    """Limits of requests and tokens per minute; None for no limit.

    A request may be sent once the earlier ones are worked off, whatever its own size.
    """

    def __init__(self, requests: float | None, tokens: float | None, clock: Clock) -> None:
        """Allow so many requests and tokens per minute."""
        self._clock = clock
        per_minute = (requests or math.inf, tokens or math.inf)
        self._per_second = tuple(each / 60 for each in per_minute)
        self._worked_off = [-math.inf, -math.inf]
        self._paused_until = -math.inf

    @property
    def wait_s(self) -> float:
        """Seconds until a request may be sent."""
        return max(0.0, max(*self._worked_off, self._paused_until) - self._clock.now())

    def pay(self, requests: int, tokens: float) -> None:
        """Count a request that is sent, or correct the count of an earlier one."""
        for at, amount in enumerate((requests, tokens)):
            per_second = self._per_second[at]
            spare_s = max(0.0, AT_ONCE_S - 1 / per_second)
            begins = max(self._worked_off[at], self._clock.now() - spare_s)
            self._worked_off[at] = begins + amount / per_second

    def pause(self, seconds: float) -> None:
        """Send nothing for as long as the provider asked, at most LONGEST_PAUSE_S."""
        until = self._clock.now() + min(seconds, LONGEST_PAUSE_S)
        self._paused_until = max(self._paused_until, until)


class Window:
    """Limit of the requests in flight, between 1 and `maximum`."""

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
        """End a request that overloaded the provider; those in flight halve the limit only once."""
        if number > self._halved_at:
            self._halved_at = self._begun
            self._successes = 0
            self.limit = max(1, self.limit // 2)
        self.ended()

    def ended(self) -> None:
        """End a request that says nothing about the provider's load."""
        self.in_flight -= 1


class Breaker:
    """Circuit breaker of one provider. `cause` is the fault that opened it, None if closed."""

    def __init__(self, provider: str, clock: Clock) -> None:
        self._provider = provider
        self._clock = clock
        self._begun = self._changed_at = 0  # numbers of requests
        self._failed: deque[bool] = deque(maxlen=WINDOW)
        self._refuses = self._probing = False
        self._open_until = self._cool_down_s = 0.0
        self.cause: ProviderFault | None = None

    @property
    def is_open(self) -> bool:
        """Whether requests have to wait for the provider to recover."""
        return not self._refuses and self.wait_s > 0

    @property
    def wait_s(self) -> float:
        """Seconds until a request may be sent; infinite while a probe is in flight."""
        if self.cause is None:
            return 0.0
        return math.inf if self._probing else max(0.0, self._open_until - self._clock.now())

    def refusal(self) -> ProviderFault | None:
        """Return the fault with which requests fail now, e.g. a refused key; None if they wait."""
        if self.cause is None or not self._refuses or not self.wait_s:
            return None
        return _held_back(self.cause.reason, self.cause.message, retryable=self.cause.retryable)

    def begin(self, number: int) -> bool:
        """Note that a request is sent, once `wait_s` is 0; return whether it is a probe."""
        self._begun = number
        self._probing = self.cause is not None
        return self._probing

    def succeeded(self, turn: Turn) -> None:
        """Note that the provider works."""
        if turn.number <= self._changed_at:
            return
        self._failed.append(False)
        if turn.probe:
            _log.info("breaker closed", provider=self._provider)
            self._enter(None)

    def failed(self, turn: Turn, fault: ProviderFault, *, refuse: bool = False) -> None:
        """Note a failure of the provider as a whole.

        `refuse`: waiting won't help; all requests fail with this fault for a while.
        """
        if turn.number <= self._changed_at:
            return  # sent before the last change, so it says nothing about the time since
        refuse = refuse or fault.reason is Reason.PROVIDER_REFUSED_KEY
        self._failed.append(True)
        if not (turn.probe or refuse or sum(self._failed) >= FAILED_OF_WINDOW):
            return
        again = self.cause is not None and self._refuses == refuse
        first_s, longest_s = REFUSALS_S if refuse else COOL_DOWNS_S
        self._cool_down_s = (
            min(COOL_DOWN_GROWTH * self._cool_down_s, longest_s) if again else first_s
        )
        self._enter(fault, refuse)
        self._open_until = self._clock.now() + self._cool_down_s
        _log.warning(
            "breaker open",
            provider=self._provider,
            seconds=self._cool_down_s,
            reason=str(fault.reason),
        )

    def dropped(self, turn: Turn) -> None:
        """Note a request that says nothing about the provider, such as a cancelled one."""
        if turn.probe and turn.number > self._changed_at:
            self._probing = False

    def _enter(self, cause: ProviderFault | None, refuses: bool = False) -> None:
        self.cause = cause
        self._refuses = refuses
        self._changed_at = self._begun
        self._probing = False
        self._failed.clear()


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for; None if it is not usable.

    It is a number of seconds or a date (RFC 9110, section 10.2.3); a date in the past is 0.
    """
    try:
        seconds = float(value or "")
    except ValueError:
        try:
            date = parsedate_to_datetime(value or "")
        except (ValueError, TypeError, OverflowError, IndexError):
            return None
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        seconds = max(0.0, (date - now).total_seconds())
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
