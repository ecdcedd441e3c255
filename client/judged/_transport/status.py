"""From a gRPC failure to one of our errors, in the words of a caller in Python.

The classes are in `errors`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from judged import errors
from judged._transport.channel import fails_by_tls, hint
from judged.internal.v1 import status_pb2

REQUEST_ID = "x-request-id"
_DETAILS = "grpc-status-details-bin"
BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
_Code = grpc.StatusCode
_UNREACHED = re.compile(
    r"failed to connect|backends failing|upstream connect|resol|domain name", re.IGNORECASE
)
_CLASSES: dict[grpc.StatusCode, type[errors.JudgedError]] = {
    _Code.INVALID_ARGUMENT: errors.InvalidArgument,
    _Code.OUT_OF_RANGE: errors.InvalidArgument,
    _Code.NOT_FOUND: errors.NotFound,
    _Code.UNIMPLEMENTED: errors.NotFound,
    _Code.FAILED_PRECONDITION: errors.FailedPrecondition,
    _Code.UNAUTHENTICATED: errors.PermissionDenied,
    _Code.PERMISSION_DENIED: errors.PermissionDenied,
    _Code.RESOURCE_EXHAUSTED: errors.Overloaded,
    _Code.UNAVAILABLE: errors.Unavailable,
    _Code.DEADLINE_EXCEEDED: errors.DeadlineExceeded,
    # Our own cancels never get here: this is a server dropping calls at the end of its drain.
    _Code.CANCELLED: errors.Unavailable,
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
    code = failure.code()
    trailers = dict(failure.trailing_metadata() or ())
    info, bad_request, retry_after = _details(trailers.get(_DETAILS))
    message = in_python(failure.details() or code.name)
    if code is _Code.CANCELLED:
        message = f"{target} dropped the call; it may be shutting down"
    elif code is _Code.UNAVAILABLE and not info.reason:
        message = f"can't reach {target}: {message}; {hint(target, message)}"
    kind = _CLASSES.get(code, errors.InternalError)
    if info.reason == BUDGET_EXHAUSTED:
        kind = errors.BudgetExhausted
    error = kind(
        message,
        code=code.name,
        reason=info.reason,
        metadata=dict(info.metadata),
        request_id=str(trailers.get(REQUEST_ID, "")),
    )
    if isinstance(error, errors.InvalidArgument) and bad_request.field_violations:
        error.field = bad_request.field_violations[0].field
    if isinstance(error, errors.Retryable):
        error.retry_after = retry_after
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


def _details(
    raw: str | bytes | None,
) -> tuple[status_pb2.ErrorInfo, status_pb2.BadRequest, float | None]:
    info, bad_request = status_pb2.ErrorInfo(), status_pb2.BadRequest()
    retry_after: float | None = None
    if isinstance(raw, bytes):
        try:
            for detail in status_pb2.Status.FromString(raw).details:
                name = detail.type_url.rpartition(".")[2]
                if name == "ErrorInfo":
                    info = status_pb2.ErrorInfo.FromString(detail.value)
                elif name == "BadRequest":
                    bad_request = status_pb2.BadRequest.FromString(detail.value)
                elif name == "RetryInfo":
                    delay = status_pb2.RetryInfo.FromString(detail.value).retry_delay
                    retry_after = delay.ToNanoseconds() / 1e9
        except DecodeError:
            pass  # a proxy's details, not ours: the code and the message still stand
    return info, bad_request, retry_after


def in_python(message: str) -> str:
    """Return a server's message with "MATCHING_MODE_ANY" as "Matching.ANY", and so on."""
    return _FULL_NAME.sub(lambda found: f"{_CHOICES[found[1]]}.{found[2]}", message)
