"""One call: the error class of a failure, and the decision to retry it.

The error classes are in `errors`.
"""

from __future__ import annotations

import hashlib
import logging
import random
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from google.protobuf.message import DecodeError

from judged import errors
from judged._inputs import all_texts
from judged.internal.v1 import status_pb2
from judged.v1 import judge_service_pb2 as pb

REQUEST_ID = "x-request-id"
_DETAILS = "grpc-status-details-bin"
HINT = "is judged-server running there, with TLS on both sides or neither (Tls(...), --tls-ca)?"
"""Hint for an address that can't be reached: gRPC seldom reports that the handshake failed."""
_OTHER_NAME = "call the server by a name of its certificate, or name one: Tls(name=...), --tls-name"
Metadata = tuple[tuple[str, str], ...]
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
    # The client's own cancellations never get here: a server dropped the call as its drain ended.
    "CANCELLED": errors.Unavailable,
}
_DETAIL_TYPES = (status_pb2.ErrorInfo, status_pb2.BadRequest, status_pb2.RetryInfo)
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
_FULL_NAME = re.compile(rf"\b({'|'.join(_CHOICES)})_([A-Z_]+)\b")


def to_error(failure: Any, target: str) -> errors.JudgedError:  # noqa: ANN401 - of either gRPC
    """Return the error for a failed call to `target`, from its code, details and trailers."""
    code: str = failure.code().name
    trailers = dict(failure.trailing_metadata() or ())
    details = _details(trailers.get(_DETAILS))
    info = details.get("ErrorInfo", status_pb2.ErrorInfo())
    message = in_python(failure.details() or code)
    if code == "CANCELLED":
        message = f"{target} dropped the call; it may be shutting down"
    elif code == "UNAVAILABLE" and not info.reason:
        hint = _OTHER_NAME if "Hostname Verification" in message else HINT
        message = f"can't reach {target}: {message}; {hint}"
    kind = _CLASSES.get(code, errors.InternalError)
    if info.reason == "BUDGET_EXHAUSTED":
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
    """Return whether the call may be retried.

    RESOURCE_EXHAUSTED without RetryInfo does not mean a busy server: gRPC's core refused a message
    for its size, and would refuse it on every try.
    """
    if isinstance(error, errors.Overloaded):
        return error.retry_after is not None
    return isinstance(error, errors.Unavailable)


def rename_paths(
    error: errors.InvalidArgument, path: re.Pattern[str], name: Callable[[re.Match[str]], str]
) -> errors.InvalidArgument:
    """Rewrite the paths in an error about one message to paths in the whole input."""
    error.field = path.sub(name, error.field)
    error.message = path.sub(name, error.message)
    error.metadata = {key: path.sub(name, text) for key, text in error.metadata.items()}
    error.args = (error.message,)
    return error


def _details(raw: str | bytes | None) -> dict[str, Any]:
    """Return the known details of a serialized status, by message name."""
    if not isinstance(raw, bytes):
        return {}
    try:
        details = status_pb2.Status.FromString(raw).details
        return {
            kind.DESCRIPTOR.name: kind.FromString(each.value)
            for each in details
            for kind in _DETAIL_TYPES
            if each.type_url.endswith(f".{kind.DESCRIPTOR.name}")
        }
    except DecodeError:
        return {}  # details from a proxy: the code and the message still apply


def in_python(message: str) -> str:
    """Return a server's message with "MATCHING_MODE_ANY" as "Matching.ANY", and so on."""
    return _FULL_NAME.sub(lambda found: f"{_CHOICES[found[1]]}.{found[2]}", message)


FIRST_DELAY_S = 0.1
MAX_DELAY_S = 5.0
UNREACHED_S = 3.0
"""How long to retry a server that has never answered."""
CHUNKS_IN_FLIGHT = 4

Item = TypeVar("Item")
Message = TypeVar("Message")

_log = logging.getLogger("judged")


@dataclass
class Patience:
    """What the calls of a client share about their server.

    Calls give up after UNREACHED_S, unless `waits` and the server has answered before.
    """

    waits: bool = True
    reached: bool = False
    _warned: bool = False

    def answered(self) -> None:
        """Record that a call was answered."""
        self.reached = True
        if self._warned:
            self._warned = False
            _log.warning("the server answers again")

    def failed(self, error: errors.JudgedError, left: float) -> None:
        """Record a failure that will be retried, and warn at the first of an outage."""
        if isinstance(error, errors.Unavailable) and self.reached and not self._warned:
            self._warned = True
            _log.warning("%s; waiting for it, for %.0f s at most", error.message, left)


@dataclass(frozen=True)
class CallOptions:
    """Options of a client's calls: see `Client.with_options`. Raises InvalidArgument."""

    timeout: float | None = None
    max_retries: int | None = None
    metadata: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.max_retries is not None and not self.max_retries >= 0:
            raise errors.InvalidArgument.of_field("max_retries", "must be 0 or more, or None")
        for name, value in (self.metadata or {}).items():
            if not all_texts((name, value)) or name.lower() in (REQUEST_ID, "authorization"):
                rule = "must map names to texts; use credentials= for tokens"
                raise errors.InvalidArgument.of_field("metadata", rule)


class Deadline:
    """The deadline of a whole call (all chunks, tries and waits), and its other options."""

    def __init__(self, timeout: float, options: CallOptions = CallOptions()) -> None:
        if not timeout > 0:
            raise errors.InvalidArgument.of_field("timeout", "must be a number of seconds above 0")
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
    """The tries of one message. Call `wait_after` after every failure."""

    def __init__(
        self,
        deadline: Deadline,
        patience: Patience,
        identity: Callable[[], Metadata] = tuple,
        request: object | None = None,
    ) -> None:
        """Start the tries; `identity` returns the caller's metadata and is called by `begin`."""
        self._deadline = deadline
        self._patience = patience
        self._identity = identity
        self._request = request
        self.begin()

    def begin(self) -> None:
        """Reset the count and take a new request id, which a server uses to match tries."""
        self._failed = 0
        self._failing_since = 0.0
        self._error: errors.JudgedError | None = None
        request_id = str(uuid.uuid4())
        given = self._deadline.options.metadata or {}
        own = [(name.lower(), text) for name, text in given.items()]  # gRPC needs lower case
        self.metadata = ((REQUEST_ID, request_id), *self._identity(), *own)
        if isinstance(self._request, pb.BatchJudgeRequest) and not self._request.request_id:
            self._request.request_id = request_id

    def timeout(self) -> float:
        """Return the seconds the next try may take.

        With no time left, raises the error of the last try, or DeadlineExceeded before any try.
        """
        try:
            return self._deadline.left()
        except errors.DeadlineExceeded:
            if self._error is None:
                raise
            raise self._error from None

    def wait_after(self, error: errors.JudgedError) -> float:
        """Return the seconds to wait before the next try; raise the error if there is no next try.

        There is none if the failure is permanent, the wait would outlast the deadline, the retries
        are used up, or the server has never answered within UNREACHED_S.
        """
        if not may_retry(error):
            raise error from None
        # Only gRPC's message tells a port without a listener from a connection that broke.
        if error.reason or not _UNREACHED.search(error.message):
            self._patience.reached = True
        self._failed += 1
        self._error = error
        most = self._deadline.options.max_retries
        if most is not None and self._failed > most:
            raise error from None
        now = time.monotonic()
        if self._failed == 1:
            self._failing_since = now
        # The exponent is bounded: the float would overflow after a thousand tries.
        longest = min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(self._failed - 1, 10))
        # Full jitter, so that callers rejected together do not retry together.
        wait = random.uniform(0, longest)  # noqa: S311 - jitter is not secret
        wait += getattr(error, "retry_after", None) or 0.0
        busy = isinstance(error, errors.Overloaded)
        patient = busy or (self._patience.reached and self._patience.waits)
        if not patient and now + wait - self._failing_since > UNREACHED_S:
            raise error from None
        left = self.timeout()
        if left <= wait:
            raise error from None
        self._patience.failed(error, left)
        return wait


class Stream(Generic[Item]):
    """A call with a streamed reply: what to send, and what was received, over all tries."""

    def __init__(self) -> None:
        self.done = False
        """Whether nothing is left to send."""
        self.progressed = False
        """Whether this try received anything new."""
        self._failure: Exception | None = None

    def request(self) -> object:
        """Return what the next try sends: a message, or an iterator of messages."""
        raise NotImplementedError

    def written(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield the messages of a request; an exception from the caller's data ends them.

        gRPC reads them on its own thread and hides exceptions there, so the exception is kept and
        raised once the stream has ended.
        """
        try:
            yield from messages
        except Exception as failure:  # noqa: BLE001 - raised where the caller waits
            self._failure = failure

    def take(self, reply: Any) -> Item | None:  # noqa: ANN401 - a message of this stream
        """Process a reply; return its item for the caller, if any."""
        raise NotImplementedError

    def ended(self) -> None:
        """Handle the end of the stream. Raises an error if the stream is incomplete."""
        if self._failure is not None:
            raise self._failure
        self.done = True

    def wait_after(self, error: errors.JudgedError, attempts: Attempts) -> float:
        """Return the seconds to wait before the next try; raise the error if there is none."""
        if self._failure is not None:
            raise self._failure
        if self.progressed:
            attempts.begin()  # the stream made progress: reset the count
        return attempts.wait_after(error)

    def rest(self) -> Iterable[Item]:
        """Return the items that are left for the caller once nothing is left to send."""
        return ()


def derived_id(*parts: object) -> str:
    """Return a request_id (a UUID of version 4) derived from the parts: equal for equal parts."""
    digest = hashlib.sha256(repr(parts).encode(errors="surrogatepass")).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))
