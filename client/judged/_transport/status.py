"""From a gRPC failure to one of our errors, in the words of a caller in Python.

The classes are in `errors`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.message import DecodeError, Message

from judged import errors
from judged._transport.channel import fails_by_tls, hint
from judged.internal.v1 import status_pb2

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
_KINDS: Mapping[str, type[Message]] = {
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
