"""One call: how many messages are in flight, what a failure means, and when it is tried again.

Additive increase, multiplicative decrease, as TCP does it (Chiu and Jain, 1989). A caller who sends
thousands of calls at once then waits here, in the order of its calls, in place of being turned away
over and over; and callers of one server come to have about the same.

The classes are in `errors`.
"""

from __future__ import annotations

import hashlib
import logging
import random
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as AnyMessage

from judged import errors
from judged._inputs import all_texts, need_kind
from judged._transport.access import Metadata, fails_by_tls, hint
from judged.internal.v1 import status_pb2
from judged.v1 import judge_service_pb2 as pb

FIRST, LEAST, MOST = 64, 1, 256
"""Messages in flight at first, at least and at most: a server's connection takes 256."""
DECREASE = 0.7
SHRINK_EVERY_S = 0.1
"""Those turned away together count as one sign that the server is busy."""


class Window:
    """Slots for messages in flight. Safe for threads and event loops, any of them at a time."""

    def __init__(self) -> None:
        self._limit = float(FIRST)
        self._in_flight = 0
        self._waiting: dict[Future[None], None] = {}
        """Who waits, in order; a future is done once it has a slot."""
        self._shrunk = 0.0
        self._lock = threading.Lock()

    @property
    def limit(self) -> int:
        """The most messages in flight now."""
        return int(self._limit)

    @contextmanager
    def slot(self) -> Iterator[Future[None]]:
        """Get in line for a slot: it is there when the future is done, and is given back after."""
        slot: Future[None] = Future()
        with self._lock:
            self._waiting[slot] = None
            self._grant()
        try:
            yield slot
        finally:
            with self._lock:
                if slot in self._waiting:
                    del self._waiting[slot]
                elif not slot.cancelled():
                    self._in_flight -= 1
                self._grant()

    def answered(self) -> None:
        """Note a message that was answered: a window full of them makes it one larger."""
        with self._lock:
            self._limit = min(float(MOST), self._limit + 1 / self._limit)
            self._grant()

    def turned_away(self) -> None:
        """Note a message for which the server had no room."""
        with self._lock:
            now = time.monotonic()
            if now >= self._shrunk + SHRINK_EVERY_S:
                self._shrunk = now
                self._limit = max(float(LEAST), self._limit * DECREASE)

    def _grant(self) -> None:
        while self._waiting and self._in_flight < self.limit:
            slot = next(iter(self._waiting))
            del self._waiting[slot]
            if slot.set_running_or_notify_cancel():
                self._in_flight += 1
                slot.set_result(None)


REQUEST_ID = "x-request-id"
_DETAILS = "grpc-status-details-bin"
BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
_UNREACHED = re.compile(
    r"failed to connect|backends failing|upstream connect|resol|domain name", re.IGNORECASE
)
_CLASSES: Mapping[str, type[errors.JudgedError]] = {
    "INVALID_ARGUMENT": errors.InvalidArgument,
    "OUT_OF_RANGE": errors.InvalidArgument,
    "NOT_FOUND": errors.NotFound,
    "UNIMPLEMENTED": errors.NotFound,
    "FAILED_PRECONDITION": errors.FailedPrecondition,
    "UNAUTHENTICATED": errors.PermissionDenied,
    "PERMISSION_DENIED": errors.PermissionDenied,
    "RESOURCE_EXHAUSTED": errors.Overloaded,
    "UNAVAILABLE": errors.Unavailable,
    "DEADLINE_EXCEEDED": errors.DeadlineExceeded,
    # Our own cancels never get here: this is a server dropping calls at the end of its drain.
    "CANCELLED": errors.Unavailable,
}
_KINDS: Mapping[str, type[AnyMessage]] = {
    "ErrorInfo": status_pb2.ErrorInfo,
    "BadRequest": status_pb2.BadRequest,
    "RetryInfo": status_pb2.RetryInfo,
}
_CHOICES = {
    "CACHE_MODE": "CacheMode",
    "INTERVAL_METHOD": "IntervalMethod",
    "MATCHING_MODE": "Matching",
    "NO_GOLD_POLICY": "NoGold",
    "RATING_LEVEL": "RatingLevel",
    "UNJUDGED_POLICY": "Unjudged",
    "VERDICT_SOURCE": "Source",
    "VERDICT_STATUS": "Status",
}
_FULL_NAME = re.compile(rf"\b({'|'.join(_CHOICES)})_([A-Z]+(?:_[A-Z]+)*)\b")


def to_error(failure: Any, target: str) -> errors.JudgedError:  # noqa: ANN401 - of either gRPC
    """Return the error of a failed call to `target`; what failed has code, details, trailers."""
    code: str = failure.code().name
    trailers = dict(failure.trailing_metadata() or ())
    details = _details(trailers.get(_DETAILS))
    info = details.get("ErrorInfo", status_pb2.ErrorInfo())
    message = in_python(failure.details() or code)
    if code == "CANCELLED":
        message = f"{target} dropped the call; it may be shutting down"
    elif code == "UNAVAILABLE" and not info.reason:
        message = f"can't reach {target}: {message}; {hint(target, message)}"
    kind = _CLASSES.get(code, errors.InternalError)
    if info.reason == BUDGET_EXHAUSTED:
        kind = errors.BudgetExhausted
    error = kind(
        message,
        code=code,
        reason=info.reason,
        metadata=dict(info.metadata),
        request_id=str(trailers.get(REQUEST_ID, "")),
    )
    if isinstance(error, errors.InvalidArgument) and "BadRequest" in details:
        for violation in details["BadRequest"].field_violations[:1]:
            error.field = violation.field
    if isinstance(error, errors.Retryable) and "RetryInfo" in details:
        error.retry_after = details["RetryInfo"].retry_delay.ToNanoseconds() / 1e9
    return error


def may_retry(error: errors.JudgedError) -> bool:
    """Say whether sending the call again makes sense.

    RESOURCE_EXHAUSTED without RetryInfo is not our server being busy but gRPC's core refusing a
    message for its size, and that would fail for ever. So would a handshake that this side broke
    off: for a certificate that it does not trust, or because there is no TLS.
    """
    if isinstance(error, errors.Overloaded):
        return error.retry_after is not None
    return isinstance(error, errors.Unavailable) and not fails_by_tls(error.message)


def rename_paths(
    error: errors.InvalidArgument, path: re.Pattern[str], name: Callable[[re.Match[str]], str]
) -> errors.InvalidArgument:
    """Make an error about a message speak of the whole, of which groups[0], say, is another."""
    error.field = path.sub(name, error.field)
    error.message = path.sub(name, error.message)
    error.metadata = {key: path.sub(name, text) for key, text in error.metadata.items()}
    error.args = (error.message,)
    return error


def was_reached(error: errors.JudgedError) -> bool:
    """Say whether a failure came from a server, or from a connection that there had been.

    gRPC tells a port where nobody listens from a connection that broke by its message alone.
    """
    return bool(error.reason) or not _UNREACHED.search(error.message)


def _details(raw: str | bytes | None) -> dict[str, Any]:
    """Return the details that say more of an error, by the names of their messages."""
    if not isinstance(raw, bytes):
        return {}
    try:
        details = status_pb2.Status.FromString(raw).details
        named = ((each.type_url.rpartition(".")[2], each.value) for each in details)
        return {name: _KINDS[name].FromString(value) for name, value in named if name in _KINDS}
    except DecodeError:
        return {}  # a proxy's details, not ours: the code and the message still stand


def in_python(message: str) -> str:
    """Return a server's message with "MATCHING_MODE_ANY" as "Matching.ANY", and so on."""
    return _FULL_NAME.sub(lambda found: f"{_CHOICES[found[1]]}.{found[2]}", message)


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
