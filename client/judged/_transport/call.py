"""What both clients share around a call: the deadline, the one retry loop, what a failure means."""

from __future__ import annotations

import hashlib
import logging
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from judged import errors
from judged._inputs import all_texts, need_kind
from judged._transport.access import Metadata
from judged._transport.status import REQUEST_ID, may_retry, was_reached
from judged.v1 import judge_service_pb2 as pb

FIRST_DELAY_S = 0.1
MAX_DELAY_S = 5.0
UNREACHED_S = 3.0
"""How long a server that never answered is tried."""
TELL_AFTER_S = 1.0
TELL_EVERY_S = 30.0
CHUNKS_IN_FLIGHT = 4
IDENTIFIED = (pb.BatchJudgeRequest, pb.EvaluateRequest)
"""Requests that have a request_id."""

Item = TypeVar("Item")
Message = TypeVar("Message")

_log = logging.getLogger("judged")


@dataclass(slots=True)
class RetryBudget:
    """What the calls of a client know of their server: whether it answers, how often to try.

    Retries are bounded by the second and by what is answered, so that a sick server is not finished
    off. A call that finds none left waits for one as long as its time lasts. `waits` says whether
    to wait for a server that answered before; one that never did is given up soon.
    """

    waits: bool = True
    tokens: float = 10.0
    limit: float = 10.0
    earn: float = 1.0
    a_second: float = 5.0
    reached: bool = False
    _filled: float = field(default_factory=lambda: time.monotonic())  # noqa: PLW0108
    _tell_at: float | None = None
    _told: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answered(self) -> None:
        """Note a call that was answered."""
        with self._lock:
            self.reached = True
            self.tokens = min(self.limit, self.tokens + self.earn)
            told, self._told, self._tell_at = self._told, False, None
        if told:
            _log.warning("the server answers again")

    def failed(self, error: errors.JudgedError, left: float) -> None:
        """Note a failure of a call that waits on; tell the user when it takes longer."""
        now = time.monotonic()
        with self._lock:
            if self._tell_at is None:
                self._tell_at = now + TELL_AFTER_S
            if now < self._tell_at or not (self.reached and self.waits):
                return
            self._tell_at, self._told = now + TELL_EVERY_S, True
        _log.warning("%s; waiting for it, for %.0f s at most", error.message, left)

    def take(self) -> bool:
        """Take one retry from the budget; say whether there was one."""
        with self._lock:
            now = time.monotonic()
            earned = (now - self._filled) * self.a_second
            self.tokens, self._filled = min(self.limit, self.tokens + earned), now
            if self.tokens < 1:
                return False
            self.tokens -= 1
            return True


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How a client calls: see `Client.with_options`. Raises InvalidArgument for what can't be."""

    timeout: float | None = None
    max_retries: int | None = None
    metadata: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.timeout is not None:
            _need_time(self.timeout)
        n = self.max_retries
        if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 0):
            rule = "must be a whole number, 0 or more, or None"
            raise errors.InvalidArgument.of_field("max_retries", rule)
        need_kind(self.metadata or {}, "metadata", Mapping, "a mapping of names to texts")
        for name, value in (self.metadata or {}).items():
            if not all_texts((name, value)):
                raise errors.InvalidArgument.of_field("metadata", "must map names to texts")
            if name.lower() in (REQUEST_ID, "authorization") or name.lower().startswith("grpc-"):
                rule = f"has {name!r}, which the client sets itself; use credentials= for tokens"
                raise errors.InvalidArgument.of_field("metadata", rule)

    @property
    def pairs(self) -> Metadata:
        """The metadata as gRPC takes it: names in small letters."""
        return tuple((name.lower(), value) for name, value in (self.metadata or {}).items())


def _need_time(seconds: float) -> None:
    if not seconds > 0:
        raise errors.InvalidArgument.of_field("timeout", "must be a number of seconds above 0")


class Deadline:
    """The time a call has as a whole, all its chunks, tries and waits, and its other options."""

    def __init__(self, timeout: float, options: CallOptions = CallOptions()) -> None:
        _need_time(timeout)
        self.timeout = timeout
        self.options = options
        self._ends = time.monotonic() + timeout

    def left(self) -> float:
        """Return the seconds left; raise DeadlineExceeded when there are none."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise errors.DeadlineExceeded(
                f"no answer within {self.timeout:g} s; allow more with timeout=, or send less",
                code="DEADLINE_EXCEEDED",
            )
        return left


class Attempts:
    """The tries of one message. Ask `wait_after` for every failure."""

    def __init__(
        self,
        deadline: Deadline,
        budget: RetryBudget,
        who: Callable[[], Metadata] = tuple,
        request: object | None = None,
    ) -> None:
        """Take the time, and `who` calls as metadata, asked anew when the tries begin again."""
        self._deadline = deadline
        self._budget = budget
        self._who = who
        self._request = request
        self.begin()

    def begin(self) -> None:
        """Count from the first try, under a new id: by it a server knows tries as one call."""
        self._failed = 0
        self._failing_since = 0.0
        self._error: errors.JudgedError | None = None
        request_id = str(uuid.uuid4())
        own = self._deadline.options.pairs
        self.metadata = ((REQUEST_ID, request_id), *self._who(), *own)
        if isinstance(self._request, IDENTIFIED) and not self._request.request_id:
            self._request.request_id = request_id

    def timeout(self) -> float:
        """Return the seconds the next try may take.

        Raises the error of the last try when there are none, DeadlineExceeded before a first one.
        """
        try:
            return self._deadline.left()
        except errors.DeadlineExceeded:
            if self._error is None:
                raise
            raise self._error from None

    def waits(self, error: errors.JudgedError) -> Iterator[float]:
        """Yield the seconds to wait, one wait after the other, before the next try.

        Raises the error when there is to be none; see `wait_after`.
        """
        yield self.wait_after(error)
        while not self._budget.take():
            yield self._within_deadline(error, random.uniform(0, self._backoff()))  # noqa: S311 - jitter

    def wait_after(self, error: errors.JudgedError) -> float:
        """Return the seconds to wait before the next try; raise the error when there is none.

        There is none for failures that would repeat, when the wait would outlast the deadline, or
        when the server has never answered and UNREACHED_S are over.
        """
        if not may_retry(error):
            raise error from None
        if was_reached(error):
            self._budget.reached = True
        self._failed += 1
        self._error = error
        most = self._deadline.options.max_retries
        if most is not None and self._failed > most:
            raise error from None
        now = time.monotonic()
        if self._failed == 1:
            self._failing_since = now
        # Full jitter, so that callers turned away together do not come back together.
        wait = random.uniform(0, self._backoff())  # noqa: S311 - jitter is no secret
        wished = getattr(error, "retry_after", None)
        if wished is not None:
            wait += wished
        busy = isinstance(error, errors.Overloaded)
        patient = busy or (self._budget.reached and self._budget.waits)
        if not patient and now + wait - self._failing_since > UNREACHED_S:
            raise error from None
        return self._within_deadline(error, wait)

    def _backoff(self) -> float:
        # The exponent is bounded: a float overflows at a thousand tries.
        return min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(self._failed - 1, 10))

    def _within_deadline(self, error: errors.JudgedError, wait: float) -> float:
        try:
            left = self._deadline.left()
        except errors.DeadlineExceeded:
            left = 0.0
        if left <= wait:
            raise error from None
        self._budget.failed(error, left)
        return wait


class Stream(Generic[Item]):
    """A call that is answered by a stream: what is sent and taken in over all its tries."""

    def __init__(self) -> None:
        self.done = False
        """Whether nothing is left to be sent."""
        self.progressed = False
        """Whether this try was answered anything."""
        self._failure: Exception | None = None

    def request(self) -> object:
        """Return what the next try sends: a message, or an iterator of messages."""
        raise NotImplementedError

    def written(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield the messages of a request; what fails ends them.

        gRPC reads them on a thread of its own and hides what goes wrong there: a failure of what
        the caller gave is raised once the stream has ended.
        """
        try:
            yield from messages
        except Exception as failure:  # noqa: BLE001 - raised where the caller waits
            self._failure = failure

    def take(self, reply: Any) -> Item | None:  # noqa: ANN401 - a message of this stream
        """Return what a reply brings to the caller, if anything."""
        raise NotImplementedError

    def ended(self) -> None:
        """Note that the server ended the stream. Raises an error when it should not have."""
        if self._failure is not None:
            raise self._failure
        self.done = True

    def waits(self, error: errors.JudgedError, attempts: Attempts) -> Iterator[float]:
        """Yield the waits in seconds before the next try; raise the error for none."""
        if self._failure is not None:
            raise self._failure
        if self.progressed:
            attempts.begin()  # it goes on, so count anew
        yield from attempts.waits(error)

    def rest(self) -> Iterable[Item]:
        """Return what is still to be told the caller when nothing is left to be sent."""
        return ()


def derived_id(*parts: object) -> str:
    """Return a request_id (a UUID of version 4) that is the same for the same parts."""
    digest = hashlib.sha256(repr(parts).encode(errors="surrogatepass")).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))
